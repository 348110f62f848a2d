"""Build the calls of a gateway: one function per capability, which returns a call to send.

`Client` and `AsyncClient` share these functions, so that each capability has one signature, one
description, one request and one conversion of its response. They raise InvalidQuery, naming the
field, for values that the wire cannot carry; the gateway checks everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from google.protobuf.message_factory import GetMessageClass

from codelode.client import results
from codelode.client.reading import reader, value, values
from codelode.client.request import (
    Grep,
    Search,
    Values,
    count,
    encodable,
    filters,
    grep_request,
    natural,
    run_request,
    search_request,
    texts,
)
from codelode.client.results import (
    About,
    Context,
    FileLines,
    Folder,
    GrepSummary,
    MatchingFile,
    ReferenceList,
    Scope,
    SearchResult,
    SymbolList,
)
from codelode.v1 import search_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from codelode.client.access import CreatedKey, Key
    from codelode.client.graph import Graph
    from codelode.client.index import IndexedRepository, Status
    from codelode.client.maps import ChunkMap, MapPlace
    from codelode.model import Run
    from codelode.reports import FileFailure, MapStatus, Permissions, Sources

Answer = TypeVar("Answer")

#: Number of failures per page.
PAGE_SIZE = 1_000

#: Longest wait for the answer of the health service, seconds.
HEALTH_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request, its gRPC method, and the function that converts the response."""

    method: str  # /package.Service/Method
    request: Message
    response: type[Message]
    read: Callable[[Any], Answer]
    is_anonymous: bool = False  # whether the call needs no token, so that none is sent


@encodable
def search(
    query: str, *, top_k: int = 10, page: str = "", **search: Unpack[Search]
) -> Call[SearchResult]:
    """Return the `top_k` best chunks for the query, best first.

    An empty filter means all; values of one filter are alternatives, and `not_` filters exclude
    what they match. `options` by stage and name, such as `{"expand": {"related": 10}}`, take
    precedence over the preset. `page` is the `next_page` of the previous result. Raises
    InvalidQuery with the invalid field, NotFound, Unavailable.
    """
    request = search_request(query, **search)
    request.top_k, request.page_token = count("top_k", top_k), page
    return _call("SearchService/Search", request, results.search_result)


@encodable
def context(
    query: str, *, budget_tokens: int = 0, top_k: int = 20, **search: Unpack[Search]
) -> Call[Context]:
    """Return the best chunks for the query as one text of at most `budget_tokens`; 0: 8,000.

    A part of the budget is left to the caller: see `options["assemble"]["reserved_tokens"]`.
    """
    asked = search_request(query, **search)
    asked.top_k = count("top_k", top_k)
    if budget_tokens:
        asked.options.assemble.budget_tokens = budget_tokens
    request = search_pb2.ContextRequest(search=asked)
    return _call("SearchService/Context", request, results.context)


@encodable
def similar(
    path: str = "",
    line: int = 0,
    *,
    repository: str = "",
    snippet: str = "",
    ref: str = "",
    top_k: int = 10,
    **values: Unpack[Values],
) -> Call[SearchResult]:
    """Return code like the code at a line, or like a snippet, most similar first.

    `repository` says where the line is, the filters where to search, and `ref` both.
    """
    request = search_pb2.SimilarRequest(
        repository=repository,
        path=path,
        line=line,
        snippet=snippet,
        ref=ref,
        top_k=count("top_k", top_k),
        filters=filters(ref, **values),
    )
    return _call("SearchService/Similar", request, results.search_result)


@encodable
def read(
    path: str, *, repository: str = "", ref: str = "", start_line: int = 0, end_line: int = 0
) -> Call[FileLines]:
    """Return lines of an indexed file; without lines, the whole file, if one answer can hold it.

    Raises NotFound, and InvalidQuery for lines that the file does not have.
    """
    request = search_pb2.ReadFileRequest(
        repository=repository, path=path, ref=ref, start_line=start_line, end_line=end_line
    )
    return _call("SearchService/ReadFile", request, reader(FileLines))


