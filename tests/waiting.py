"""Waiting for a condition, in place of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    seconds: float = 60,
    give_up: Callable[[], str] = lambda: "",
) -> None:
    """Returns when the condition holds; fails after the time, or for what `give_up` says."""
    deadline = time.monotonic() + seconds
    while not condition():
        reason = give_up()
        assert not reason, f"waiting for {what}: {reason}"
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)
