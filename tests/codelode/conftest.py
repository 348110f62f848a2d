"""A gateway made of real gRPC and canned answers: what the client and the command line talk to."""

# ruff: noqa: N802  the methods have gRPC's names
from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2_grpc
from grpc_status import rpc_status

from codelode.v1 import index_pb2, index_pb2_grpc, search_pb2, search_pb2_grpc

HIT = search_pb2.Hit(
    repository="acme/http",
    path="src/retry.py",
    start_line=9,
    end_line=11,
    language="python",
    symbol="Client.retry",
    kind="method",
    category="source",
    score=0.0325,
    match="both",
    content="def retry(self):\n    pause()\n    again()\n",
    header="class Client",
    explain=[search_pb2.Trace(name="rank.boost.definition", value=2.0)],
    line=9,
    keyword_score=7.5,
    revision="a" * 40,
    url=f"https://github.com/acme/http/blob/{'a' * 40}/src/retry.py#L9-L11",
)

DEFINITION = search_pb2.Definition(
    repository="acme/http",
    path="src/retry.py",
    start_line=9,
    end_line=11,
    name="Client.retry",
    kind="method",
    signature="def retry(self):",
    doc="Call again.",
)

USE = search_pb2.NameUse(
    repository="acme/web",
    path="src/app.py",
    line=12,
    text="client.retry()\x1b[31m",
    symbol="start",
    kind="member",
    confidence="imported",
    definition=search_pb2.NamePlace(
        repository="acme/http", path="src/retry.py", symbol="Client.retry", line=9
    ),
)

#: A response that has something of everything.
AROUND = {
    "intent": "general",
    "related": [
        search_pb2.Related(
            repository="acme/http", path="b.py", relation="imports", hops=1, of="src/retry.py"
        )
    ],
    "imports": [
        search_pb2.ImportLink(
            repository="acme/http", path="src/retry.py", target="os", depth=1, mark="external"
        )
    ],
    "duplicates": [
        search_pb2.Duplicate(
            repository="fork", path="c.py", start_line=3, end_line=5, of_rank=1, similarity=0.95
        )
    ],
    "files": [
        search_pb2.FoundFile(
            repository="acme/http",
            path="src/retry.py",
            similarity=0.75,
            summary="s",
            symbols=["retry"],
        )
    ],
    "coverage": [
        search_pb2.Coverage(
            repository="acme/http", ref="main", revision="a" * 40, pending=3, failed=1
        )
    ],
    "tokens": 77,
    "synonyms": ["backoff"],
    "alternates": ["call again"],
    "next_page_token": "abc",
}


def run_message(state: str, **fields: object) -> index_pb2.Run:
    values: dict[str, object] = {"id": "r1", "repository": "acme/http", "ref": "HEAD", **fields}
    return index_pb2.Run(state=state, **values)


