"""The semantic query cache in Redis: a list of vectors per bucket, compared by the client.

A bucket holds the queries with the same filters, options, and index generation, so it is small.
Only its newest entries are compared, which bounds what one search reads.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import redis.asyncio

from codelode.backends.nearest import nearest
from codelode.backends.redis import keys, scripts
from codelode.backends.redis.cache import TIMEOUT_S, Breaker, Guard
from codelode.vectors import Vector

#: Number of entries that are compared: 64 vectors of 256 dimensions are 32 kB.
COMPARED = 64

#: Vectors are stored with 16 bits per component, which changes a cosine by less than 0.001.
_PACKED = np.dtype("<f2")


class RedisSemanticQueryCache:
    """Implements the port SemanticQueryCache.

    `entries`: maximum number of queries; 0 stores none.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        *,
        entries: int,
        prefix: str = "codelode:",
        timeout_s: float = TIMEOUT_S,
        breaker: Breaker | None = None,
    ) -> None:
        self._client = client
        self._entries = entries
        self._base = f"{prefix}{{cache}}"
        self._guarded = Guard(timeout_s=timeout_s, breaker=breaker)
        self._remember = client.register_script(scripts.load("semantic_cache.lua")["remember"])

    async def nearest(self, bucket: str, vector: Vector) -> tuple[str, float] | None:
        if not self._entries:
            return None
        name = keys.encode(f"{self._base}:n:{bucket}")
        stored = await self._guarded(lambda: self._read(name))
        known = [_unpacked(entry, len(vector)) for entry in stored or ()]
        return nearest(vector, [one for one in known if one is not None])

    async def remember(self, bucket: str, vector: Vector, key: str, *, ttl_s: int) -> None:
        if not self._entries:
            return
        args = (keys.encode(bucket), _packed(vector, key), ttl_s, self._entries)
        await self._guarded(lambda: self._remember(keys=[self._base], args=args))

    async def close(self) -> None:
        await self._client.aclose()

    async def _read(self, name: bytes) -> list[bytes]:
        return cast("list[bytes]", await self._client.lrange(cast("str", name), 0, COMPARED - 1))


def _packed(vector: Vector, key: str) -> bytes:
    return len(vector).to_bytes(4, "little") + vector.astype(_PACKED).tobytes() + keys.encode(key)


def _unpacked(entry: bytes, dim: int) -> tuple[str, Vector] | None:
    """Decode key and vector of an entry; None if it has another dimension."""

    if int.from_bytes(entry[:4], "little") != dim:
        return None
    end = 4 + dim * _PACKED.itemsize
    vector = np.frombuffer(entry[4:end], _PACKED).astype(np.float32)
    return keys.decode(entry[end:]), vector
