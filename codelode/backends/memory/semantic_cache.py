"""Keep the semantic query cache in a list."""

from __future__ import annotations

import time
from collections.abc import Callable

from codelode.backends.nearest import nearest
from codelode.vectors import Vector


class MemorySemanticQueryCache:
    """Implements the port SemanticQueryCache.

    `entries`: maximum number of queries; 0 stores none.
    """

    def __init__(self, *, entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries = entries
        self._clock = clock
        self._kept: list[tuple[str, float, str, Vector]] = []  # bucket, expiry, key, vector

    async def nearest(self, bucket: str, vector: Vector) -> tuple[str, float] | None:
        now = self._clock()
        known = [
            (key, other)
            for name, expires, key, other in reversed(self._kept)
            if name == bucket and now < expires and other.shape == vector.shape
        ]
        return nearest(vector, known)

    async def remember(self, bucket: str, vector: Vector, key: str, *, ttl_s: int) -> None:
        self._kept.append((bucket, self._clock() + ttl_s, key, vector))
        self._kept = self._kept[-self._entries :] if self._entries else []

    async def close(self) -> None:
        self._kept.clear()
