"""How long a search waits for a server: not at all, a moment, or until the query's own timeout.

The client library meets a server that is gone by trying again for a minute. Here, a query that
has no answer after PATIENCE_S asks whether the server is there at all, and gives up when it is
not; one that is slow may go on. After that nobody asks for REST_S, so that callers do not queue
up in front of a dead server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from codelode.backends.weaviate.errors import TRANSLATIONS, translate, translated
from codelode.errors import CodelodeError, TimedOut, Unavailable

T = TypeVar("T")

PATIENCE_S = 1.0
PROBE_S = 1.0
REST_S = 1.0

#: Longest wait for a server that is there, seconds.
LONGEST_S = 12.0


class CircuitBreaker:
    """Runs calls of one server; `probe` returns when it is there, and raises otherwise."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[object]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._rests_until = 0.0
        self._reason = ""

    async def __call__(self, call: Awaitable[T]) -> T:
        """What the call returns. Raises Unavailable soon when there is no server."""
        task = asyncio.ensure_future(call)
        try:
            self._require_awake()
            await asyncio.wait({task}, timeout=PATIENCE_S)
            if not task.done():
                await self._require_server()
                await asyncio.wait({task}, timeout=LONGEST_S - PATIENCE_S)
            if not task.done():
                raise TimedOut(f"Weaviate did not answer within {LONGEST_S:.0f} s")
            with translated():
                return task.result()
        finally:
            task.cancel()

    def _require_awake(self) -> None:
        if self._clock() < self._rests_until:
            raise Unavailable(self._reason)

    async def _require_server(self) -> None:
        try:
            async with asyncio.timeout(PROBE_S):
                await self._probe()
        except TimeoutError as exc:
            raise self._rest(TimedOut("Weaviate does not answer")) from exc
        except tuple(TRANSLATIONS) as exc:
            raise self._rest(translate(exc)) from exc

    def _rest(self, error: CodelodeError) -> CodelodeError:
        self._rests_until = self._clock() + REST_S
        self._reason = str(error)
        return error
