"""Limit how often each principal may call, and how many of its calls run at once.

`gateway.calls` admits the calls of every face here. All gateways share the counts, in Redis. While
Redis is unreachable, each gateway counts its own calls, so that calls are neither refused because
of that nor unlimited. The error of a refused call has the time after which to try again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import uuid4

import structlog

from codelode.access import Principal
from codelode.errors import Busy
from codelode.loopback import is_on_loopback
from codelode.ports import CallLimit, CallLimits
from codelode.settings import Settings
from gateway.service.capabilities import CAPABILITIES, Kind
from gateway.throttle import Throttle

#: A full bucket has the tokens of this many seconds, which allows bursts.
BURST_S = 10
#: Maximum number of open streams of a principal; streams mostly wait.
STREAMS = 100
#: Time after which to repeat a call that was refused because too many were running, seconds.
RETRY_S = 0.5
#: Shortest time between two log events about refused calls, seconds.
LOG_INTERVAL_S = 1.0

_log = structlog.get_logger("gateway")


def are_on(settings: Settings) -> bool:
    """Return whether calls are limited: by default if other machines can call the gateway."""
    if settings.limits != "auto":
        return settings.limits == "on"
    addresses = filter(None, (settings.listen, settings.listen_mtls, settings.http_listen))
    return not all(one.startswith("unix:") or is_on_loopback(one) for one in addresses)


def limiter(settings: Settings, counts: CallLimits | None) -> Limiter:
    """Return the limiter with the limits of the settings; without counts nothing is limited."""
    return Limiter(
        counts,
        {
            Kind.SEARCH: _limit(settings.search_per_minute, settings.search_at_once),
            Kind.CONTEXT: _limit(settings.context_per_minute, settings.context_at_once),
            Kind.WRITE: _limit(settings.write_per_minute, settings.write_at_once),
            Kind.STREAM: _limit(settings.search_per_minute, STREAMS),
        },
    )


def wrong_credentials(settings: Settings) -> CallLimit:
    """Return the limit of calls with wrong credentials from one address."""
    return _limit(settings.wrong_credentials_per_minute, 0)


def _limit(per_minute: int, at_once: int) -> CallLimit:
    return CallLimit(per_minute, max(1, per_minute * BURST_S // 60), at_once)


class Limiter:
    """Admits calls within the limit of their kind. `counts` is None if nothing is limited."""

    def __init__(self, counts: CallLimits | None, by_kind: Mapping[Kind, CallLimit]) -> None:
        self._counts = counts
        self._by_kind = by_kind
        self._releasing: set[asyncio.Task[None]] = set()
        self._refused: Counter[str] = Counter()  # by principal, since the last log event
        self._logging = Throttle(LOG_INTERVAL_S)

    @asynccontextmanager
    async def admitted(self, principal: Principal, function: str) -> AsyncIterator[None]:
        """Count the call of a service function while it runs. Raises Busy beyond a limit."""
        kind = CAPABILITIES[function].kind
        limit = self._by_kind[kind]
        if self._counts is None:
            yield
            return
        name, call = f"{kind}:{principal.name}", uuid4().hex
        try:
            wait_s = await self._counts.take(name, call, limit)
        except asyncio.CancelledError:  # the call may be counted already
            self._release(self._counts, name, call)
            raise
        if wait_s != 0:
            raise self._refusal(principal.name, kind, limit, wait_s)
        try:
            yield
        finally:
            if limit.at_once:
                self._release(self._counts, name, call)

    def _release(self, counts: CallLimits, name: str, call: str) -> None:
        """Release the call in a task, so that its answer does not wait for that."""
        releasing = asyncio.create_task(counts.release(name, call))
        self._releasing.add(releasing)
        releasing.add_done_callback(self._releasing.discard)

    def _refusal(self, name: str, kind: Kind, limit: CallLimit, wait_s: float | None) -> Busy:
        self._refused[name] += 1
        if self._logging.passes():
            _log.warning("calls_limited", calls=dict(self._refused))
            self._refused.clear()
        if wait_s is None:
            return Busy(
                f"{name} has {limit.at_once} {kind} calls at work, which is its limit; try again "
                "when one has ended",
                retry_s=RETRY_S,
            )
        return Busy(
            f"{name} has reached its limit of {limit.per_minute:,} {kind} calls per minute; try "
            f"again in {wait_s:.1f} s",
            retry_s=wait_s,
        )