@dataclass
class CannedGateway(index_pb2_grpc.IndexServiceServicer, search_pb2_grpc.SearchServiceServicer):
    """Answers with what its fields say and notes every request."""

    hits: list[search_pb2.Hit] = field(default_factory=lambda: [deepcopy(HIT)])
    uses: list[search_pb2.NameUse] = field(default_factory=lambda: [USE])
    #: What a search for a pattern finds.
    matches: list[search_pb2.MatchingFile] = field(default_factory=list)
    #: Takes the place of `hits` where the answer depends on the request.
    answer: Callable[[search_pb2.SearchRequest], list[search_pb2.Hit]] | None = None
    #: Further fields of a search's response.
    around: dict[str, object] = field(default_factory=dict)
    #: What successive watches of a run yield; "break" cuts the stream as a restart does, a number
    #: is a pause in seconds.
    watches: list[list[index_pb2.Run | str | float]] = field(
        default_factory=lambda: [[run_message("complete", total=3, done=3)]]
    )
    repositories: list[index_pb2.Repository] = field(default_factory=list)
    #: The recent ones, as a status shows them.
    runs: list[index_pb2.Run] = field(
        default_factory=lambda: [run_message("indexing", total=10, done=4, revision="a" * 40)]
    )
    failures: list[index_pb2.FileFailure] = field(default_factory=list)
    sources: list[index_pb2.Source] = field(default_factory=list)
    sources_problem: str = ""
    listed_after: int = 0  # as often as these are shown, they are not listed
    #: Workers of the queues `control` and `pull` that successive statuses show, the last one from
    #: then on; without any, they do not show these queues.
    workers: list[int] = field(default_factory=list)
    disk: list[index_pb2.DiskPart] = field(default_factory=list)
    servers: list[index_pb2.Server] = field(default_factory=list)
    scopes: list[search_pb2.Scope] = field(default_factory=list)
    #: Nothing is there to be tried again.
    nothing_to_retry: bool = False
    #: What a folder has, two on a page.
    entries: list[search_pb2.FolderEntry] = field(
        default_factory=lambda: [
            search_pb2.FolderEntry(name="retry.py", state="indexed", language="python")
        ]
    )
    is_long: bool = False  # a file is longer than an answer may be
    #: Every call fails with it.
    error: status_pb2.Status | None = None
    requests: list[object] = field(default_factory=list)
    #: What each call said of itself in `authorization`.
    tokens: list[str] = field(default_factory=list)
    address: str = "127.0.0.1:0"

    def serve(self) -> None:
        server = grpc.server(ThreadPoolExecutor(4))
        index_pb2_grpc.add_IndexServiceServicer_to_server(self, server)
        search_pb2_grpc.add_SearchServiceServicer_to_server(self, server)
        health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
        self.address = f"127.0.0.1:{server.add_insecure_port(self.address)}"
        server.start()
        self._server = server

    def stop(self) -> None:
        self._server.stop(grace=None).wait()

    def restart(self) -> None:
        self.stop()
        self.serve()

    def fail(self, code: int, message: str, *, field: str = "") -> None:
        detail = any_pb2.Any()
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=message)
        detail.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
        self.error = status_pb2.Status(
            code=code, message=message, details=[detail] if field else []
        )

    def Search(self, request, context):
        self._note(request, context)
        explain = {"stages": [search_pb2.StageTiming(stage="rank", took_ms=0.5)]}
        return search_pb2.SearchResponse(
            hits=self.answer(request) if self.answer else self.hits,
            took_ms=4.25,
            query_kind="identifier",
            notices=["no summaries"],
            **(explain if request.explain else {}),
            **self.around,
        )

    def Context(self, request, context):
        self._note(request, context)
        made = search_pb2.SearchResponse(hits=self.hits, notices=["no summaries"], **self.around)
        text = "### src/retry.py:9-11\n" if self.hits else ""
        return search_pb2.ContextResponse(text=text, tokens=1234, search=made, left_out=1)

    def Similar(self, request, context):
        self._note(request, context)
        return search_pb2.SearchResponse(hits=self.hits, took_ms=1.5)

    def Grep(self, request, context):
        self._note(request, context)
        files = [*map(deepcopy, self.matches)]
        for file in files:
            del file.lines[len(file.lines) * (not request.without_lines) :]
        if files:
            yield search_pb2.GrepResponse(files=files)
        summary = search_pb2.GrepSummary(
            files=len(self.matches),
            count=sum(file.count for file in self.matches),
            read_files=7,
            complete=not self.is_long,
            notices=["stopped"] if self.is_long else [],
            took_ms=1.5,
        )
        yield search_pb2.GrepResponse(summary=summary)

    def ListSymbols(self, request, context):
        self._note(request, context)
        return search_pb2.ListSymbolsResponse(
            symbols=[DEFINITION] * bool(self.hits), notices=["cut: raise `limit`"], took_ms=1.5
        )

    def ListReferences(self, request, context):
        self._note(request, context)
        return search_pb2.ListReferencesResponse(
            references=self.uses if self.hits else [],
            notices=["cut: raise `limit`"],
            took_ms=1.5,
            coverage=AROUND["coverage"],
        )

    def ListScopes(self, request, context):
        self._note(request, context)
        return search_pb2.ListScopesResponse(scopes=self.scopes)

    def ReadFile(self, request, context):
        self._note(request, context)
        return search_pb2.ReadFileResponse(
            repository="acme/http",
            path=request.path,
            language="python",
            start_line=9,
            end_line=10,
            line_count=12,
            content="def retry(call):\n    \x1b[31mcall()",
            truncated=self.is_long,
            revision="a" * 40,
        )

    def ListFiles(self, request, context):
        self._note(request, context)
        start = int(request.page_token or 0)
        rest = self.entries[start : start + 2]
        is_last = start + 2 >= len(self.entries)
        return search_pb2.ListFilesResponse(
            repository="acme/http",
            path=request.path,
            revision="a" * 40,
            entries=rest,
            entry_count=len(self.entries),
            next_page_token="" if is_last else str(start + 2),
        )

    def Explain(self, request, context):
        self._note(request, context)
        return search_pb2.ExplainResponse(
            subject_kind="file",
            summary="src/retry.py retries calls.",
            definitions=[DEFINITION],
            imports=["src/clock.py"],
            imported_by=["src/client.py"],
            tests=["tests/test_retry.py"],
            notices=["no graph"],
        )

    def GetMap(self, request, context):
        self._note(request, context)
        return search_pb2.GetMapResponse(
            repositories=request.repositories,
            status=search_pb2.MapStatus(repositories=request.repositories, progress="ready"),
            point_repositories=["acme/http"],
            languages=["go", "python"],
            categories=["source"],
            points=struct.pack("<5H", 65_535, 0, 0, 1, 0),
        )

    def ListMapPlaces(self, request, context):
        self._note(request, context)
        place = search_pb2.MapPlace(point=0, repository="acme/http", path="a.py", start_line=9)
        return search_pb2.ListMapPlacesResponse(places=[place])

    def MakeMap(self, request, context):
        self._note(request, context)
        status = search_pb2.MapStatus(repositories=request.repositories, progress="waiting")
        return search_pb2.MakeMapResponse(status=status)

    def StartRun(self, request, context):
        self._note(request, context)
        return index_pb2.StartRunResponse(run=run_message("pulling"))

    def WatchRun(self, request, context):
        self._note(request, context)
        for run in self.watches.pop(0):
            if isinstance(run, str):
                context.abort(grpc.StatusCode.UNAVAILABLE, "the gateway is shutting down")
            if isinstance(run, float):
                threading.Event().wait(run)
                continue
            yield index_pb2.WatchRunResponse(run=run)

    def EnrichRepository(self, request, context):
        self._note(request, context)
        return index_pb2.EnrichRepositoryResponse(runs=[run_message("pulling")])

    def CancelRun(self, request, context):
        self._note(request, context)
        return index_pb2.CancelRunResponse(run=run_message("cancelled"))

    def ListRepositories(self, request, context):
        self._note(request, context)
        return index_pb2.ListRepositoriesResponse(repositories=self.repositories)

    def GetStatus(self, request, context):
        self._note(request, context)
        shown = [self.workers.pop(0)] if self.workers[1:] else self.workers
        return index_pb2.GetStatusResponse(
            version="1.2.3",
            repositories=self.repositories,
            runs=self.runs,
            chunks=1234,
            queues=[
                index_pb2.Queue(name="parse", messages=6, workers=2),
                *(
                    index_pb2.Queue(name=name, workers=workers)
                    for workers in shown
                    for name in ("control", "pull")
                ),
            ],
            embedder="static-256",
            store="local",
            disk=self.disk,
            servers=self.servers,
        )

    def SetDefaultRef(self, request, context):
        self._note(request, context)
        return index_pb2.SetDefaultRefResponse(run=run_message("pulling"))

    def SetLabel(self, request, context):
        self._note(request, context)
        return index_pb2.SetLabelResponse(repositories=[request.repository])

    def RemoveRepository(self, request, context):
        self._note(request, context)
        return index_pb2.RemoveRepositoryResponse()

    def ListFailures(self, request, context):
        self._note(request, context)
        start = int(request.page_token or 0)
        end = start + 2  # pages of two
        return index_pb2.ListFailuresResponse(
            failures=self.failures[start:end],
            next_page_token=str(end) if end < len(self.failures) else "",
        )

    def RetryFailures(self, request, context):
        self._note(request, context)
        runs = [] if self.nothing_to_retry else [run_message("pulling")]
        return index_pb2.RetryFailuresResponse(runs=runs)

    def ListSources(self, request, context):
        self._note(request, context)
        if self.listed_after:
            self.listed_after -= 1
        else:
            for source in self.sources:
                source.attempted_at = source.synced_at = 1.0
        return index_pb2.ListSourcesResponse(sources=self.sources, problem=self.sources_problem)

    def SyncSources(self, request, context):
        self._note(request, context)
        return index_pb2.SyncSourcesResponse(connections=[request.connection])

    def _note(self, request, context):
        copy = type(request)()
        copy.CopyFrom(request)
        self.requests.append(copy)
        metadata = context.invocation_metadata()
        self.tokens += [value for key, value in metadata if key == "authorization"]
        if self.error is not None:
            context.abort_with_status(rpc_status.to_status(self.error))


@pytest.fixture
def gateway() -> Iterator[CannedGateway]:
    canned = CannedGateway()
    canned.serve()
    yield canned
    canned.stop()


@pytest.fixture
def make_run():
    return run_message


@pytest.fixture
def codes():
    return code_pb2


@pytest.fixture
def around():
    return AROUND


@pytest.fixture
def free_address():
    """Return an address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"
