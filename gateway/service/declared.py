"""Choose among the connections of the sources file, which the workers read with a delay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from codelode import sources as sources_file
from codelode.access import Principal
from codelode.errors import Denied, NotFound, Unavailable
from codelode.sources import Connection
from gateway.service.catalog import unknown

#: How long to wait for a connection that is in the sources file but not known yet, seconds: running
#: workers read the file every 5 s.
READ_WITHIN_S = 15.0
_POLL_S = 0.1

T = TypeVar("T")


async def once_read(
    act: Callable[[], T], *, sources: str, is_meant: Callable[[Connection], bool]
) -> T:
    """Return the result of `act`; repeat it while the workers have not read a connection yet.

    Raises NotFound if `act` does and `is_meant` holds for no connection of the file,
    InvalidSettings, and Unavailable.
    """
    ends_at = time.monotonic() + READ_WITHIN_S
    while True:
        try:
            return await asyncio.to_thread(act)
        except NotFound:
            if not await asyncio.to_thread(_has, sources, is_meant):
                raise
        if time.monotonic() >= ends_at:
            raise Unavailable(
                "the workers have not read the sources file yet, or read another one: try again, "
                "and look at the log of the pull workers"
            )
        await asyncio.sleep(_POLL_S)


def chosen(connection: str, known: Iterable[str], *, none: str) -> tuple[str, ...]:
    """Return the named connection, or all. Raises NotFound, with `none` if there are none."""
    names = tuple(known)
    if not names:
        raise NotFound(none)
    if connection and connection not in names:
        raise NotFound(unknown("connection", connection, names))
    return (connection,) if connection else names


def require_everything(principal: Principal, why: str) -> None:
    """Raise Denied for admins with bounds, because a connection may register any repository."""
    if not principal.visible.is_everything:
        raise Denied(f"{why}, and your key sees only some; ask an admin whose key has no globs")


def _has(sources: str, is_meant: Callable[[Connection], bool]) -> bool:
    """Return whether `is_meant` holds for a connection of the file. Raises InvalidSettings."""
    return any(map(is_meant, sources_file.read(Path(sources).expanduser()))) if sources else False
