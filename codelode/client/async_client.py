"""The asynchronous client: the methods of `Client` as coroutines and asynchronous iterators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import grpc
import grpc.aio

from codelode.client import calls
from codelode.client.async_methods import Answer, AsyncMethods
from codelode.client.calls import Call
from codelode.client.channel import DEFAULT_ADDRESS, ENVIRONMENT, Tls, connection
from codelode.client.failures import error
from codelode.client.watching import OnSilence, Silence, ended_early
from codelode.errors import CodelodeError, Unavailable

if TYPE_CHECKING:
    from codelode.model import Run


class AsyncClient(AsyncMethods):
    """A connection to one gateway for one event loop, closed by `close` or `async with`."""

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        tls: Tls = ENVIRONMENT,
    ) -> None:
        """Connect on the first call; the arguments are those of `Client`."""
        self.address, self.timeout_s = address, timeout_s
        self._how = connection(address, token, tls)

    async def watch(
        self, run: Run | str, *, on_silence: OnSilence | None = None
    ) -> AsyncGenerator[Run, None]:
        """Yield the run now and whenever it changes, until it is over; see `Client.watch`."""
        call = calls.watch_run(run)
        seen: Run | None = None
        silence = Silence(on_silence)
        while seen is None or not seen.state.is_over:
            lost = ended_early(self.address)
            try:
                async for state in self._stream(call, is_endless=True):
                    silence.end()
                    if state != seen:
                        yield state
                    seen = state
            except Unavailable as exc:
                lost = exc
            if seen is None or not seen.state.is_over:
                await asyncio.sleep(silence.pause_s(lost))

    async def is_serving(self) -> bool:
        """Return whether the gateway answers and reports that it is ready; never raises."""
        try:
            return await self._send(calls.health(), min(self.timeout_s, calls.HEALTH_TIMEOUT_S))
        except CodelodeError:
            return False

    async def close(self) -> None:
        """Close the connection."""
        if "_channel" in vars(self):
            await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @cached_property
    def _channel(self) -> grpc.aio.Channel:
        # A channel belongs to the event loop in which it is created.
        how = self._how
        if how.credentials is None:
            return grpc.aio.insecure_channel(how.target, options=how.options)
        return grpc.aio.secure_channel(how.target, how.credentials, options=how.options)

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call. May renew the token of a login first."""
        if self._how.login is None:
            return self._how.metadata()
        return await asyncio.to_thread(self._how.metadata)

    async def _send(self, call: Call[Answer], timeout_s: float | None = None) -> Answer:
        send: Any = self._channel.unary_unary(
            call.method,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        metadata = () if call.is_anonymous else await self._metadata()
        with self._translated():
            answer = await send(
                call.request, timeout=timeout_s or self.timeout_s, metadata=metadata
            )
        return call.read(answer)

    async def _stream(
        self, call: Call[Answer], *, is_endless: bool = False
    ) -> AsyncGenerator[Answer, None]:
        open_stream: Any = self._channel.unary_stream(
            call.method,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        metadata = await self._metadata()
        with self._translated():
            timeout_s = None if is_endless else self.timeout_s
            stream = open_stream(call.request, timeout=timeout_s, metadata=metadata)
            try:
                async for message in stream:
                    yield call.read(message)
            finally:
                stream.cancel()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as exc:
            raise error(exc, address=self.address, timeout_s=self.timeout_s) from exc
