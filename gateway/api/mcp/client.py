"""Give the tools a client whose calls are admitted and answered in this process.

The tools are written for the client of the gateway. Its calls hold the messages of the gRPC API, so
the services of that API answer them, and all faces give the same answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from fastapi import Request

from codelode.client import calls
from codelode.client.async_methods import Answer, AsyncMethods
from codelode.client.calls import Call
from codelode.errors import CodelodeError, Corrupt
from gateway.api.rest.calls import TIMEOUT_S, Face, received_as, too_late
from gateway.api.rpc.interceptors import called_by
from gateway.api.rpc.services import GraphService, IndexService, SearchService
from gateway.calls import Received
from gateway.service.capabilities import FUNCTIONS

if TYPE_CHECKING:
    from codelode.client.watching import OnSilence
    from codelode.model import Run

#: The services that answer the calls of the tools.
SERVICES = {one.__name__: one for one in (SearchService, GraphService, IndexService)}


class AdmittedClient(AsyncMethods):
    """Makes calls on behalf of the caller of an HTTP request; each call is admitted separately."""

    def __init__(self, face: Face, request: Request, id: str) -> None:
        self._face, self._request, self._id = face, request, id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def watch(
        self, run: Run | str, *, on_silence: OnSilence | None = None
    ) -> AsyncGenerator[Run, None]:
        """Yield the run now and whenever it changes; a gateway that shuts down ends it."""
        async with aclosing(self._stream(calls.watch_run(run), is_endless=True)) as runs:
            async for one in runs:
                yield one

    async def _stream(
        self, call: Call[Answer], *, is_endless: bool = False
    ) -> AsyncGenerator[Answer, None]:
        ends_at = time.monotonic() + TIMEOUT_S
        remaining_s = (lambda: None) if is_endless else (lambda: ends_at - time.monotonic())
        async with (
            self._admitted(call, remaining_s) as answers,
            aclosing(answers(call.request, None)) as messages,
        ):
            async for message in messages:
                yield call.read(message)

    async def _send(self, call: Call[Answer]) -> Answer:
        ends_at = time.monotonic() + TIMEOUT_S
        try:
            async with asyncio.timeout(TIMEOUT_S):
                async with self._admitted(call, lambda: ends_at - time.monotonic()) as answer:
                    return call.read(await answer(call.request, None))
        except TimeoutError:
            raise too_late() from None

    @asynccontextmanager
    async def _admitted(
        self, call: Call[Any], remaining_s: Callable[[], float | None]
    ) -> AsyncIterator[Callable[..., Any]]:
        """Yield the method that answers the call, once the call is admitted.

        After an unexpected error, the caller gets the request id; only the log has the details.
        """
        service, _, method = call.method.removeprefix("/codelode.v1.").partition("/")
        try:
            async with self._face.calls.admitted(self._received(method, remaining_s)) as principal:
                called_by(principal)
                yield getattr(SERVICES[service](self._face.dependencies), method)
        except CodelodeError:
            raise
        except Exception:  # noqa: BLE001 - any error becomes an answer
            raise Corrupt(f"internal error {self._id}: the server's log has the details") from None

    def _received(self, method: str, remaining_s: Callable[[], float | None]) -> Received:
        received = received_as(
            self._request, FUNCTIONS[method], self._id, remaining_s=remaining_s, code=outcome
        )
        return replace(received, face="mcp", method=method)


def outcome(error: BaseException | None) -> str:
    """Return the outcome of a call for the log line: the name of its error, or `ok`."""
    return "ok" if error is None else type(error).__name__
