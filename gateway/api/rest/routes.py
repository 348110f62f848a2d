"""Define the routes: each converts the request, calls a service function, converts the answer."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from codelode import reports
from codelode.model import Run
from gateway import service
from gateway.api.rest import bodies, events
from gateway.api.rest.answers import answered, done, read
from gateway.api.rest.calls import Admitted, AdmittedRoute
from gateway.service import results
from gateway.service.capabilities import CAPABILITIES

router = APIRouter(route_class=AdmittedRoute)
streams = APIRouter()  # their responses are admitted while they are sent


def _operation(function: str, answer: Any, tag: str) -> dict[str, Any]:
    """Return the description of a route in the OpenAPI document."""
    capability = CAPABILITIES[function]
    about, _, _ = (getattr(service, function).__doc__ or "").partition("\n")
    return {
        "operation_id": capability.call,
        "summary": about.partition(".")[0],
        "description": f"Requires the role {capability.role}.",
        "response_model": answer,
        "tags": [tag],
    }


@router.post("/search", **_operation("search", results.SearchAnswer, "search"))
async def search(call: Admitted, body: bodies.SearchBody) -> Response:
    return answered(await service.search(call.dependencies, call.principal, body.given()))


@router.post("/context", **_operation("context", results.ContextAnswer, "search"))
async def context(call: Admitted, body: bodies.SearchBody) -> Response:
    return answered(await service.context(call.dependencies, call.principal, body.given()))


@router.post("/similar", **_operation("similar", results.SearchAnswer, "search"))
async def similar(call: Admitted, body: bodies.SimilarBody) -> Response:
    return answered(await service.similar(call.dependencies, call.principal, body.given()))


@router.post("/grep", **_operation("grep", results.GrepAnswer, "search"))
async def grep(call: Admitted, body: bodies.GrepBody) -> Response:
    parts = [one async for one in service.grep(call.dependencies, call.principal, body.given())]
    return answered(results.grep_answer(parts))


@router.post("/symbols", **_operation("symbols", results.SymbolsAnswer, "search"))
async def symbols(call: Admitted, body: bodies.SymbolsBody) -> Response:
    return answered(await service.symbols(call.dependencies, call.principal, body.given()))


@router.post("/references", **_operation("references", results.ReferencesAnswer, "search"))
async def references(call: Admitted, body: bodies.ReferencesBody) -> Response:
    return answered(await service.references(call.dependencies, call.principal, body.given()))


@router.get("/read", **_operation("read", results.FileLines, "search"))
async def read_file(
    call: Admitted, request: Request, query: Annotated[bodies.ReadQuery, Query()]
) -> Response:
    return read(await service.read(call.dependencies, call.principal, query.given()), request)


@router.get("/files", **_operation("files", results.FileList, "search"))
async def list_files(
    call: Admitted, request: Request, query: Annotated[bodies.FilesQuery, Query()]
) -> Response:
    return read(await service.files(call.dependencies, call.principal, query.given()), request)


@router.get("/explain", **_operation("explain", results.ExplainAnswer, "search"))
async def explain(
    call: Admitted, request: Request, query: Annotated[bodies.ExplainQuery, Query()]
) -> Response:
    return read(await service.explain(call.dependencies, call.principal, query.given()), request)


@router.get("/graph", **_operation("graph", results.GraphAnswer, "search"))
async def graph(
    call: Admitted, request: Request, query: Annotated[bodies.GraphQuery, Query()]
) -> Response:
    return read(await service.graph(call.dependencies, call.principal, query.given()), request)


@router.get("/map", **_operation("chunk_map", results.MapAnswer, "search"))
async def chunk_map(
    call: Admitted, request: Request, query: Annotated[bodies.MapQuery, Query()]
) -> Response:
    return read(await service.chunk_map(call.dependencies, call.principal, query.given()), request)


@router.get("/map/places", **_operation("map_places", results.MapPlaces, "search"))
async def map_places(
    call: Admitted, request: Request, query: Annotated[bodies.MapPlacesQuery, Query()]
) -> Response:
    return read(await service.map_places(call.dependencies, call.principal, query.given()), request)


@router.post("/map", status_code=201, **_operation("make_map", reports.MapStatus, "search"))
async def make_map(call: Admitted, body: bodies.MapBody) -> Response:
    made = await service.make_map(call.dependencies, call.principal, body.given())
    return answered(made, 201)


@router.get("/repositories", **_operation("repositories", list[results.Repository], "index"))
async def repositories(call: Admitted, request: Request) -> Response:
    return read(await service.repositories(call.dependencies, call.principal), request)


@router.get("/scopes", **_operation("scopes", list[results.ListedScope], "search"))
async def scopes(call: Admitted, request: Request) -> Response:
    return read(await service.scopes(call.dependencies, call.principal), request)


@router.get("/status", **_operation("status", results.Status, "index"))
async def status(call: Admitted, request: Request) -> Response:
    return read(await service.status(call.dependencies, call.principal), request)


@router.get("/failures", **_operation("failures", results.Failures, "index"))
async def failures(
    call: Admitted, request: Request, query: Annotated[bodies.FailuresQuery, Query()]
) -> Response:
    return read(await service.failures(call.dependencies, call.principal, query.given()), request)


@router.post("/failures/retry", **_operation("retry_failures", list[Run], "index"))
async def retry_failures(call: Admitted, body: bodies.RepositoryBody) -> Response:
    given = (call.dependencies, call.principal, body.repository)
    return answered(await service.retry_failures(*given))


@router.post("/runs", status_code=201, **_operation("start", Run, "index"))
async def start(call: Admitted, body: bodies.RunBody) -> Response:
    run = await service.start(call.dependencies, call.principal, body.given())
    return answered(run, 201)


@streams.get(
    "/runs/{run_id}/events",
    **_operation("watch", None, "index"),
    response_class=events.EventStream,
    status_code=200,
    responses={
        200: {"description": "Events `run`, then `end`.", "content": {events.MEDIA_TYPE: {}}}
    },
)
async def watch(request: Request, run_id: str) -> Response:
    return events.EventStream(
        request,
        "watch",
        "run",
        lambda call: service.watch(call.dependencies, call.principal, run_id),
    )


@router.post("/runs/{run_id}/cancel", **_operation("cancel", Run, "index"))
async def cancel(call: Admitted, run_id: str) -> Response:
    return answered(await service.cancel(call.dependencies, call.principal, run_id))


@router.post("/repositories/enrich", **_operation("enrich", list[Run], "index"))
async def enrich(call: Admitted, body: bodies.RepositoryBody) -> Response:
    return answered(await service.enrich(call.dependencies, call.principal, body.repository))


@router.post("/repositories/default-ref", **_operation("set_default", Run, "index"))
async def set_default(call: Admitted, body: bodies.DefaultRefBody) -> Response:
    given = (call.dependencies, call.principal, body.repository, body.ref)
    return answered(await service.set_default(*given))


@router.post("/repositories/label", **_operation("label", list[str], "access"))
async def label(call: Admitted, body: bodies.LabelBody) -> Response:
    given = (call.dependencies, call.principal, body.repository, body.label)
    return answered(await service.label(*given))


@router.delete("/repositories", status_code=204, **_operation("remove", None, "index"))
async def remove(call: Admitted, query: Annotated[bodies.RemoveQuery, Query()]) -> Response:
    await service.remove(call.dependencies, call.principal, query.name, query.ref)
    return done()


@router.post("/keys", status_code=201, **_operation("create_key", results.CreatedKey, "access"))
async def create_key(call: Admitted, body: bodies.KeyBody) -> Response:
    made = await service.create_key(call.dependencies, call.principal, body.given())
    return answered(made, 201)


@router.get("/keys", **_operation("list_keys", list[results.Key], "access"))
async def list_keys(call: Admitted, request: Request) -> Response:
    return read(await service.list_keys(call.dependencies, call.principal), request)


@router.delete("/keys/{name}", status_code=204, **_operation("revoke_key", None, "access"))
async def revoke_key(call: Admitted, name: str) -> Response:
    await service.revoke_key(call.dependencies, call.principal, name)
    return done()


@router.get("/permissions", **_operation("permissions", reports.Permissions, "access"))
async def permissions(call: Admitted, request: Request) -> Response:
    return read(await service.permissions(call.dependencies, call.principal), request)


@router.post("/permissions/sync", **_operation("sync_permissions", list[str], "access"))
async def sync_permissions(call: Admitted, body: bodies.SyncBody) -> Response:
    given = (call.dependencies, call.principal, body.connection)
    return answered(await service.sync_permissions(*given))


@router.get("/sources", **_operation("sources", reports.Sources, "index"))
async def sources(call: Admitted, request: Request) -> Response:
    return read(await service.sources(call.dependencies, call.principal), request)


@router.post("/sources/sync", **_operation("sync_sources", list[str], "index"))
async def sync_sources(call: Admitted, body: bodies.SourcesBody) -> Response:
    given = (call.dependencies, call.principal, body.connection, body.mode)
    return answered(await service.sync_sources(*given))
