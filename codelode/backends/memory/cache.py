"""Store cached answers in a dictionary of one process."""

from __future__ import annotations

import time
from collections.abc import Callable


class MemoryCache:
    """Implements the port QueryCache; evicts the answers that were stored first.

    `entries`: maximum number of answers; 0 stores none.
    """

    def __init__(self, *, entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries = entries
        self._clock = clock
        self._stored: dict[str, tuple[float, bytes]] = {}  # when it expires, and the answer

    async def get(self, key: str) -> bytes | None:
        expires, value = self._stored.get(key, (0.0, b""))
        return value if self._clock() < expires else None

    async def put(self, key: str, value: bytes, *, ttl_s: int) -> None:
        self._stored.pop(key, None)
        self._stored[key] = (self._clock() + ttl_s, value)
        while len(self._stored) > self._entries:
            del self._stored[next(iter(self._stored))]

    async def close(self) -> None:
        self._stored.clear()
