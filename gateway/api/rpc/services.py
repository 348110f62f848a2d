"""Implement the gRPC services: convert the request, call one function, convert the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from codelode.access import Principal
from codelode.v1 import (
    access_pb2,
    access_pb2_grpc,
    graph_pb2,
    graph_pb2_grpc,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)
from gateway import service
from gateway.api.rpc import convert
from gateway.api.rpc.convert import M, R, message
from gateway.api.rpc.interceptors import CallContext, caller
from gateway.service.requests import (
    CreateKeyRequest,
    ExplainRequest,
    FailuresRequest,
    FilesRequest,
    GraphRequest,
    GrepRequest,
    MapPlacesRequest,
    MapRequest,
    ReadRequest,
    ReferencesRequest,
    SearchRequest,
    SimilarRequest,
    StartRequest,
    SymbolsRequest,
)

# ruff: noqa: N802 - the methods have gRPC's names


def _method(
    kind: type[R],
    answer: Callable[[service.Dependencies, Principal, R], Awaitable[object]],
    response: type[M],
) -> Any:
    """Make the method that answers requests with a function of the service layer."""

    async def method(self: Any, request: Any, context: CallContext) -> M:
        asked = convert.request(request, kind)
        return message(await answer(self.dependencies, caller(), asked), response)

    return method


@dataclass(frozen=True, slots=True)
class SearchService(search_pb2_grpc.SearchServiceServicer):
    """Finds code across all indexed repositories."""

    dependencies: service.Dependencies

    Search = _method(SearchRequest, service.search, search_pb2.SearchResponse)
    Similar = _method(SimilarRequest, service.similar, search_pb2.SearchResponse)
    ListSymbols = _method(SymbolsRequest, service.symbols, search_pb2.ListSymbolsResponse)
    ListReferences = _method(
        ReferencesRequest, service.references, search_pb2.ListReferencesResponse
    )
    ReadFile = _method(ReadRequest, service.read, search_pb2.ReadFileResponse)
    ListFiles = _method(FilesRequest, service.files, search_pb2.ListFilesResponse)
    Explain = _method(ExplainRequest, service.explain, search_pb2.ExplainResponse)
    GetMap = _method(MapRequest, service.chunk_map, search_pb2.GetMapResponse)
    ListMapPlaces = _method(MapPlacesRequest, service.map_places, search_pb2.ListMapPlacesResponse)

    async def Context(
        self, request: search_pb2.ContextRequest, context: CallContext
    ) -> search_pb2.ContextResponse:
        asked = convert.request(request.search, SearchRequest)
        answer = await service.context(self.dependencies, caller(), asked)
        return message(answer, search_pb2.ContextResponse)

    async def Grep(
        self, request: search_pb2.GrepRequest, context: CallContext
    ) -> AsyncIterator[search_pb2.GrepResponse]:
        asked = convert.request(request, GrepRequest)
        async for part in service.grep(self.dependencies, caller(), asked):
            yield convert.grep_response(part)

    async def ListScopes(
        self, request: search_pb2.ListScopesRequest, context: CallContext
    ) -> search_pb2.ListScopesResponse:
        found = await service.scopes(self.dependencies, caller())
        listed = [message(one, search_pb2.Scope) for one in found]
        return search_pb2.ListScopesResponse(scopes=listed)

    async def MakeMap(
        self, request: search_pb2.MakeMapRequest, context: CallContext
    ) -> search_pb2.MakeMapResponse:
        asked = convert.request(request, MapRequest)
        status = await service.make_map(self.dependencies, caller(), asked)
        return search_pb2.MakeMapResponse(status=message(status, search_pb2.MapStatus))


@dataclass(frozen=True, slots=True)
class GraphService(graph_pb2_grpc.GraphServiceServicer):
    """Follows dependencies between files, symbols, and repositories."""

    dependencies: service.Dependencies

    GetGraph = _method(GraphRequest, service.graph, graph_pb2.GetGraphResponse)


@dataclass(frozen=True, slots=True)
class IndexService(index_pb2_grpc.IndexServiceServicer):
    """Registers repositories and keeps their index up to date."""

    dependencies: service.Dependencies

    ListFailures = _method(FailuresRequest, service.failures, index_pb2.ListFailuresResponse)

    async def StartRun(
        self, request: index_pb2.StartRunRequest, context: CallContext
    ) -> index_pb2.StartRunResponse:
        asked = convert.request(request, StartRequest)
        run = await service.start(self.dependencies, caller(), asked)
        return index_pb2.StartRunResponse(run=message(run, index_pb2.Run))

    async def WatchRun(
        self, request: index_pb2.WatchRunRequest, context: CallContext
    ) -> AsyncIterator[index_pb2.WatchRunResponse]:
        async for run in service.watch(self.dependencies, caller(), request.run_id):
            yield index_pb2.WatchRunResponse(run=message(run, index_pb2.Run))

    async def CancelRun(
        self, request: index_pb2.CancelRunRequest, context: CallContext
    ) -> index_pb2.CancelRunResponse:
        run = await service.cancel(self.dependencies, caller(), request.run_id)
        return index_pb2.CancelRunResponse(run=message(run, index_pb2.Run))

    async def ListRepositories(
        self, request: index_pb2.ListRepositoriesRequest, context: CallContext
    ) -> index_pb2.ListRepositoriesResponse:
        found = await service.repositories(self.dependencies, caller())
        listed = [message(one, index_pb2.Repository) for one in found]
        return index_pb2.ListRepositoriesResponse(repositories=listed)

    async def GetStatus(
        self, request: index_pb2.GetStatusRequest, context: CallContext
    ) -> index_pb2.GetStatusResponse:
        status = await service.status(self.dependencies, caller())
        return message(status, index_pb2.GetStatusResponse)

    async def RemoveRepository(
        self, request: index_pb2.RemoveRepositoryRequest, context: CallContext
    ) -> index_pb2.RemoveRepositoryResponse:
        await service.remove(self.dependencies, caller(), request.name, request.ref)
        return index_pb2.RemoveRepositoryResponse()

    async def SetDefaultRef(
        self, request: index_pb2.SetDefaultRefRequest, context: CallContext
    ) -> index_pb2.SetDefaultRefResponse:
        run = await service.set_default(
            self.dependencies, caller(), request.repository, request.ref
        )
        return index_pb2.SetDefaultRefResponse(run=message(run, index_pb2.Run))

    async def SetLabel(
        self, request: index_pb2.SetLabelRequest, context: CallContext
    ) -> index_pb2.SetLabelResponse:
        names = await service.label(self.dependencies, caller(), request.repository, request.label)
        return index_pb2.SetLabelResponse(repositories=names)

    async def RetryFailures(
        self, request: index_pb2.RetryFailuresRequest, context: CallContext
    ) -> index_pb2.RetryFailuresResponse:
        runs = await service.retry_failures(self.dependencies, caller(), request.repository)
        return index_pb2.RetryFailuresResponse(runs=[message(run, index_pb2.Run) for run in runs])

    async def EnrichRepository(
        self, request: index_pb2.EnrichRepositoryRequest, context: CallContext
    ) -> index_pb2.EnrichRepositoryResponse:
        runs = await service.enrich(self.dependencies, caller(), request.repository)
        return index_pb2.EnrichRepositoryResponse(
            runs=[message(run, index_pb2.Run) for run in runs]
        )

    async def ListSources(
        self, request: index_pb2.ListSourcesRequest, context: CallContext
    ) -> index_pb2.ListSourcesResponse:
        found = await service.sources(self.dependencies, caller())
        return message(found, index_pb2.ListSourcesResponse)

    async def SyncSources(
        self, request: index_pb2.SyncSourcesRequest, context: CallContext
    ) -> index_pb2.SyncSourcesResponse:
        given = (request.connection, request.mode)
        names = await service.sync_sources(self.dependencies, caller(), *given)
        return index_pb2.SyncSourcesResponse(connections=names)


@dataclass(frozen=True, slots=True)
class AccessService(access_pb2_grpc.AccessServiceServicer):
    """Manages who may call the gateway."""

    dependencies: service.Dependencies

    CreateKey = _method(CreateKeyRequest, service.create_key, access_pb2.CreateKeyResponse)

    async def ListKeys(
        self, request: access_pb2.ListKeysRequest, context: CallContext
    ) -> access_pb2.ListKeysResponse:
        keys = await service.list_keys(self.dependencies, caller())
        return access_pb2.ListKeysResponse(keys=[message(key, access_pb2.ApiKey) for key in keys])

    async def RevokeKey(
        self, request: access_pb2.RevokeKeyRequest, context: CallContext
    ) -> access_pb2.RevokeKeyResponse:
        await service.revoke_key(self.dependencies, caller(), request.name)
        return access_pb2.RevokeKeyResponse()

    async def ListPermissions(
        self, request: access_pb2.ListPermissionsRequest, context: CallContext
    ) -> access_pb2.ListPermissionsResponse:
        found = await service.permissions(self.dependencies, caller())
        return message(found, access_pb2.ListPermissionsResponse)

    async def SyncPermissions(
        self, request: access_pb2.SyncPermissionsRequest, context: CallContext
    ) -> access_pb2.SyncPermissionsResponse:
        names = await service.sync_permissions(self.dependencies, caller(), request.connection)
        return access_pb2.SyncPermissionsResponse(connections=names)
