"""The asynchronous client: the methods of `Client` as coroutines and asynchronous iterators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import grpc
import grpc.aio

from codelode.client import calls
from codelode.client.calls import Call
from codelode.client.channel import DEFAULT_ADDRESS, ENVIRONMENT, Tls, connection
from codelode.client.failures import error
from codelode.client.watching import OnSilence, Silence, ended_early
from codelode.errors import CodelodeError, Unavailable

if TYPE_CHECKING:
    from codelode.client.index import FileFailure
    from codelode.model import Run

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _method(
    call: Callable[Arguments, Call[Answer]],
) -> Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Answer]]:
    """Make the method that sends the call and awaits its answer."""

    @wraps(call)
    async def method(
        self: AsyncClient, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        return await self._send(call(*args, **kwargs))

    return method


class AsyncClient:
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

    search = _method(calls.search)
    context = _method(calls.context)
    similar = _method(calls.similar)
    read = _method(calls.read)
    explain = _method(calls.explain)
    graph = _method(calls.graph)
    cancel = _method(calls.cancel)
    status = _method(calls.status)
    repositories = _method(calls.repositories)
    set_default = _method(calls.set_default)
    label = _method(calls.label)
    remove = _method(calls.remove)
    retry = _method(calls.retry)
    enrich = _method(calls.enrich)
    create_key = _method(calls.create_key)
    keys = _method(calls.keys)
    revoke_key = _method(calls.revoke_key)
    permissions = _method(calls.permissions)
    sync_permissions = _method(calls.sync_permissions)

    async def index(
        self,
        url: str,
        *,
        name: str = "",
        ref: str = "",
        label: str = "",
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        wait: bool = True,
        on_progress: Callable[[Run], None] | None = None,
    ) -> Run:
        """Bring the index of a repository at a ref up to date; see `Client.index`."""
        call = calls.start_run(
            url, name=name, ref=ref, label=label, include=include, exclude=exclude
        )
        latest = run = await self._send(call)
        if wait:
            async for latest in self.watch(run):
                if on_progress is not None:
                    on_progress(latest)
        return latest

    async def watch(
        self, run: Run | str, *, on_silence: OnSilence | None = None
    ) -> AsyncIterator[Run]:
        """Yield the run now and whenever it changes, until it is over; see `Client.watch`."""
        call = calls.watch_run(run)
        seen: Run | None = None
        silence = Silence(on_silence)
        while seen is None or not seen.state.is_over:
            lost = ended_early(self.address)
            try:
                async for state in self._stream(call):
                    silence.end()
                    if state != seen:
                        yield state
                    seen = state
            except Unavailable as exc:
                lost = exc
            if seen is None or not seen.state.is_over:
                await asyncio.sleep(silence.pause_s(lost))

    async def failures(
        self,
        name: str | None = None,
        *,
        include_skipped: bool = False,
        include_partial: bool = False,
    ) -> AsyncIterator[FileFailure]:
        """Yield the files that are not in the index; see `Client.failures`."""
        page = ""
        while True:
            call = calls.failures(
                name, page, include_skipped=include_skipped, include_partial=include_partial
            )
            found, page = await self._send(call)
            for failure in found:
                yield failure
            if not page:
                return

    async def is_serving(self) -> bool:
        """Return whether the gateway answers and says that it is ready; never raises."""
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @cached_property
    def _channel(self) -> grpc.aio.Channel:
        # A channel belongs to the event loop that runs when it is made.
        how = self._how
        if how.credentials is None:
            return grpc.aio.insecure_channel(how.target, options=how.options)
        return grpc.aio.secure_channel(how.target, how.credentials, options=how.options)

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call; the token of a login may have to be renewed first."""
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

    async def _stream(self, call: Call[Answer]) -> AsyncIterator[Answer]:
        open_stream: Any = self._channel.unary_stream(
            call.method,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        metadata = await self._metadata()
        with self._translated():
            stream = open_stream(call.request, metadata=metadata)
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
