"""The Python client of a codelode gateway: search, index, and see how indexing goes.

    with Client("127.0.0.1:50051") as client:
        for hit in client.search("retry with back-off", repositories=["acme/http"]):
            print(f"{hit.path}:{hit.start_line}-{hit.end_line}", hit.symbol)

Every failure is one of `codelode.errors`; no gRPC type leaves this module. A search is sent once
and fails at once when nobody answers, but `watch` outlives a gateway that restarts: a run goes on
in the workers whether or not somebody looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, overload

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped,unused-ignore]
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from codelode import errors
from codelode.model import (
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    Revision,
    Run,
    RunId,
    RunState,
)
from codelode.v1 import index_pb2, index_pb2_grpc, search_pb2, search_pb2_grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"

#: `watch` gives up when nothing answered for this long: a gateway restarts within seconds.
WATCH_PATIENCE_S = 60.0
#: Pause before `watch` asks again; doubles up to the second value.
WATCH_BACKOFF_S = (0.1, 2.0)

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),  # 200 hits of large chunks
    # A proxy for the outside world is no way to a gateway, least of all to one on loopback.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A watch has no deadline, so a gateway that vanished without a word shows by its silence.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

#: How gRPC itself says that the connection, not the gateway, failed.
_NO_CONNECTION = (
    "failed to connect",
    "DNS resolution failed",
    "Socket closed",
    "Connection reset",
    "recvmsg:",
    "keepalive",
)

#: How gRPC says that this side stopped waiting; other words are the gateway's.
_OWN_DEADLINE = "Deadline Exceeded"

_PAGE_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk of code that answers the query. Lines are 1-based and inclusive."""

    repository: str
    path: str
    start_line: int
    end_line: int
    language: str
    symbol: str
    kind: str
    score: float  # higher is better; comparable within one result only
    match: str  # semantic, keyword or both
    content: str
    header: str = ""
    category: str = ""
    explain: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult(Sequence[Hit]):
    """The hits of a search, best first, and how they were found."""

    hits: tuple[Hit, ...]
    took_ms: float  # in the gateway
    cached: bool = False
    stages: tuple[tuple[str, float], ...] = ()  # stage, ms; only with explain
    notices: tuple[str, ...] = ()  # what was degraded or limited
    query_kind: str = ""

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]


