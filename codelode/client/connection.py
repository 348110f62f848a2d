"""The connection to a gateway: one method per call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, Unpack

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from codelode import errors
from codelode.addresses import is_host_and_port
from codelode.client import graph as graphs
from codelode.client import overview, results
from codelode.client.channel import opened
from codelode.client.failures import error
from codelode.client.graph import Graph
from codelode.client.overview import FileFailure, IndexedRepository, Status
from codelode.client.request import Options, Search, count, run_request, search_request
from codelode.client.results import About, Context, SearchResult
from codelode.model import Run
from codelode.v1 import (
    graph_pb2,
    graph_pb2_grpc,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)

DEFAULT_ADDRESS = "127.0.0.1:50051"

#: `watch` gives up when nothing answered for this long: a gateway restarts within seconds.
WATCH_PATIENCE_S = 60.0
#: `watch` says so when nothing answered for this long.
WATCH_SILENCE_S = 3.0
#: Pause before `watch` asks again; doubles up to the second value.
WATCH_BACKOFF_S = (0.1, 2.0)

_PAGE_SIZE = 1_000


class Client:
    """A connection to one gateway; safe to share between threads, closed by `close` or `with`."""

    def __init__(
        self, address: str = DEFAULT_ADDRESS, *, token: str = "", timeout_s: float = 30.0
    ) -> None:
        """Connects on the first call. `timeout_s` bounds each call, not a watch.

        `token`: what the gateway asks for outside its own machine.

        Raises InvalidSettings when the address is not HOST:PORT.
        """
        self.address = _checked(address)
        self.timeout_s = timeout_s
        self._channel = opened(self.address, token=token)
        self._index = index_pb2_grpc.IndexServiceStub(self._channel)
        self._search = search_pb2_grpc.SearchServiceStub(self._channel)
        self._graph = graph_pb2_grpc.GraphServiceStub(self._channel)
        self._health = health_pb2_grpc.HealthStub(self._channel)

    def search(
        self,
        query: str,
        *,
        repositories: Iterable[str] = (),
        languages: Iterable[str] = (),
        paths: Iterable[str] = (),
        kinds: Iterable[str] = (),
        symbols: Iterable[str] = (),
        categories: Iterable[str] = (),
        block_types: Iterable[str] = (),
        ref: str = "",
        top_k: int = 10,
        explain: bool = False,
        skip_cache: bool = False,
        preset: str = "",
        options: Options | None = None,
        page: str = "",
    ) -> SearchResult:
        """The `top_k` best chunks for the query, best first.

        An empty filter means all; values inside one filter are alternatives. `options` by stage
        and name, for example `{"expand": {"related": 10}}`, win over the preset. `page`: the
        `next_page` of the result before. Raises InvalidQuery with the field that is wrong,
        NotFound, Unavailable.
        """
        asked = search_request(
            query,
            repositories=repositories,
            languages=languages,
            paths=paths,
            kinds=kinds,
            symbols=symbols,
            categories=categories,
            block_types=block_types,
            ref=ref,
            explain=explain,
            skip_cache=skip_cache,
            preset=preset,
            options=options,
        )
        asked.top_k, asked.page_token = count("top_k", top_k), page
        with self._translated():
            return results.search_result(self._search.Search(asked, timeout=self.timeout_s))

    def context(
        self, query: str, *, budget_tokens: int = 0, top_k: int = 20, **search: Unpack[Search]
    ) -> Context:
        """The best chunks for the query as one text of at most `budget_tokens`; 0: 8,000.

        A part of the budget is left to the caller: see `options["assemble"]["reserved_tokens"]`.
        """
        asked = search_request(query, **search)
        asked.top_k = count("top_k", top_k)
        if budget_tokens:
            asked.options.assemble.budget_tokens = budget_tokens
        request = search_pb2.ContextRequest(search=asked)
        with self._translated():
            return results.context(self._search.Context(request, timeout=self.timeout_s))

    def similar(
        self,
        path: str = "",
        line: int = 0,
        *,
        repository: str = "",
        snippet: str = "",
        ref: str = "",
        top_k: int = 10,
        repositories: Iterable[str] = (),
        languages: Iterable[str] = (),
    ) -> SearchResult:
        """Code like the code at a line, or like a snippet, most similar first.

        `repository` and `ref` say where the place is, `repositories` where to look for others.
        """
        request = search_pb2.SimilarRequest(
            repository=repository,
            path=path,
            line=line,
            snippet=snippet,
            ref=ref,
            top_k=count("top_k", top_k),
            filters=search_request(
                "", repositories=repositories, languages=languages, ref=ref
            ).filters,
        )
        with self._translated():
            return results.search_result(self._search.Similar(request, timeout=self.timeout_s))

    def explain(self, subject: str, *, repository: str = "", ref: str = "") -> About:
        """What is known about a file or a symbol. Raises NotFound."""
        request = search_pb2.ExplainRequest(repository=repository, subject=subject, ref=ref)
        with self._translated():
            return results.about(self._search.Explain(request, timeout=self.timeout_s))

    def graph(
        self,
        subject: str,
        *,
        repository: str = "",
        depth: int = 3,
        reverse: bool = False,
        relations: Iterable[str] = (),
        limit: int = 200,
        ref: str = "",
    ) -> Graph:
        """What a file or a symbol depends on, or with `reverse` what depends on it.

        `relations`: any of imports, importers, calls, callers, inherits, subclasses, definitions,
        references, tests, cross_repository; none: those of the direction. Raises NotFound, and
        InvalidQuery with the field that is wrong.
        """
        request = graph_pb2.GetGraphRequest(
            repository=repository,
            subject=subject,
            depth=count("depth", depth),
            reverse=reverse,
            relations=graphs.relations(relations),
            limit=count("limit", limit),
            ref=ref,
        )
        with self._translated():
            return graphs.graph(self._graph.GetGraph(request, timeout=self.timeout_s))

    def index(
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
        """Bring the index of a repository at a ref up to date, registering it when it is new.

        With `wait`, the run when it is over, which may be as failed: see `Run.error`.
        Without, the run as it was created. Empty name: taken from the URL; empty ref: default.
        `include`, `exclude`: patterns as in a .gitignore at the root. Only files that match one
        of those to include are indexed; those to exclude are left out, whatever the repository's
        own ignore files say. They are kept: None uses what was given before, an empty list clears
        it. Raises InvalidQuery with the field that is wrong.
        """
        request = run_request(url, name=name, ref=ref, include=include, exclude=exclude)
        with self._translated():
            run = overview.run(self._index.StartRun(request, timeout=self.timeout_s).run)
        if not wait:
            return run
        latest = run
        for latest in self.watch(run):
            if on_progress is not None:
                on_progress(latest)
        return latest

    def watch(
        self, run: Run | str, *, on_silence: Callable[[errors.Unavailable], None] | None = None
    ) -> Iterator[Run]:
        """The run now and whenever it changes, until it is over.

        Goes on where it stopped when the gateway restarts; raises Unavailable once nothing
        answered for `WATCH_PATIENCE_S`, NotFound when nobody knows the run. `on_silence` is called
        once each time that nothing answered for `WATCH_SILENCE_S`, with what the last try ended.
        """
        request = index_pb2.WatchRunRequest(run_id=_run_id(run))
        seen: Run | None = None
        silence = _Silence(on_silence)
        while True:
            lost = errors.Unavailable(f"the gateway at {self.address} ended the watch too early")
            try:
                for state in self._states(request):
                    silence.end()
                    if state != seen:
                        yield state
                    seen = state
            except errors.Unavailable as exc:
                lost = exc
            if seen is not None and seen.state.is_over:
                return
            if not silence.outlasted(lost):
                raise lost

    def cancel(self, run: Run | str) -> Run:
        """End a run; what it has indexed so far stays."""
        request = index_pb2.CancelRunRequest(run_id=_run_id(run))
        with self._translated():
            return overview.run(self._index.CancelRun(request, timeout=self.timeout_s).run)

    def status(self) -> Status:
        """What the cluster holds and does."""
        request = index_pb2.GetStatusRequest()
        with self._translated():
            return overview.status(self._index.GetStatus(request, timeout=self.timeout_s))

    def repositories(self) -> tuple[IndexedRepository, ...]:
        """All registered repositories, by name."""
        request = index_pb2.ListRepositoriesRequest()
        with self._translated():
            response = self._index.ListRepositories(request, timeout=self.timeout_s)
        return tuple(overview.indexed(message) for message in response.repositories)

    def remove(self, name: str) -> None:
        """Forget a repository and everything indexed of it."""
        request = index_pb2.RemoveRepositoryRequest(name=name)
        with self._translated():
            self._index.RemoveRepository(request, timeout=self.timeout_s)

    def failures(
        self,
        name: str | None = None,
        *,
        include_skipped: bool = False,
        include_partial: bool = False,
    ) -> Iterator[FileFailure]:
        """The files that are not in the index, of one repository or all, page by page.

        `include_partial`: and those in it that something is wrong with.
        """
        request = index_pb2.ListFailuresRequest(
            repository=name or "",
            include_skipped=include_skipped,
            include_partial=include_partial,
            page_size=_PAGE_SIZE,
        )
        while True:
            with self._translated():
                response = self._index.ListFailures(request, timeout=self.timeout_s)
            yield from map(overview.failure, response.failures)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def retry(self, name: str | None = None) -> tuple[Run, ...]:
        """Try the failed files of one or all repositories again; the runs that do it."""
        request = index_pb2.RetryFailuresRequest(repository=name or "")
        with self._translated():
            response = self._index.RetryFailures(request, timeout=self.timeout_s)
        return tuple(map(overview.run, response.runs))

    def enrich(self, name: str | None = None) -> tuple[Run, ...]:
        """Make the summaries that earlier runs left out; the runs that do it."""
        request = index_pb2.EnrichRepositoryRequest(repository=name or "")
        with self._translated():
            response = self._index.EnrichRepository(request, timeout=self.timeout_s)
        return tuple(map(overview.run, response.runs))

    def is_serving(self) -> bool:
        """Whether the gateway answers and says that it is ready; never raises for silence."""
        try:
            with self._translated():
                response = self._health.Check(
                    health_pb2.HealthCheckRequest(), timeout=min(self.timeout_s, 2.0)
                )
        except errors.CodelodeError:
            return False
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _states(self, request: index_pb2.WatchRunRequest) -> Iterator[Run]:
        with self._translated():
            stream = self._index.WatchRun(request)
            try:
                for response in stream:
                    yield overview.run(response.run)
            finally:
                stream.cancel()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as exc:
            raise error(exc, address=self.address, timeout_s=self.timeout_s) from exc


class _Silence:
    """How long nothing has answered: from the first call that failed, for until then the gateway
    had nothing to say.
    """

    def __init__(self, on_silence: Callable[[errors.Unavailable], None] | None) -> None:
        self._tell = on_silence or (lambda _: None)
        self.end()

    def end(self) -> None:
        self._began_at: float | None = None
        self._is_told = False
        self._pause_s = WATCH_BACKOFF_S[0]

    def outlasted(self, lost: errors.Unavailable) -> bool:
        """Pause after a call that was lost; False: it is too long to go on."""
        now = time.monotonic()
        began_at = self._began_at = now if self._began_at is None else self._began_at
        if now - began_at > WATCH_PATIENCE_S:
            return False
        if not self._is_told and now - began_at > WATCH_SILENCE_S:
            self._is_told = True
            self._tell(lost)
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, WATCH_BACKOFF_S[1])
        return True


def _checked(address: str) -> str:
    # gRPC itself would take port 99999 modulo 65536, and a bare host for port 443.
    if not is_host_and_port(address):
        raise errors.InvalidSettings(
            f"{address!r} is no gateway address; write HOST:PORT, for example {DEFAULT_ADDRESS}"
        )
    return address


def _run_id(run: Run | str) -> str:
    return run.id if isinstance(run, Run) else run
