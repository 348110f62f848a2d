"""Build the application of the HTTP port: the routes, the OpenAPI document, and its page."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi_offline import FastAPIOffline
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from codelode.errors import InvalidQuery, NotFound
from gateway.api.mcp import endpoint as mcp
from gateway.api.rest import problems, webhooks
from gateway.api.rest.answers import INTERNAL, answered
from gateway.api.rest.calls import REQUEST_ID, AdmittedRoute, face_of
from gateway.api.rest.routes import router, streams
from gateway.calls import request_id

PREFIX = "/api/v1"
#: Maximum number of characters of a path in an error.
MAX_PATH_CHARS = 200

DESCRIPTION = """\
Code search across all the repositories of an organisation.

Send `Authorization: Bearer …` with the token of the gateway, an API key, or a token of an OpenID
Connect issuer. Errors are problem details (RFC 9457): `detail` says what is wrong and the remedy,
`field` names the invalid field.
"""

#: The response of every operation to an error.
REFUSAL = {
    "description": "An error, as problem details.",
    "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def application() -> FastAPI:
    """Return the application of the REST API; each request carries its face (`Faced`)."""
    app = FastAPIOffline(
        docs_url="/api/docs",
        redoc_url=None,
        static_url="/api/static",
        openapi_url="/api/openapi.json",
        swagger_ui_oauth2_redirect_url="/api/docs/oauth2",
        title="codelode",
        version="1",
        description=DESCRIPTION,
        redirect_slashes=False,
        exception_handlers={HTTPException: unrouted},
    )
    _add_described_routes(app)
    app.add_api_route(
        webhooks.PATH, webhooks.Webhooks().receive, methods=["POST"], include_in_schema=False
    )
    app.router.routes.extend(mcp.routes())
    app.openapi = partial(_document, app)  # type: ignore[method-assign]
    return app


def _add_described_routes(app: FastAPI) -> None:
    """Add the routes that are in the OpenAPI document."""
    for one in (router, streams):
        app.include_router(one, prefix=PREFIX, responses={"default": REFUSAL})
    app.add_api_route(
        f"{PREFIX}/health",
        _health,
        operation_id="CheckHealth",
        summary="Return whether the gateway serves",
        description="Requires no credentials.",
        tags=["index"],
        response_model=dict[str, str],
        responses={503: {"description": "It does not serve.", "model": dict[str, str]}},
        openapi_extra={"security": []},
    )


async def _health(request: Request) -> Response:
    if face_of(request).is_healthy():
        return answered({"status": "serving"})
    return answered({"status": "not serving"}, 503)


async def unrouted(request: Request, error: Exception) -> Response:
    """Answer a request that no route matches with an error and a hint."""
    assert isinstance(error, HTTPException)
    id = request_id(request.headers.get(REQUEST_ID))
    allowed = ", ".join(_allowed(request, error)) if error.status_code == 405 else ""
    told = problems.problem(_hint(request, error, allowed), request_id=id)
    response = problems.response(replace(told, status=error.status_code))
    response.headers.update({"Allow": allowed, REQUEST_ID: id} if allowed else {REQUEST_ID: id})
    return response


def _allowed(request: Request, error: HTTPException) -> list[str]:
    """Return all methods of the path; the framework names only those of the first route."""
    known: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    found = [name for name in known if compile_path(name)[0].match(request.url.path)]
    methods = [method.upper() for name in found for method in known[name]]
    return methods or [(error.headers or {}).get("Allow", "GET")]


def _hint(request: Request, error: HTTPException, allowed: str) -> Exception:
    path = request.url.path[:MAX_PATH_CHARS]
    if error.status_code == 405:
        return InvalidQuery(
            "method", f"{request.method[:20]} is not possible at {path}; use {allowed}"
        )
    if error.status_code != 404:
        return problems.understood(error)
    close = get_close_matches(path, request.app.openapi()["paths"], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return NotFound(f"there is nothing at {path}; {hint}/api/docs lists all")


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the errors and without internal fields."""
    if app.openapi_schema is None:
        made = app.openapi_schema = _described(app).openapi()
        schemas: dict[str, Any] = made["components"]["schemas"]
        for kind, names in INTERNAL.items():
            _strip(schemas.get(kind.__name__, {}), names)
        schemas["Problem"] = TypeAdapter(problems.Problem).json_schema()
        _drop_unused(made)
        made["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"bearer": []}]
    return app.openapi_schema or {}


def _described(app: FastAPI) -> FastAPI:
    """Return an application whose routes have the types of their answers."""
    for route in router.routes:
        assert isinstance(route, AdmittedRoute)
        route.response_model = route.answer
    described = FastAPI(title=app.title, version=app.version, description=app.description)
    _add_described_routes(described)
    return described


def _drop_unused(document: dict[str, Any]) -> None:
    """Remove the schemas that only internal fields used."""
    schemas = document["components"]["schemas"]
    while unused := _unused(document):
        for name in unused:
            del schemas[name]


def _unused(document: dict[str, Any]) -> list[str]:
    written = json.dumps(document)
    return [one for one in document["components"]["schemas"] if f'/schemas/{one}"' not in written]


def _strip(schema: dict[str, Any], names: Collection[str]) -> None:
    for name in names:
        schema.get("properties", {}).pop(name, None)
    schema["required"] = [name for name in schema.get("required", ()) if name not in names]
