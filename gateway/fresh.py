"""Cache values for FRESH_S, and read them in threads."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from codelode.access import FRESH_S
from codelode.bounded import put

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Held(NamedTuple, Generic[V]):
    since: float  # when reading it began
    value: asyncio.Future[V]


class FreshCache(Generic[K, V]):
    """Returns values whose reading began at most FRESH_S ago; reads them in threads.

    Concurrent callers of a value share one reading. Its error is raised to all of them, and is not
    cached. The cache holds the `entries` most recently used values.
    """

    def __init__(
        self,
        read: Callable[[K], V],
        *,
        entries: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._entries = entries
        self._clock = clock
        self._held: OrderedDict[K, _Held[V]] = OrderedDict()

    async def get(self, key: K) -> V:
        """Return the value of the key. Raises the errors of reading it."""
        held = self._held.get(key)
        if held is None or self._is_stale(held):
            held = self._started(key)
        put(self._held, key, held, most=self._entries)
        return await asyncio.shield(held.value)

    def _started(self, key: K) -> _Held[V]:
        value = asyncio.get_running_loop().run_in_executor(None, self._read, key)
        value.add_done_callback(lambda done: done.cancelled() or done.exception())
        return _Held(self._clock(), value)

    def _is_stale(self, held: _Held[V]) -> bool:
        has_failed = held.value.done() and (held.value.cancelled() or held.value.exception())
        return bool(has_failed) or self._clock() - held.since >= FRESH_S