@dataclass(frozen=True, slots=True)
class IndexedRepository:
    """A registered repository and what of it is indexed, default ref first."""

    repository: Repository
    refs: tuple[RefStatus, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    messages: int
    workers: int


@dataclass(frozen=True, slots=True)
class Status:
    """Repositories, recent runs (newest first), queues and workers in one picture."""

    version: str
    repositories: tuple[IndexedRepository, ...]
    runs: tuple[Run, ...]
    chunks: int
    queues: tuple[Queue, ...]
    embedder: str
    store: str


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that is not in the index, and why."""

    repository: str
    ref: str
    path: str
    state: str  # failed or skipped
    reason: str


class Client:
    """A connection to one gateway; safe to share between threads, closed by `close` or `with`."""

    def __init__(self, address: str = DEFAULT_ADDRESS, *, timeout_s: float = 30.0) -> None:
        """Connects on the first call. `timeout_s` bounds each call, not a watch.

        Raises InvalidSettings when the address is not HOST:PORT.
        """
        self.address = _checked(address)
        self.timeout_s = timeout_s
        self._channel = grpc.insecure_channel(self.address, options=_CHANNEL_OPTIONS)
        self._index = index_pb2_grpc.IndexServiceStub(self._channel)
        self._search = search_pb2_grpc.SearchServiceStub(self._channel)
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
        ref: str = "",
        top_k: int = 10,
        explain: bool = False,
        skip_cache: bool = False,
    ) -> SearchResult:
        """The `top_k` best chunks for the query, best first.

        An empty filter means all; values inside one filter are alternatives. Raises
        InvalidQuery with the field that is wrong, NotFound, Unavailable.
        """
        filters = search_pb2.Filters(
            repositories=_texts("repositories", repositories),
            languages=_texts("languages", languages),
            paths=_texts("paths", paths),
            kinds=_texts("kinds", kinds),
            symbols=_texts("symbols", symbols),
            categories=_texts("categories", categories),
            ref=ref,
        )
        request = search_pb2.SearchRequest(
            query=query,
            filters=filters,
            top_k=_count("top_k", top_k),
            explain=explain,
            skip_cache=skip_cache,
        )
        with self._translated():
            return _search_result(self._search.Search(request, timeout=self.timeout_s))

    def index(
        self,
        url: str,
        *,
        name: str = "",
        ref: str = "",
        wait: bool = True,
        on_progress: Callable[[Run], None] | None = None,
    ) -> Run:
        """Bring the index of a repository at a ref up to date, registering it when it is new.

        With `wait`, the run when it is over, which may be as failed: see `Run.error`.
        Without, the run as it was created. Empty name: taken from the URL; empty ref: default.
        """
        request = index_pb2.StartRunRequest(url=url, name=name, ref=ref)
        with self._translated():
            run = _run(self._index.StartRun(request, timeout=self.timeout_s).run)
        if not wait:
            return run
        latest = run
        for latest in self.watch(run):
            if on_progress is not None:
                on_progress(latest)
        return latest

    def watch(self, run: Run | str) -> Iterator[Run]:
        """The run now and whenever it changes, until it is over.

        Goes on where it stopped when the gateway restarts; raises Unavailable once nothing
        answered for `WATCH_PATIENCE_S`, NotFound when nobody knows the run.
        """
        request = index_pb2.WatchRunRequest(run_id=_run_id(run))
        seen: Run | None = None
        heard_at = time.monotonic()
        pause_s = WATCH_BACKOFF_S[0]
        while True:
            lost = errors.Unavailable(f"the gateway at {self.address} ended the watch too early")
            try:
                for state in self._states(request):
                    if state != seen:
                        yield state
                    seen = state
                    heard_at, pause_s = time.monotonic(), WATCH_BACKOFF_S[0]
            except errors.Unavailable as exc:
                lost = exc
            if seen is not None and seen.state.is_over:
                return
            if time.monotonic() - heard_at > WATCH_PATIENCE_S:
                raise lost
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, WATCH_BACKOFF_S[1])

    def cancel(self, run: Run | str) -> Run:
        """End a run; what it has indexed so far stays."""
        request = index_pb2.CancelRunRequest(run_id=_run_id(run))
        with self._translated():
            return _run(self._index.CancelRun(request, timeout=self.timeout_s).run)

    def status(self) -> Status:
        """What the cluster holds and does."""
        request = index_pb2.GetStatusRequest()
        with self._translated():
            return _status(self._index.GetStatus(request, timeout=self.timeout_s))

    def repositories(self) -> tuple[IndexedRepository, ...]:
        """All registered repositories, by name."""
        request = index_pb2.ListRepositoriesRequest()
        with self._translated():
            response = self._index.ListRepositories(request, timeout=self.timeout_s)
        return tuple(_indexed(message) for message in response.repositories)

    def remove(self, name: str) -> None:
        """Forget a repository and everything indexed of it."""
        request = index_pb2.RemoveRepositoryRequest(name=name)
        with self._translated():
            self._index.RemoveRepository(request, timeout=self.timeout_s)

    def failures(
        self, name: str | None = None, *, include_skipped: bool = False
    ) -> Iterator[FileFailure]:
        """The files that are not in the index, of one repository or all, page by page."""
        request = index_pb2.ListFailuresRequest(
            repository=name or "", include_skipped=include_skipped, page_size=_PAGE_SIZE
        )
        while True:
            with self._translated():
                response = self._index.ListFailures(request, timeout=self.timeout_s)
            yield from map(_failure, response.failures)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def retry(self, name: str | None = None) -> tuple[Run, ...]:
        """Try the failed files of one or all repositories again; the runs that do it."""
        request = index_pb2.RetryFailuresRequest(repository=name or "")
        with self._translated():
            response = self._index.RetryFailures(request, timeout=self.timeout_s)
        return tuple(map(_run, response.runs))

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
                    yield _run(response.run)
            finally:
                stream.cancel()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as exc:
            raise _error(exc, address=self.address, timeout_s=self.timeout_s) from exc


def _checked(address: str) -> str:
    host, colon, port = address.rpartition(":")
    # gRPC itself would take port 99999 modulo 65536, and a bare host for port 443.
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise errors.InvalidSettings(
            f"{address!r} is no gateway address; write HOST:PORT, for example {DEFAULT_ADDRESS}"
        )
    return address


def _texts(field: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise errors.InvalidQuery(
            f"filters.{field}", f"is a list of texts, not the text {values!r}"
        )
    return list(values)


def _count(field: str, value: int) -> int:
    # The wire's 0 means the default, so asking for nothing has to be refused here.
    if not 0 < value < 2**31:
        raise errors.InvalidQuery(field, f"{value} is out of range; ask for at least 1")
    return value


def _run_id(run: Run | str) -> str:
    return run.id if isinstance(run, Run) else run


def _error(exc: grpc.RpcError, *, address: str, timeout_s: float) -> errors.CodelodeError:
    """What a failed call means to the caller."""
    code, details = exc.code(), exc.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NO_CONNECTION):
        return errors.Unavailable(f"no gateway at {address}; start one with `codelode up`")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and details == _OWN_DEADLINE:
        return errors.TimedOut(f"the gateway at {address} did not answer within {timeout_s:g} s")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.NotFound(
            f"{address} answers, but not as a codelode gateway of this version ({details})"
        )
    if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE):
        return _invalid(exc, details)
    kind = _KINDS.get(code, errors.Corrupt)
    return kind(details or f"the gateway at {address} answered {code.name} without a reason")


_KINDS: dict[grpc.StatusCode, type[errors.CodelodeError]] = {
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.PERMISSION_DENIED: errors.Denied,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.Busy,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.TimedOut,
    grpc.StatusCode.ABORTED: errors.Unavailable,
    grpc.StatusCode.CANCELLED: errors.Unavailable,
    # All others, FAILED_PRECONDITION and INTERNAL among them, need an operator: Corrupt.
}


def _invalid(exc: grpc.RpcError, details: str) -> errors.InvalidQuery:
    """The first field violation of the rich status, or the plain message."""
    status = rpc_status.from_call(exc)
    for detail in status.details if status is not None else ():
        bad = error_details_pb2.BadRequest()
        if detail.Unpack(bad) and bad.field_violations:
            first = bad.field_violations[0]
            return errors.InvalidQuery(first.field, first.description)
    return errors.InvalidQuery("request", details)


def _search_result(message: search_pb2.SearchResponse) -> SearchResult:
    return SearchResult(
        hits=tuple(map(_hit, message.hits)),
        took_ms=message.took_ms,
        cached=message.cached,
        stages=tuple((stage.stage, stage.took_ms) for stage in message.stages),
        notices=tuple(message.notices),
        query_kind=message.query_kind,
    )


def _hit(message: search_pb2.Hit) -> Hit:
    return Hit(
        repository=message.repository,
        path=message.path,
        start_line=message.start_line,
        end_line=message.end_line,
        language=message.language,
        symbol=message.symbol,
        kind=message.kind,
        score=message.score,
        match=message.match,
        content=message.content,
        header=message.header,
        category=message.category,
        explain=tuple((trace.name, trace.value) for trace in message.explain),
    )


def _run(message: index_pb2.Run) -> Run:
    return Run(
        id=RunId(message.id),
        repository=RepositoryName(message.repository),
        ref=RefName(message.ref),
        state=RunState(message.state),
        revision=_revision(message.revision),
        total=message.total,
        done=message.done,
        failed=message.failed,
        skipped=message.skipped,
        error=message.error,
        started_at=message.started_at,
        finished_at=message.finished_at,
    )


def _revision(text: str) -> Revision | None:
    return Revision(text) if text else None


def _indexed(message: index_pb2.Repository) -> IndexedRepository:
    return IndexedRepository(
        repository=Repository(
            name=RepositoryName(message.name),
            url=message.url,
            default_ref=RefName(message.default_ref),
        ),
        refs=tuple(map(_ref, message.refs)),
    )


def _ref(message: index_pb2.RefStatus) -> RefStatus:
    return RefStatus(
        ref=RefName(message.ref),
        indexed=_revision(message.revision),
        fingerprint="",  # the gateway keeps it to itself
        files=message.files,
        skipped=message.skipped,
        failed=message.failed,
        chunks=message.chunks,
        indexed_at=message.indexed_at,
    )


def _status(message: index_pb2.GetStatusResponse) -> Status:
    return Status(
        version=message.version,
        repositories=tuple(map(_indexed, message.repositories)),
        runs=tuple(map(_run, message.runs)),
        chunks=message.chunks,
        queues=tuple(Queue(q.name, q.messages, q.workers) for q in message.queues),
        embedder=message.embedder,
        store=message.store,
    )


def _failure(message: index_pb2.FileFailure) -> FileFailure:
    return FileFailure(
        repository=message.repository,
        ref=message.ref,
        path=message.path,
        state=message.state,
        reason=message.reason,
    )
