"""Limit the calls within one process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from codelode.bounded import put
from codelode.ports import CALL_LEASE_S, CallLimit

#: Maximum number of names that are counted; those used least recently are forgotten.
MAX_NAMES = 10_000


class MemoryCallLimits:
    """Implements the port CallLimits for one event loop. `now`: seconds, of any clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when the bucket is full again
        #: The active calls by name, in the order in which their leases end.
        self._calls: OrderedDict[str, dict[str, float]] = OrderedDict()

    async def take(self, name: str, call: str, limit: CallLimit) -> float | None:
        now = self._now()
        interval = 60 / limit.per_minute if limit.per_minute else 0.0
        full_at = max(now, self._full_at.get(name, 0.0))
        wait = full_at - now - interval * (limit.burst - 1)
        if interval and wait > 0:
            return wait
        if limit.at_once and not self._enter(name, call, limit.at_once, now):
            return None
        if interval:
            put(self._full_at, name, full_at + interval, most=MAX_NAMES)
        return 0.0

    async def release(self, name: str, call: str) -> None:
        calls = self._calls.get(name, {})
        calls.pop(call, None)
        if not calls:
            self._calls.pop(name, None)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _enter(self, name: str, call: str, at_once: int, now: float) -> bool:
        calls = self._calls.get(name, {})
        while calls and calls[oldest := next(iter(calls))] <= now:
            del calls[oldest]
        if len(calls) >= at_once:
            return False
        calls[call] = now + CALL_LEASE_S
        put(self._calls, name, calls, most=MAX_NAMES)
        return True
