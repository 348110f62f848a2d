"""Wait for a condition instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from structlog.testing import capture_logs

from codelode.errors import Unavailable

T = TypeVar("T")

#: Shortest and longest pause between two checks, seconds. Between these bounds, a pause is
#: PAUSE_PER_CHECK times as long as the check, which leaves the processor to the awaited work.
PAUSE_S = (0.02, 0.2)
PAUSE_PER_CHECK = 8


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    seconds: float = 60,
    give_up: Callable[[], str] = lambda: "",
) -> None:
    """Return when the condition holds; fail after `seconds`, or once `give_up` returns a reason."""
    deadline = time.monotonic() + seconds
    shortest_s, longest_s = PAUSE_S
    while True:
        checked_at = time.monotonic()
        if condition():
            return
        reason = give_up()
        assert not reason, f"waiting for {what}: {reason}"
        now = time.monotonic()
        assert now < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(min(max(shortest_s, PAUSE_PER_CHECK * (now - checked_at)), longest_s))


async def until(condition: Callable[[], object], what: str, *, seconds: float = 60) -> None:
    """Return when the condition holds, without blocking the event loop; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(0.01)


async def answered(ask: Callable[[], Awaitable[T]], *, seconds: float = 60) -> T:
    """Return the answer of a server; ask again while it is unavailable.

    If other work keeps all processors busy, a server may not answer a probe within a second.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await ask()
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(PAUSE_S[1])


class Patient:
    """A search that repeats its calls while the server is too busy to answer."""

    def __init__(self, search: object) -> None:
        self._search = search

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._search, name)
        if not inspect.iscoroutinefunction(method):
            return method
        return lambda *args, **kwargs: answered(lambda: method(*args, **kwargs))


async def logged_principal(call: Awaitable[object]) -> str:
    """Make the only call of a gateway in this process, and return the principal that it logs."""

    def principals() -> list[str]:
        # Lines of refused calls, which may come late, have no principal.
        found = [line.get("principal", "") for line in logged if line["event"] == "rpc"]
        return [name for name in found if name]

    with capture_logs() as logged:
        await call
        await until(principals, "the log line of the call")
    return principals()[-1]