@encodable
def folder(
    path: str = "",
    *,
    repository: str = "",
    ref: str = "",
    page_size: int = 0,
    page_token: str = "",
) -> Call[Folder]:
    """Return what a folder of a repository contains; an empty path is the root.

    `page_size`: at most 1,000; 0 means 1,000. Raises NotFound.
    """
    request = search_pb2.ListFilesRequest(
        repository=repository, ref=ref, path=path, page_size=page_size, page_token=page_token
    )
    return _call("SearchService/ListFiles", request, reader(Folder))


@encodable
def grep(pattern: str, **given: Unpack[Grep]) -> Call[tuple[MatchingFile | GrepSummary, ...]]:
    """Stream the files that a pattern matches; see `Client.grep`."""
    return _call("SearchService/Grep", grep_request(pattern, **given), results.grep_part)


@encodable
def symbols(
    name: str, *, literal: bool = False, limit: int = 200, ref: str = "", **values: Unpack[Values]
) -> Call[SymbolList]:
    """Return the definitions whose name matches a glob, or with `literal` equals it.

    A name with dots is compared with the end of qualified names: `Client.get`. With `literal`, the
    name may be a position of it, `PATH:LINE:COLUMN`. The filters are those of `search`; `kinds` are
    those of the definitions. Raises InvalidQuery.
    """
    request = search_pb2.ListSymbolsRequest(
        name=name, filters=filters(ref, **values), literal=literal, limit=natural("limit", limit)
    )
    return _call("SearchService/ListSymbols", request, reader(SymbolList))


@encodable
def references(
    name: str, *, limit: int = 200, ref: str = "", **values: Unpack[Values]
) -> Call[ReferenceList]:
    """Return the uses of a name in all repositories, the most certain ones first.

    The name may be qualified, or a position of it, `PATH:LINE:COLUMN`.
    The filters limit the uses. Raises InvalidQuery with the invalid field.
    """
    request = search_pb2.ListReferencesRequest(
        name=name, filters=filters(ref, **values), limit=natural("limit", limit)
    )
    return _call("SearchService/ListReferences", request, reader(ReferenceList))


def scopes() -> Call[tuple[Scope, ...]]:
    """Return the scopes with a repository that the caller sees, by name."""
    return _call(
        "SearchService/ListScopes",
        search_pb2.ListScopesRequest(),
        lambda message: values(Scope, message.scopes),
    )


@encodable
def explain(subject: str, *, repository: str = "", ref: str = "") -> Call[About]:
    """Return what is known about a file or a symbol. Raises NotFound."""
    request = search_pb2.ExplainRequest(repository=repository, subject=subject, ref=ref)
    return _call("SearchService/Explain", request, results.about)


@encodable
def chunk_map(repositories: Iterable[str] = ()) -> Call[ChunkMap]:
    """Return the map of the chunks of at most 50 repositories, and the other maps that exist.

    The map has no points until it is made. Raises InvalidQuery.
    """
    from codelode.client import maps

    request = search_pb2.GetMapRequest(repositories=texts("repositories", repositories))
    return _call("SearchService/GetMap", request, maps.chunk_map)


@encodable
def map_places(repositories: Iterable[str], points: Iterable[int]) -> Call[tuple[MapPlace, ...]]:
    """Return the chunks at points of a map, at most 200. Raises InvalidQuery, NotFound."""
    from codelode.client import maps

    request = search_pb2.ListMapPlacesRequest(
        repositories=texts("repositories", repositories), points=points
    )
    return _call(
        "SearchService/ListMapPlaces",
        request,
        lambda message: values(maps.MapPlace, message.places),
    )


@encodable
def make_map(repositories: Iterable[str]) -> Call[MapStatus]:
    """Have a worker make the map of repositories; return its progress at once."""
    from codelode.reports import MapStatus

    request = search_pb2.MakeMapRequest(repositories=texts("repositories", repositories))
    return _call("SearchService/MakeMap", request, lambda message: value(MapStatus, message.status))


