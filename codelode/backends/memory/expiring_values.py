"""Keep values that expire in a dictionary of one process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from codelode.bounded import put

#: Maximum number of values; those stored first are forgotten.
MAX_VALUES = 10_000


class MemoryExpiringValues:
    """Implements the port ExpiringValues for one event loop. `now`: seconds, of any clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._held: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # with its expiry

    async def put(self, name: str, value: bytes, *, ttl_s: float) -> None:
        put(self._held, name, (value, self._now() + ttl_s), most=MAX_VALUES)

    async def add(self, name: str, value: bytes, *, ttl_s: float) -> bool:
        if await self.get(name) is not None:
            return False
        await self.put(name, value, ttl_s=ttl_s)
        return True

    async def replace(self, name: str, value: bytes) -> None:
        if await self.get(name) is not None:
            self._held[name] = (value, self._held[name][1])

    async def get(self, name: str) -> bytes | None:
        value, ends_at = self._held.get(name, (b"", 0.0))
        return value if name in self._held and self._now() < ends_at else None

    async def take(self, name: str) -> bytes | None:
        found = await self.get(name)
        self._held.pop(name, None)
        return found

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""
