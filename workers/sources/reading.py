"""Read a connection while this worker holds it, and translate errors in the host's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from codelode.errors import Unavailable
from workers.sources.http import Host

T = TypeVar("T")

#: How long a worker holds a connection without renewing it, and how often it does, seconds.
HOLD_S, RENEW_S = 30.0, 8.0


class Holding(Protocol):
    """Says which worker reads a connection; the part of the ports that this module uses."""

    def hold(self, name: str, owner: str, *, for_s: float) -> bool: ...


async def while_held(states: Holding, name: str, owner: str, reading: Awaitable[T]) -> T:
    """Return the result of `reading`. Raises Unavailable if another worker takes the connection."""
    read = asyncio.ensure_future(reading)
    keeping = asyncio.create_task(_keep(states, name, owner))
    await asyncio.wait({read, keeping}, return_when=asyncio.FIRST_COMPLETED)
    if not read.done():
        read.cancel()
        raise Unavailable("another worker has taken over the connection")
    keeping.cancel()
    return read.result()


async def asked(host: Host, counted: list[Host], ask: Callable[[Host], Awaitable[T]]) -> T:
    """Return what `ask` reads from a host. Raises Unavailable for an answer of unknown form."""
    try:
        async with host:
            counted.append(host)
            return await ask(host)
    except ExceptionGroup as group:
        raise _translated(_first(group)) from group
    except _MALFORMED as exc:
        raise _translated(exc) from exc


async def _keep(states: Holding, name: str, owner: str) -> None:
    """Renew the hold until another worker has the connection."""
    while await asyncio.to_thread(states.hold, name, owner, for_s=HOLD_S):
        await asyncio.sleep(RENEW_S)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _translated(exc: Exception) -> Exception:
    if isinstance(exc, _MALFORMED):
        return Unavailable(f"the host answers in an unknown form: {exc!r}")
    return exc


#: Errors from reading an answer that lacks a field, or has one of another type.
_MALFORMED = (KeyError, TypeError, AttributeError, ValueError)
