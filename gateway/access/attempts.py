"""Limit the calls with wrong credentials, or without any, per source address.

This keeps callers from guessing credentials and from flooding the logs with refused calls. Beyond
the limit, unknown credentials from the address are refused unchecked. Several callers may share an
address behind a proxy or a router, so credentials that were accepted before are still checked.
Calls without credentials and webhooks are counted separately, so that they do not block other
calls: a code host with a wrong secret repeats its deliveries.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import lru_cache

from codelode.access import Principal
from codelode.bounded import put
from codelode.errors import Busy, Unauthenticated
from codelode.ports import CallLimit, CallLimits
from gateway.access import Access
from gateway.access.identity import NO_CREDENTIALS, Credentials

#: Maximum number of remembered addresses, and of accepted credentials; the oldest are dropped.
MAX_REMEMBERED = 10_000
#: Prefix length of an IPv6 network whose addresses usually all belong to one site.
IPV6_SITE_BITS = 64


class GuardedAccess:
    """Finds the principal of a call. `counts` is None if refused calls are not limited."""

    def __init__(
        self,
        access: Access,
        counts: CallLimits | None,
        limit: CallLimit,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._counts = counts
        self._limit = limit
        self._clock = clock
        self._blocked_until: OrderedDict[str, float] = OrderedDict()  # by address
        self._accepted: OrderedDict[str, None] = OrderedDict()  # digests

    async def principal(self, credentials: Credentials, *, source: str) -> Principal:
        """Return the principal. Raises Unauthenticated, Unavailable, and Busy beyond the limit."""
        if self._counts is None:
            return await self._access.principal(credentials)
        digest = hashlib.sha256(repr(credentials).encode()).hexdigest()
        address = _origin(credentials, source)
        if digest not in self._accepted:
            self._require_unblocked(address)
        try:
            principal = await self._access.principal(credentials)
        except Unauthenticated:
            self._accepted.pop(digest, None)
            await self._count(self._counts, address)
            raise
        put(self._accepted, digest, None, most=MAX_REMEMBERED)
        return principal

    def rechecked(
        self, credentials: Credentials, principal: Principal
    ) -> AbstractAsyncContextManager[None]:
        """Check the rights of the caller while the block runs, as `Access.rechecked` does."""
        return self._access.rechecked(credentials, principal)

    def _require_unblocked(self, address: str) -> None:
        wait_s = self._blocked_until.get(address, 0.0) - self._clock()
        if wait_s > 0:
            raise Busy(
                f"too many calls from {address} were refused; correct their credentials, and try "
                f"again in {wait_s:.1f} s",
                retry_s=wait_s,
            )

    async def _count(self, counts: CallLimits, address: str) -> None:
        wait_s = await counts.take(f"wrong:{address}", "", self._limit)
        if wait_s:
            put(self._blocked_until, address, self._clock() + wait_s, most=MAX_REMEMBERED)


def _origin(credentials: Credentials, source: str) -> str:
    """Return the key that refused calls are counted under: the network, and the kind of call."""
    if credentials == NO_CREDENTIALS:
        return f"{network(source)} without credentials"
    if credentials.webhook is not None:
        return f"{network(source)} with webhooks of {credentials.webhook or 'unknown secrets'}"
    return network(source)


@lru_cache(maxsize=1_024)
def network(source: str) -> str:
    """Return the site network of an IPv6 address; IPv4 addresses and other texts as they are."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_SITE_BITS), strict=False))
