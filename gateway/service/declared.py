"""Wait for the workers to read what the sources file declares since a moment ago."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from codelode import sources as sources_file
from codelode.errors import NotFound, Unavailable
from codelode.sources import Connection

#: How long a connection is waited for that the sources file has and that is not known yet: the
#: workers look at the file every 5 s, once they have started. Seconds.
READ_WITHIN_S = 15.0
_POLL_S = 0.1

T = TypeVar("T")


async def once_read(
    act: Callable[[], T], *, sources: str, is_meant: Callable[[Connection], bool]
) -> T:
    """Return what `act` returns, once it knows a connection that is meant and that the file has.

    Raises NotFound as `act` does if the file has none, InvalidSettings, and Unavailable.
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


def _has(sources: str, is_meant: Callable[[Connection], bool]) -> bool:
    """Return whether the file declares a connection that is meant. Raises InvalidSettings."""
    return any(map(is_meant, sources_file.read(Path(sources).expanduser()))) if sources else False
