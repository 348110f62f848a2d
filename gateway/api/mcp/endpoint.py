"""Answer requests to /mcp, and describe the endpoint to clients that want to log in (RFC 9728).

Every request brings its credentials; there are no sessions, so any gateway answers any request.
The library takes seconds to import and 25 MB of memory, so the first request of a known caller
loads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib import import_module
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from codelode.errors import CodelodeError, Denied, InvalidQuery
from codelode.loopback import is_address, is_loopback
from codelode.settings import Settings, listed
from gateway.api.mcp.client import AdmittedClient, outcome
from gateway.api.rest import calls, problems
from gateway.api.rest.answers import answered
from gateway.api.rest.calls import REQUEST_ID, TIMEOUT_S, base_url, face_of, received_as
from gateway.calls import request_id

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"

UNAUTHORIZED, METHOD_NOT_ALLOWED, MISDIRECTED = 401, 405, 421

#: The function that the audit log and the request log name if a caller is refused.
FUNCTION = "mcp"

Serve = Callable[..., Awaitable[None]]


def routes() -> Sequence[Route]:
    """Return the routes of the face."""
    return (
        Route(PATH, Endpoint(), include_in_schema=False),
        *(Route(at, _metadata, include_in_schema=False) for at in (METADATA + PATH, METADATA)),
    )


async def _metadata(request: Request) -> Response:
    """Describe the endpoint to a client that has no credentials yet."""
    settings = face_of(request).dependencies.settings
    try:
        require_host(request, settings)
    except CodelodeError as error:
        return _refused(error, request_id(request.headers.get(REQUEST_ID)))
    issuers = listed(settings.oidc_issuers)
    about = {
        "resource": base_url(request) + PATH,
        "resource_name": "codelode",
        "bearer_methods_supported": ["header"],
    }
    return answered({**about, "authorization_servers": issuers} if issuers else about)


class Endpoint:
    """Answers the requests of agents, as an ASGI application."""

    def __init__(self) -> None:
        self._serve: Serve | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        id = request_id(request.headers.get(REQUEST_ID))
        try:
            await _require_known(request, id)
            body = await calls.body(request, within_s=TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 - any error becomes an answer
            await _refusal(request, error, id)(scope, receive, send)
            return
        serve = await self._loaded()
        await serve(
            lambda: AdmittedClient(face_of(request), request, id),
            *(scope, _after(body, receive), send),
        )

    async def _loaded(self) -> Serve:
        if self._serve is None:
            module = await asyncio.to_thread(import_module, "codelode.mcp.http")
            self._serve = module.serve
        return self._serve


async def _require_known(request: Request, id: str) -> None:
    """Raise an error unless the request is a POST of a known caller to this gateway."""
    face = face_of(request)
    require_host(request, face.dependencies.settings)
    received = received_as(request, FUNCTION, id, remaining_s=lambda: None, code=outcome)
    await face.calls.require_known(replace(received, face="mcp"))
    if request.method != "POST":
        raise _MethodNotAllowed(
            "method", f"{request.method[:20]} is not possible at {PATH}; use POST"
        )


def _refusal(request: Request, error: Exception, id: str) -> Response:
    response = _refused(error, id)
    if isinstance(error, _MethodNotAllowed):
        response.headers["Allow"] = "POST"
    if response.status_code == UNAUTHORIZED:
        metadata = f"{base_url(request)}{METADATA}{PATH}"
        response.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{metadata}"'
    return response


def _after(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body, which was read already, and then what follows."""
    read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return read.pop() if read else await receive()

    return received


class _MethodNotAllowed(InvalidQuery):
    """The endpoint does not accept the method of the request."""


class _UnknownHost(InvalidQuery):
    """The request names a host that is not this gateway."""


def require_host(request: Request, settings: Settings) -> None:
    """Raise an error if the request may come from a foreign page in a browser (DNS rebinding).

    A host name that an attacker points to this machine is neither `localhost` nor in
    CODELODE_HTTP_HOSTS. Addresses, such as 192.0.2.1, cannot be rebound.
    """
    known = listed(settings.http_hosts)
    host = _host_of(f"//{request.headers.get('host', '')}")
    if not (is_loopback(host) or is_address(host) or host in known):
        raise _UnknownHost(
            "Host", f"{host[:100]!r} is not the name of this gateway; add it to CODELODE_HTTP_HOSTS"
        )
    origin = request.headers.get("origin")
    if origin is not None and not (is_loopback(_host_of(origin)) or _host_of(origin) in known):
        raise Denied(
            f"pages of {origin[:100]!r} may not call this gateway; add its host to "
            "CODELODE_HTTP_HOSTS if they may"
        )


def _host_of(url: str) -> str:
    """Return the host of a URL in lower case; empty if the URL is malformed."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "").lower() if parts.port != 0 else ""
    except ValueError:
        return ""


def _refused(error: Exception, id: str) -> Response:
    told = problems.problem(error, request_id=id)
    statuses: dict[type, int] = {_MethodNotAllowed: METHOD_NOT_ALLOWED, _UnknownHost: MISDIRECTED}
    response = problems.response(replace(told, status=statuses.get(type(error), told.status)))
    response.headers[REQUEST_ID] = id
    return response
