"""The routes: each converts the request, calls one function of the service, converts the answer."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from gateway import service
from gateway.api.rest import bodies
from gateway.api.rest.answers import answered, read
from gateway.api.rest.calls import Admitted, AdmittedRoute
from gateway.service import results
from gateway.service.capabilities import CAPABILITIES

router = APIRouter(route_class=AdmittedRoute)


def _operation(function: str, answer: Any, tag: str) -> dict[str, Any]:
    """Return how a route appears in the OpenAPI document."""
    capability = CAPABILITIES[function]
    summary, _, rest = (getattr(service, function).__doc__ or "").partition("\n")
    about = f"{' '.join(rest.split())} Requires the role {capability.role}.".strip()
    return {
        "operation_id": capability.call,
        "summary": summary.rstrip("."),
        "description": about,
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


@router.get("/repositories", **_operation("repositories", list[results.Repository], "index"))
async def repositories(call: Admitted, request: Request) -> Response:
    return read(await service.repositories(call.dependencies, call.principal), request)


@router.get("/status", **_operation("status", results.Status, "index"))
async def status(call: Admitted, request: Request) -> Response:
    return read(await service.status(call.dependencies, call.principal), request)


@router.get("/failures", **_operation("failures", results.Failures, "index"))
async def failures(
    call: Admitted, request: Request, query: Annotated[bodies.FailuresQuery, Query()]
) -> Response:
    return read(await service.failures(call.dependencies, call.principal, query.given()), request)
