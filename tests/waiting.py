"""Waiting for a condition, in place of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Pauses between two looks, seconds. The pause is so many times as long as the look took, so that
#: waiting leaves the processor to what is waited for.
PAUSE_S = (0.02, 0.2)
PAUSE_PER_LOOK = 8


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    seconds: float = 60,
    give_up: Callable[[], str] = lambda: "",
) -> None:
    """Returns when the condition holds; fails after the time, or for what `give_up` says."""
    deadline = time.monotonic() + seconds
    shortest_s, longest_s = PAUSE_S
    while True:
        looked_at = time.monotonic()
        if condition():
            return
        reason = give_up()
        assert not reason, f"waiting for {what}: {reason}"
        now = time.monotonic()
        assert now < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(min(max(shortest_s, PAUSE_PER_LOOK * (now - looked_at)), longest_s))
