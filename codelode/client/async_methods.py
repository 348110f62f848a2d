"""The methods of an asynchronous client, independent of how its calls reach the service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from codelode.client import calls
from codelode.client.calls import Call
from codelode.client.request import Grep

if TYPE_CHECKING:
    from codelode.client.results import GrepSummary, MatchingFile
    from codelode.client.watching import OnSilence
    from codelode.model import Run
    from codelode.reports import FileFailure

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _method(
    call: Callable[Arguments, Call[Answer]],
) -> Callable[Concatenate[AsyncMethods, Arguments], Coroutine[Any, Any, Answer]]:
    """Make the method that sends the call and awaits its answer."""

    @wraps(call)
    async def method(
        self: AsyncMethods, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        return await self._send(call(*args, **kwargs))

    return method


class AsyncMethods(ABC):
    """The methods of `Client` as coroutines and asynchronous iterators; subclasses send calls."""

    search = _method(calls.search)
    context = _method(calls.context)
    similar = _method(calls.similar)
    read = _method(calls.read)
    folder = _method(calls.folder)
    symbols = _method(calls.symbols)
    references = _method(calls.references)
    scopes = _method(calls.scopes)
    explain = _method(calls.explain)
    graph = _method(calls.graph)
    chunk_map = _method(calls.chunk_map)
    map_places = _method(calls.map_places)
    make_map = _method(calls.make_map)
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
    sources = _method(calls.sources)
    sync_sources = _method(calls.sync_sources)

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
        run = await self._send(call)
        return await self._until_over(run, on_progress) if wait else run

    async def plan(
        self,
        url: str,
        *,
        name: str = "",
        ref: str = "",
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        wait: bool = True,
        on_progress: Callable[[Run], None] | None = None,
    ) -> Run:
        """Find out what indexing a repository at a ref would do; see `Client.plan`."""
        call = calls.start_run(
            url, name=name, ref=ref, include=include, exclude=exclude, plan_only=True
        )
        run = await self._send(call)
        return await self._until_over(run, on_progress) if wait else run

    async def _until_over(self, run: Run, on_progress: Callable[[Run], None] | None) -> Run:
        async for latest in self.watch(run):
            run = latest
            if on_progress is not None:
                on_progress(run)
        return run

    async def grep(
        self, pattern: str, **given: Unpack[Grep]
    ) -> AsyncGenerator[MatchingFile | GrepSummary, None]:
        """Yield each file that a pattern matches, and a summary; see `Client.grep`."""
        async with aclosing(self._stream(calls.grep(pattern, **given))) as parts:
            async for part in parts:
                for one in part:
                    yield one

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

    @abstractmethod
    def watch(
        self, run: Run | str, *, on_silence: OnSilence | None = None
    ) -> AsyncGenerator[Run, None]:
        """Yield the run now and whenever it changes, until it is over; see `Client.watch`."""

    @abstractmethod
    def _stream(
        self, call: Call[Answer], *, is_endless: bool = False
    ) -> AsyncGenerator[Answer, None]:
        """Send a call and yield its answers; no timeout applies if it is endless."""

    @abstractmethod
    async def _send(self, call: Call[Answer]) -> Answer:
        """Send a call and return its answer."""
