"""Bound how long a search waits for the server, and fail fast while there is none.

The client library retries for a minute when the server is gone. Here, a call without an answer
after GRACE_S probes whether the server is there, and is given up if it is not; a slow server may
take up to MAX_WAIT_S. After a failed probe the circuit stays open for OPEN_S: calls fail at once
instead of queueing up for a dead server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from codelode.backends.weaviate.errors import TRANSLATIONS, translate, translated
from codelode.errors import CodelodeError, TimedOut, Unavailable

T = TypeVar("T")

#: Wait for an answer before the server is probed, longest wait for the probe, and time for which
#: calls fail at once after a failed probe, seconds.
GRACE_S = 1.0
PROBE_S = 1.0
OPEN_S = 1.0

#: Longest wait for a server that is there, seconds.
MAX_WAIT_S = 12.0


class CircuitBreaker:
    """Runs calls of one server. `probe` returns if the server is there, and raises otherwise."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[object]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._open_until = 0.0
        self._reason = ""

    async def __call__(self, call: Awaitable[T]) -> T:
        """Return what the call returns. Raises Unavailable soon when there is no server."""
        task = asyncio.ensure_future(call)
        try:
            if self._clock() < self._open_until:
                raise Unavailable(self._reason)
            await asyncio.wait({task}, timeout=GRACE_S)
            if not task.done():
                await self._require_server()
                await asyncio.wait({task}, timeout=MAX_WAIT_S - GRACE_S)
            if not task.done():
                raise TimedOut(f"Weaviate did not answer within {MAX_WAIT_S:.0f} s")
            with translated():
                return task.result()
        finally:
            task.cancel()

    async def _require_server(self) -> None:
        try:
            async with asyncio.timeout(PROBE_S):
                await self._probe()
        except TimeoutError as exc:
            raise self._opened(TimedOut("Weaviate does not answer")) from exc
        except tuple(TRANSLATIONS) as exc:
            raise self._opened(translate(exc)) from exc

    def _opened(self, error: CodelodeError) -> CodelodeError:
        self._open_until = self._clock() + OPEN_S
        self._reason = str(error)
        return error
