"""Limit the calls with wrong credentials, or without any, per source address.

This keeps callers from guessing credentials and from flooding the logs with refused calls. Beyond
the limit, unknown credentials from the address are refused unchecked. Several callers may share an
address behind a proxy or a router, so credentials that were accepted before are still checked.
Calls without credentials, webhooks, and logins are counted separately, so that they do not block
other calls: a code host with a wrong secret repeats its deliveries.

Completing a login may take a request to its issuer, which should not be asked without limit. So
every failure of a login counts, even if the issuer causes it, and few run at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from weakref import WeakValueDictionary

from codelode.access import Principal
from codelode.bounded import put
from codelode.errors import Busy, Unauthenticated
from codelode.ports import CallLimit, CallLimits
from gateway.access import Access, WatchedRights
from gateway.access.identity import NO_CREDENTIALS, Credentials

#: Maximum number of remembered addresses, and of accepted credentials; the oldest are dropped.
MAX_REMEMBERED = 10_000
#: Prefix length of an IPv6 network whose addresses usually all belong to one site.
IPV6_SITE_BITS = 64
#: Maximum number of logins from one address that are completed at once; others wait. This is less
#: than `gateway.issuers.AT_ONCE`, so one address cannot keep all others from logging in.
LOGINS_AT_ONCE = 2


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
        self._logins: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def principal(self, credentials: Credentials, *, source: str) -> Principal:
        """Return the principal. Raises Unauthenticated, Unavailable, and Busy beyond the limit."""
        if self._counts is None:
            return await self._access.principal(credentials)
        address = _origin(credentials, source)
        if credentials.login is not None:
            return await self._logged_in(self._counts, credentials, address)
        digest = hashlib.sha256(repr(credentials).encode()).hexdigest()
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

    def watched(
        self, credentials: Credentials, principal: Principal
    ) -> AbstractAsyncContextManager[WatchedRights]:
        """Check the rights of the caller while the block runs, as `Access.watched` does."""
        return self._access.watched(credentials, principal)

    async def _logged_in(
        self, counts: CallLimits, credentials: Credentials, address: str
    ) -> Principal:
        """Return the principal of a login, which is completed unless the address is blocked."""
        async with self._logins.setdefault(address, asyncio.Semaphore(LOGINS_AT_ONCE)):
            self._require_unblocked(address)
            try:
                return await self._access.principal(credentials)
            except (Exception, asyncio.CancelledError):
                await self._count(counts, address)
                raise

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
    if credentials.login is not None:
        return f"{network(source)} with logins"
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
