"""Limit calls by counts in Redis, which all gateways share; each step is one script.

If Redis takes longer than 50 ms, the gateway counts by itself, because a search must not wait for
the count of searches. After a few such failures, a circuit breaker stops the calls to Redis for
some seconds. While Redis is unreachable, each gateway thus admits as many calls as otherwise all
gateways together. Redis is told again which calls have ended until it has confirmed that: on a busy
machine, the missed ends would otherwise soon be all calls that a principal may have at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import cast

import redis.asyncio

from codelode.backends.redis import keys, scripts
from codelode.backends.redis.cache import TIMEOUT_S, Breaker, Guard
from codelode.bounded import put
from codelode.ports import CALL_LEASE_S, CallLimit, CallLimits

_US = 1_000_000

#: Maximum number of ended calls of a name that Redis has not confirmed. Redis counts no more,
#: unless limits were raised to more calls at once.
MAX_ENDED = 1_000

#: Maximum number of names with such calls; the calls of the others count until their leases end.
MAX_NAMES_ENDED = 10_000


class RedisCallLimits:
    """Implements the port CallLimits, per `organisation`; uses `own` while Redis is unreachable."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        own: CallLimits,
        *,
        organisation: str = "",
        prefix: str = "codelode:",
        timeout_s: float = TIMEOUT_S,
        breaker: Breaker | None = None,
    ) -> None:
        self._client = client
        self._own = own
        self._base = f"{prefix}{{limits}}:{organisation}"
        self._guarded = Guard(timeout_s=timeout_s, breaker=breaker or Breaker("call_limits"))
        sources = scripts.load("call_limits.lua")
        self._take = client.register_script(sources["take"])
        self._release = client.register_script(sources["release"])
        #: The ended calls by name, until Redis has confirmed their ends.
        self._ended: OrderedDict[str, set[str]] = OrderedDict()

    async def take(self, name: str, call: str, limit: CallLimit) -> float | None:
        interval = round(_US * 60 / limit.per_minute) if limit.per_minute else 0
        lease = round(_US * CALL_LEASE_S)
        ended = tuple(self._ended.get(name, ()))
        counted = (call, interval, limit.burst, limit.at_once, lease)
        args: list[str | int | bytes] = [keys.encode(name), *counted, *ended]
        is_sent = False

        async def take() -> object:
            nonlocal is_sent
            is_sent = True
            return await self._take(keys=[self._base], args=args)

        found = await self._guarded(take)
        if found is None:
            own = await self._own.take(name, call, limit)
            if own != 0 and is_sent:  # Redis may have counted the call before its answer was late
                self._add_ended(name, call)
            return own
        self._confirm(name, ended)
        wait_us = cast("int", found)
        return None if wait_us < 0 else wait_us / _US

    async def release(self, name: str, call: str) -> None:
        await self._own.release(name, call)
        ended = tuple(self._add_ended(name, call))
        args: list[str | bytes] = [keys.encode(name), *ended]
        if await self._guarded(lambda: self._release(keys=[self._base], args=args)) is not None:
            self._confirm(name, ended)

    def _add_ended(self, name: str, call: str) -> set[str]:
        """Add an ended call, and return all of the name."""
        known = self._ended.get(name, set())
        put(self._ended, name, known, most=MAX_NAMES_ENDED)
        if len(known) < MAX_ENDED:
            known.add(call)
        return known

    def _confirm(self, name: str, ended: Iterable[str]) -> None:
        """Forget calls whose end Redis knows."""
        known = self._ended.get(name, set())
        known.difference_update(ended)
        if not known:
            self._ended.pop(name, None)

    async def close(self) -> None:
        await self._client.aclose()
