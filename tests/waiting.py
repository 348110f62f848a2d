"""Waiting for a condition, in place of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from structlog.testing import capture_logs

from codelode.errors import Unavailable

T = TypeVar("T")

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


async def until(condition: Callable[[], object], what: str, *, seconds: float = 60) -> None:
    """Returns when the condition holds, while the event loop goes on; fails after the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(0.01)


async def answered(ask: Callable[[], Awaitable[T]], *, seconds: float = 60) -> T:
    """Returns the answer of a server, which may take longer than a search waits for it.

    Where other work takes all processors, a server may not answer a probe within its second.
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
    """A search whose calls are made again while its server is too busy to answer."""

    def __init__(self, search: object) -> None:
        self._search = search

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._search, name)
        if not inspect.iscoroutinefunction(method):
            return method
        return lambda *args, **kwargs: answered(lambda: method(*args, **kwargs))


async def logged_principal(call: Awaitable[object]) -> str:
    """Makes the only call of a gateway in this process, and returns the principal that it logs."""

    def principals() -> list[str]:
        """Lines of calls that were refused, which may be late, have none."""
        found = [line.get("principal", "") for line in logged if line["event"] == "rpc"]
        return [name for name in found if name]

    with capture_logs() as logged:
        await call
        await until(principals, "the log line of the call")
    return principals()[-1]