@encodable
def graph(
    subject: str = "",
    *,
    repository: str = "",
    depth: int = 3,
    reverse: bool = False,
    relations: Iterable[str] = (),
    limit: int = 200,
    ref: str = "",
) -> Call[Graph]:
    """Return what a file or a symbol depends on, or with `reverse` what depends on it.

    `relations`: any of imports, importers, calls, callers, inherits, subclasses, definitions,
    references, tests, cross_repository; none means those of the direction. Raises NotFound, and
    InvalidQuery with the invalid field.
    """
    from codelode.client import graph as graphs
    from codelode.v1 import graph_pb2

    request = graph_pb2.GetGraphRequest(
        repository=repository,
        subject=subject,
        depth=count("depth", depth),
        reverse=reverse,
        relations=texts("relations", relations),
        limit=count("limit", limit),
        ref=ref,
    )
    return _call("GraphService/GetGraph", request, reader(graphs.Graph))


@encodable
def start_run(
    url: str,
    *,
    name: str = "",
    ref: str = "",
    label: str = "",
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    plan_only: bool = False,
) -> Call[Run]:
    """Start a run that brings the index of a repository at a ref up to date; see `Client.index`."""
    from codelode.client import index

    request = run_request(url, name=name, ref=ref, include=include, exclude=exclude)
    request.label, request.plan_only = label, plan_only
    return _call("IndexService/StartRun", request, index.run_of)


@encodable
def watch_run(run: Run | str) -> Call[Run]:
    """Stream the states of a run; see `Client.watch`."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    request = index_pb2.WatchRunRequest(run_id=_run_id(run))
    return _call("IndexService/WatchRun", request, index.run_of)


@encodable
def cancel(run: Run | str) -> Call[Run]:
    """End a run; what it has indexed so far stays."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    request = index_pb2.CancelRunRequest(run_id=_run_id(run))
    return _call("IndexService/CancelRun", request, index.run_of)


def status() -> Call[Status]:
    """Return the repositories, runs, queues, and workers of the cluster, and its problems."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    request = index_pb2.GetStatusRequest()
    return _call("IndexService/GetStatus", request, index.status)


def repositories() -> Call[tuple[IndexedRepository, ...]]:
    """Return all registered repositories, by name."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    return _call(
        "IndexService/ListRepositories",
        index_pb2.ListRepositoriesRequest(),
        lambda message: tuple(map(index.indexed, message.repositories)),
    )


@encodable
def set_default(name: str, ref: str) -> Call[Run]:
    """Start a run that indexes a ref and makes it the default; "HEAD": the source's default."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    request = index_pb2.SetDefaultRefRequest(repository=name, ref=ref)
    return _call("IndexService/SetDefaultRef", request, index.run_of)


@encodable
def label(names: str, label: str) -> Call[tuple[str, ...]]:
    """Label the repositories that a name or a glob matches, and return their names.

    `label`: "public", "internal", "private", or "" for none, which decides who sees them.
    """
    from codelode.v1 import index_pb2

    return _call(
        "IndexService/SetLabel",
        index_pb2.SetLabelRequest(repository=names, label=label),
        lambda message: tuple(message.repositories),
    )


@encodable
def remove(name: str, *, ref: str = "") -> Call[None]:
    """Remove a repository and everything that is indexed of it, or only one of its refs."""
    from codelode.v1 import index_pb2

    return _call(
        "IndexService/RemoveRepository",
        index_pb2.RemoveRepositoryRequest(name=name, ref=ref),
        lambda _: None,
    )


@encodable
def failures(
    name: str | None, page: str, *, include_skipped: bool, include_partial: bool
) -> Call[tuple[tuple[FileFailure, ...], str]]:
    """Return one page of failures and the token of the next one; see `Client.failures`."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    request = index_pb2.ListFailuresRequest(
        repository=name or "",
        include_skipped=include_skipped,
        include_partial=include_partial,
        page_size=PAGE_SIZE,
        page_token=page,
    )
    return _call("IndexService/ListFailures", request, index.failures)


