"""Read from a code host while this worker has the lease of its connection; translate errors.

The worker renews the lease while it reads. If the lease expires, another worker takes over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from codelode.errors import Unavailable
from workers.sources.http import Host

T = TypeVar("T")

#: Time after which another worker may take a connection that this one has not renewed, seconds.
HOLD_S = 30.0

#: Interval at which a worker renews its hold, seconds: three attempts fit into HOLD_S.
RENEW_S = 8.0

#: Errors from reading an answer that lacks a field, or has one of another type.
_MALFORMED = (KeyError, TypeError, AttributeError, ValueError)


class Holding(Protocol):
    """Grants the leases of connections; implemented by `SourceStates` and `PermissionStates`."""

    def hold(self, name: str, owner: str, *, for_s: float) -> bool: ...


async def while_held(states: Holding, name: str, owner: str, work: Awaitable[T]) -> T:
    """Return the result of `work`, and hold the connection until it is done.

    Cancels the work and raises Unavailable if another worker has the connection.
    """
    working = asyncio.ensure_future(work)
    renewing = asyncio.create_task(_renew(states, name, owner))
    await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        working.cancel()
        raise Unavailable("another worker has taken over the connection")
    renewing.cancel()
    return working.result()


async def read_host(host: Host, read: Callable[[Host], Awaitable[T]]) -> T:
    """Return what `read` gets from a host, which is opened for it and closed afterwards.

    Raises Unavailable for an answer in an unknown format, and the first error of a task group.
    """
    try:
        async with host:
            return await read(host)
    except ExceptionGroup as group:
        raise _translated(_first(group)) from group
    except _MALFORMED as exc:
        raise _translated(exc) from exc


async def _renew(states: Holding, name: str, owner: str) -> None:
    """Renew the hold until another worker has the connection."""
    while await asyncio.to_thread(states.hold, name, owner, for_s=HOLD_S):
        await asyncio.sleep(RENEW_S)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _translated(exc: Exception) -> Exception:
    if isinstance(exc, _MALFORMED):
        return Unavailable(f"the host's answer has an unknown format: {exc!r}")
    return exc
