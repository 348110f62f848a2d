"""The query cache in Redis, built so that it can only help.

A call that takes longer than 50 ms, or fails, reads as a miss; after a few in a row the breaker
opens and the cache is not asked at all for some seconds, then one call tries again. Answers are
bounded by count because the embedded server also holds the job state and evicts nothing: the
cache must not be what fills it.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import redis.asyncio
import structlog

from codelode.backends.redis import keys, scripts
from codelode.backends.redis.connection import translated
from codelode.errors import CodelodeError

#: Longest wait for the cache, seconds: above its usual 1 ms by far, below what a person notices.
TIMEOUT_S = 0.05

#: Failures in a row that open the breaker, and how long it stays open, seconds.
FAILURES_TO_OPEN = 3
OPEN_S = 5.0

#: zlib's fastest level: an answer of ten hits (15 kB) shrinks to 43 % in 0.15 ms; level 6 reaches
#: 39 % in 0.38 ms, which the event loop would spend on every answer.
COMPRESSION_LEVEL = 1

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Breaker:
    """Remembers failures in a row; open after too many, until `open_s` have passed.

    Says so in the log when it opens and when it closes again, not for each failure.
    """

    def __init__(
        self,
        *,
        failures_to_open: int = FAILURES_TO_OPEN,
        open_s: float = OPEN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures_to_open = failures_to_open
        self._open_s = open_s
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0

    def admits(self) -> bool:
        """Whether to make a call. While open: no; after it: one caller, on behalf of all."""
        if self._failures < self._failures_to_open:
            return True
        now = self._clock()
        if now < self._open_until:
            return False
        self._open_until = now + self._open_s
        return True

    def failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures < self._failures_to_open:
            return
        if self._failures == self._failures_to_open:
            _log.warning("query_cache_unavailable", error=str(error))
        self._open_until = self._clock() + self._open_s

    def succeeded(self) -> None:
        if self._failures >= self._failures_to_open:
            _log.info("query_cache_available")
        self._failures = 0


class Guard:
    """Calls that may fail or take too long, which then read as nothing."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S, breaker: Breaker | None = None) -> None:
        self._timeout_s = timeout_s
        self._breaker = breaker or Breaker()

    async def __call__(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """The call's result; None when the breaker is open, it fails, or it takes too long."""
        if not self._breaker.admits():
            return None
        try:
            with translated():
                async with asyncio.timeout(self._timeout_s):
                    result = await call()
        except CodelodeError as exc:
            self._breaker.failed(exc)
            return None
        self._breaker.succeeded()
        return result


class RedisCache:
    """Implements the port QueryCache. `entries`: bound on answers; 0 stores none."""

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
        self._put = client.register_script(scripts.load("cache.lua")["put"])

    async def get(self, key: str) -> bytes | None:
        if not self._entries:
            return None
        stored = await self._guarded(lambda: self._client.get(self._value_key(key)))
        return _expanded(cast("bytes | None", stored))

    async def put(self, key: str, value: bytes, *, ttl_s: int) -> None:
        if not self._entries:
            return
        args = (keys.encode(key), zlib.compress(value, COMPRESSION_LEVEL), ttl_s, self._entries)
        await self._guarded(lambda: self._put(keys=[self._base], args=args))

    async def close(self) -> None:
        await self._client.aclose()

    def _value_key(self, key: str) -> bytes:
        return keys.encode(f"{self._base}:v:{key}")


def _expanded(stored: bytes | None) -> bytes | None:
    if stored is None:
        return None
    try:
        return zlib.decompress(stored)
    except zlib.error:
        return None