@encodable
def retry(name: str | None = None) -> Call[tuple[Run, ...]]:
    """Try the failed files of one or all repositories again; return the runs that do so."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    request = index_pb2.RetryFailuresRequest(repository=name or "")
    return _call("IndexService/RetryFailures", request, index.runs_of)


@encodable
def enrich(name: str | None = None) -> Call[tuple[Run, ...]]:
    """Write the summaries that are missing from earlier runs; return the runs that do so."""
    from codelode.client import index
    from codelode.v1 import index_pb2

    request = index_pb2.EnrichRepositoryRequest(repository=name or "")
    return _call("IndexService/EnrichRepository", request, index.runs_of)


@encodable
def create_key(
    name: str,
    *,
    role: str = "reader",
    repositories: Iterable[str] = (),
    expires_in_s: float = 0.0,
) -> Call[CreatedKey]:
    """Create an API key; only this result has its text.

    `repositories`: globs over names that bound what the key sees, empty for no bound. It expires
    after `expires_in_s`, 0 for never. Raises InvalidQuery with the invalid field, Denied.
    """
    from codelode.client import access
    from codelode.v1 import access_pb2

    globs = texts("repositories", repositories)
    request = access_pb2.CreateKeyRequest(
        name=name, role=role, repositories=globs, expires_in_s=expires_in_s
    )
    return _call("AccessService/CreateKey", request, access.created_key)


def keys() -> Call[tuple[Key, ...]]:
    """Return the API keys, without their texts, by name."""
    from codelode.client import access
    from codelode.v1 import access_pb2

    request = access_pb2.ListKeysRequest()
    return _call(
        "AccessService/ListKeys", request, lambda message: tuple(map(access.key, message.keys))
    )


@encodable
def revoke_key(name: str) -> Call[None]:
    """Revoke an API key; when this returns, no gateway accepts it."""
    from codelode.v1 import access_pb2

    return _call("AccessService/RevokeKey", access_pb2.RevokeKeyRequest(name=name), lambda _: None)


def permissions() -> Call[Permissions]:
    """Return the state of the permission sync of each code host."""
    from codelode.reports import Permissions
    from codelode.v1 import access_pb2

    request = access_pb2.ListPermissionsRequest()
    return _call("AccessService/ListPermissions", request, reader(Permissions))


@encodable
def sync_permissions(connection: str | None = None) -> Call[tuple[str, ...]]:
    """Have the permissions of one or all code hosts read now; return the connections at once."""
    from codelode.v1 import access_pb2

    return _call(
        "AccessService/SyncPermissions",
        access_pb2.SyncPermissionsRequest(connection=connection or ""),
        lambda message: tuple(message.connections),
    )


def sources() -> Call[Sources]:
    """Return the state of each code host whose repositories are followed."""
    from codelode.reports import Sources
    from codelode.v1 import index_pb2

    request = index_pb2.ListSourcesRequest()
    return _call("IndexService/ListSources", request, reader(Sources))


@encodable
def sync_sources(connection: str | None = None, *, mode: str = "sync") -> Call[tuple[str, ...]]:
    """Have the repositories of one or all code hosts listed now; return the connections at once.

    `mode`: `plan`, `sync`, or `confirm`, which also removes what waits for a confirmation.
    """
    from codelode.v1 import index_pb2

    return _call(
        "IndexService/SyncSources",
        index_pb2.SyncSourcesRequest(connection=connection or "", mode=mode),
        lambda message: tuple(message.connections),
    )


def health() -> Call[bool]:
    """Return whether the gateway reports that it is ready."""
    from grpc_health.v1 import health_pb2

    def is_serving(message: Any) -> bool:
        return bool(message.status == health_pb2.HealthCheckResponse.SERVING)

    request = health_pb2.HealthCheckRequest()
    method, response = "/grpc.health.v1.Health/Check", health_pb2.HealthCheckResponse
    return Call(method, request, response, is_serving, is_anonymous=True)


def _call(method: str, request: Message, read: Callable[[Any], Answer]) -> Call[Answer]:
    service, _, name = method.partition("/")
    described = request.DESCRIPTOR.file.services_by_name[service].methods_by_name[name]
    response = GetMessageClass(described.output_type)
    return Call(f"/codelode.v1.{method}", request, response, read)


def _run_id(run: Run | str) -> str:
    return run if isinstance(run, str) else run.id
