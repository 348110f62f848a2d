"""Keep values that expire in Redis, so that every gateway has them."""

from __future__ import annotations

from typing import cast

import redis.asyncio

from codelode.backends.redis import keys
from codelode.backends.redis.connection import translated


class RedisExpiringValues:
    """Implements the port ExpiringValues."""

    def __init__(self, client: redis.asyncio.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._base = f"{prefix}expiring:"

    async def put(self, name: str, value: bytes, *, ttl_s: float) -> None:
        with translated():
            await self._client.set(self._key(name), value, px=round(1000 * ttl_s))

    async def add(self, name: str, value: bytes, *, ttl_s: float) -> bool:
        with translated():
            added = await self._client.set(self._key(name), value, px=round(1000 * ttl_s), nx=True)
        return added is not None

    async def replace(self, name: str, value: bytes) -> None:
        with translated():
            await self._client.set(self._key(name), value, xx=True, keepttl=True)

    async def get(self, name: str) -> bytes | None:
        with translated():
            return cast("bytes | None", await self._client.get(self._key(name)))

    async def take(self, name: str) -> bytes | None:
        with translated():
            return cast("bytes | None", await self._client.getdel(self._key(name)))

    async def close(self) -> None:
        await self._client.aclose()

    def _key(self, name: str) -> bytes:
        return keys.encode(self._base + name)
