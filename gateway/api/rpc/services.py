"""Implement the gRPC services: convert the request, call one function, convert the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

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
from gateway.api.rpc.convert import message
from gateway.api.rpc.interceptors import CallContext, caller
from gateway.service.requests import MapPlacesRequest, MapRequest

# ruff: noqa: N802 - the methods have gRPC's names


@dataclass(frozen=True, slots=True)
class SearchService(search_pb2_grpc.SearchServiceServicer):
    """Finds code across all indexed repositories."""

    dependencies: service.Dependencies

    async def Search(
        self, request: search_pb2.SearchRequest, context: CallContext
    ) -> search_pb2.SearchResponse:
        asked = convert.search_request(request)
        answer = await service.search(self.dependencies, caller(), asked)
        return message(answer, search_pb2.SearchResponse)

    async def Context(
        self, request: search_pb2.ContextRequest, context: CallContext
    ) -> search_pb2.ContextResponse:
        asked = convert.search_request(request.search)
        answer = await service.context(self.dependencies, caller(), asked)
        return message(answer, search_pb2.ContextResponse)

    async def Similar(
        self, request: search_pb2.SimilarRequest, context: CallContext
    ) -> search_pb2.SearchResponse:
        asked = convert.similar_request(request)
        answer = await service.similar(self.dependencies, caller(), asked)
        return message(answer, search_pb2.SearchResponse)

    async def Grep(
        self, request: search_pb2.GrepRequest, context: CallContext
    ) -> AsyncIterator[search_pb2.GrepResponse]:
        asked = convert.grep_request(request)
        async for part in service.grep(self.dependencies, caller(), asked):
            yield convert.grep_response(part)

    async def ListSymbols(
        self, request: search_pb2.ListSymbolsRequest, context: CallContext
    ) -> search_pb2.ListSymbolsResponse:
        asked = convert.symbols_request(request)
        answer = await service.symbols(self.dependencies, caller(), asked)
        return message(answer, search_pb2.ListSymbolsResponse)

    async def ListReferences(
        self, request: search_pb2.ListReferencesRequest, context: CallContext
    ) -> search_pb2.ListReferencesResponse:
        asked = convert.references_request(request)
        answer = await service.references(self.dependencies, caller(), asked)
        return message(answer, search_pb2.ListReferencesResponse)

    async def ListScopes(
        self, request: search_pb2.ListScopesRequest, context: CallContext
    ) -> search_pb2.ListScopesResponse:
        found = await service.scopes(self.dependencies, caller())
        listed = [message(one, search_pb2.Scope) for one in found]
        return search_pb2.ListScopesResponse(scopes=listed)

    async def ReadFile(
        self, request: search_pb2.ReadFileRequest, context: CallContext
    ) -> search_pb2.ReadFileResponse:
        asked = convert.read_request(request)
        answer = await service.read(self.dependencies, caller(), asked)
        return message(answer, search_pb2.ReadFileResponse)

    async def ListFiles(
        self, request: search_pb2.ListFilesRequest, context: CallContext
    ) -> search_pb2.ListFilesResponse:
        asked = convert.files_request(request)
        found = await service.files(self.dependencies, caller(), asked)
        return message(found, search_pb2.ListFilesResponse)

    async def Explain(
        self, request: search_pb2.ExplainRequest, context: CallContext
    ) -> search_pb2.ExplainResponse:
        asked = convert.explain_request(request)
        answer = await service.explain(self.dependencies, caller(), asked)
        return message(answer, search_pb2.ExplainResponse)

    async def GetMap(
        self, request: search_pb2.GetMapRequest, context: CallContext
    ) -> search_pb2.GetMapResponse:
        answer = await service.chunk_map(
            self.dependencies, caller(), MapRequest(request.repositories)
        )
        return message(answer, search_pb2.GetMapResponse)

    async def ListMapPlaces(
        self, request: search_pb2.ListMapPlacesRequest, context: CallContext
    ) -> search_pb2.ListMapPlacesResponse:
        asked = MapPlacesRequest(request.repositories, request.points)
        answer = await service.map_places(self.dependencies, caller(), asked)
        return message(answer, search_pb2.ListMapPlacesResponse)

    async def MakeMap(
        self, request: search_pb2.MakeMapRequest, context: CallContext
    ) -> search_pb2.MakeMapResponse:
        asked = MapRequest(request.repositories)
        status = await service.make_map(self.dependencies, caller(), asked)
        return search_pb2.MakeMapResponse(status=message(status, search_pb2.MapStatus))


@dataclass(frozen=True, slots=True)
class GraphService(graph_pb2_grpc.GraphServiceServicer):
    """Follows dependencies between files, symbols and repositories."""

    dependencies: service.Dependencies

    async def GetGraph(
        self, request: graph_pb2.GetGraphRequest, context: CallContext
    ) -> graph_pb2.GetGraphResponse:
        asked = convert.graph_request(request)
        answer = await service.graph(self.dependencies, caller(), asked)
        return message(answer, graph_pb2.GetGraphResponse)


@dataclass(frozen=True, slots=True)
class IndexService(index_pb2_grpc.IndexServiceServicer):
    """Registers repositories and keeps their index up to date."""

    dependencies: service.Dependencies

    async def StartRun(
        self, request: index_pb2.StartRunRequest, context: CallContext
    ) -> index_pb2.StartRunResponse:
        asked = convert.start_request(request)
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

    async def ListFailures(
        self, request: index_pb2.ListFailuresRequest, context: CallContext
    ) -> index_pb2.ListFailuresResponse:
        asked = convert.failures_request(request)
        page = await service.failures(self.dependencies, caller(), asked)
        return message(page, index_pb2.ListFailuresResponse)

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

    async def CreateKey(
        self, request: access_pb2.CreateKeyRequest, context: CallContext
    ) -> access_pb2.CreateKeyResponse:
        asked = convert.key_request(request)
        created = await service.create_key(self.dependencies, caller(), asked)
        return message(created, access_pb2.CreateKeyResponse)

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
