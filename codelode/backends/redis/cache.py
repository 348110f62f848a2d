"""Keep the query cache in Redis, behind a circuit breaker.

A call that fails or takes longer than 50 ms counts as a miss. After a few consecutive failures the
breaker opens: the cache is not called for some seconds, and then one call tries again. The number
of answers is bounded because the embedded server also holds the job state and evicts nothing, so
the cache must not fill it.
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

#: Timeout of a cache call, seconds: far above the usual 1 ms, and below what a person notices.
TIMEOUT_S = 0.05

#: Consecutive failures that open the breaker, and the time that it stays open, seconds.
FAILURES_TO_OPEN = 3
OPEN_S = 5.0

#: The fastest level of zlib compresses an answer with ten hits (15 kB) to 43 % in 0.15 ms; level 6
#: reaches 39 % in 0.38 ms, and the event loop would be blocked that long for each answer.
COMPRESSION_LEVEL = 1

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Breaker:
    """A circuit breaker: opens after too many consecutive failures, for `open_s` seconds.

    It logs when it opens and when it closes, not each failure.
    """

    def __init__(
        self,
        what: str = "query_cache",
        *,
        failures_to_open: int = FAILURES_TO_OPEN,
        open_s: float = OPEN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what  # the subject of the log events
        self._failures_to_open = failures_to_open
        self._open_s = open_s
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0

    def admits(self) -> bool:
        """Return whether a call may be made. After `open_s`, a single caller tries."""
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
            _log.warning(f"{self._what}_unavailable", error=str(error))
        self._open_until = self._clock() + self._open_s

    def succeeded(self) -> None:
        if self._failures >= self._failures_to_open:
            _log.info(f"{self._what}_available")
        self._failures = 0


class Guard:
    """Runs calls with a timeout and a circuit breaker; a failed call returns None."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S, breaker: Breaker | None = None) -> None:
        self._timeout_s = timeout_s
        self._breaker = breaker or Breaker()

    async def __call__(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a call, or None if it fails, times out, or the breaker is open."""
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
    """Implements the port QueryCache. `entries`: maximum number of answers; 0 stores none."""

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
