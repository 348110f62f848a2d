"""Have every request admitted, and answer errors as problem details.

The body of a request is read once its caller is known, and before the call takes its turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codelode.access import Principal
from codelode.errors import TimedOut
from gateway.access.identity import Credentials
from gateway.access.webhooks import WebhookConnections
from gateway.api.rest import problems
from gateway.api.rest.cookies import CookieRules, presented
from gateway.calls import Calls, Received, request_id
from gateway.highlighting import Highlighter
from gateway.service import Dependencies
from gateway.service.capabilities import FUNCTIONS

REQUEST_ID = "x-request-id"
#: The key of the face in the scope of a request.
FACE = "codelode.face"

#: Time within which a request is answered, seconds. Callers of gRPC choose a deadline; HTTP has no
#: usual way to send one.
TIMEOUT_S = 60.0

#: Time within which the body of a request must arrive, seconds.
BODY_S = 30.0

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Refused = Callable[[Request, Exception, str], Response]  # the last argument: the request's id


@dataclass(frozen=True, slots=True)
class Face:
    """Holds what the routes need; `Faced` adds it to each request."""

    dependencies: Dependencies
    calls: Calls
    is_healthy: Callable[[], bool]
    webhooks: WebhookConnections
    highlighter: Highlighter

    @property
    def cookies(self) -> CookieRules:
        return CookieRules.of(self.dependencies.settings)


@dataclass(frozen=True, slots=True)
class Call:
    """An admitted call: the first two arguments of a service function."""

    dependencies: Dependencies
    principal: Principal


class Faced:
    """Serves an application with one face; faces share the application, which is slow to build."""

    def __init__(self, app: ASGIApp, face: Face) -> None:
        self._app, self._face = app, face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, FACE: self._face}, receive, send)


def face_of(request: Request) -> Face:
    """Return the face that answers the request."""
    face: Face = request.scope[FACE]
    return face


def base_url(request: Request) -> str:
    """Return the URL under which the caller reaches the HTTP port, without a slash at its end."""
    scheme = "https" if face_of(request).cookies.is_secure else "http"
    return f"{scheme}://{request.headers.get('host', '')}"


def call_of(request: Request) -> Call:
    """Return the call that was admitted for the request."""
    call: Call = request.state.call
    return call


async def _call(request: Request) -> Call:
    return call_of(request)


#: Type of a route's parameter that gets the admitted call.
Admitted = Annotated[Call, Depends(_call)]


class AdmittedRoute(APIRoute):
    """A route that answers the call that its operation id names.

    Its endpoint returns a response, so only the OpenAPI document needs the type of the answer, and
    routes have it only in an application that is made for the document (`app._described`). FastAPI
    builds a serializer of each type, which took a twentieth of the start of a gateway.
    """

    def __init__(self, *args: Any, response_model: Any = None, **given: Any) -> None:
        super().__init__(*args, response_model=None, **given)
        self.answer = response_model

    def get_route_handler(self) -> Handler:
        function = FUNCTIONS[self.operation_id or ""]
        return admitted(super().get_route_handler(), function, as_problem, reads_body=True)


def admitted(
    handler: Handler,
    function: str,
    refused: Refused,
    credentials: Credentials | None = None,
    *,
    reads_body: bool = False,
) -> Handler:
    """Return a handler that has the call of the service function admitted first.

    `refused` returns the response to an error. `credentials` replace those of the header or the
    cookie. `reads_body` is false if the handler needs no body, or it is read already.
    """

    async def answer(request: Request) -> Response:
        return await concluded(
            request,
            lambda id: answer_admitted(
                handler, request, function, id, credentials, reads_body=reads_body
            ),
            refused,
        )

    return answer


async def concluded(
    request: Request, work: Callable[[str], Awaitable[Response]], refused: Refused
) -> Response:
    """Return the response of `work`, which gets the request id, or that to its error or timeout."""
    id = request_id(request.headers.get(REQUEST_ID))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            response = await work(id)
    except TimeoutError:
        response = refused(request, too_late(), id)
    except Exception as error:  # noqa: BLE001 - any error becomes an answer
        response = refused(request, error, id)
    response.headers[REQUEST_ID] = id
    return response


def too_late() -> TimedOut:
    """Return the error of a call that takes longer than TIMEOUT_S."""
    return TimedOut(f"there was no answer within {TIMEOUT_S:g} s; ask for less at once")


async def answer_admitted(
    handler: Handler,
    request: Request,
    function: str,
    id: str,
    credentials: Credentials | None = None,
    *,
    reads_body: bool = False,
) -> Response:
    """Have the call admitted, and return the response of the handler."""
    face = face_of(request)
    response, whole = Response(), request
    ends_at = time.monotonic() + TIMEOUT_S

    def code(error: BaseException | None) -> str:
        if error is None:
            return str(response.status_code)
        is_late = isinstance(error, asyncio.CancelledError) and time.monotonic() >= ends_at
        return status_name(TimedOut() if is_late else error)

    async def read() -> None:
        nonlocal whole
        content = await body(request, within_s=BODY_S)
        whole = Request(request.scope, _with_body(content, request.receive))

    received = received_as(
        request,
        function,
        id,
        remaining_s=lambda: ends_at - time.monotonic(),
        code=code,
        credentials=credentials,
    )
    if reads_body:
        received = replace(received, read=read)
    async with face.calls.admitted(received) as principal:
        request.state.call = Call(face.dependencies, principal)
        try:
            response = await handler(whole)
        except problems.UNDERSTOOD as error:
            raise problems.understood(error) from None
    return response


def counted_as(request: Request, function: str) -> AbstractAsyncContextManager[None]:
    """Count a further service function that an admitted request calls as a separate call.

    Raises Busy if the caller has reached the limit of such calls.
    """
    return face_of(request).calls.further(call_of(request).principal, function)


def _with_body(content: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body, and then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


def _bounded(receive: Receive, most: int) -> Receive:
    """Return a `receive` that raises HTTPException if the body is too large."""
    size = 0

    async def received() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413)
        return message

    return received


async def body(
    request: Request, *, most: int = problems.MAX_BODY_BYTES, within_s: float = TIMEOUT_S
) -> bytes:
    """Return the body. Raises TooLarge, and TimedOut if the caller does not send all of it."""
    try:
        async with asyncio.timeout(within_s):
            return await Request(request.scope, _bounded(request.receive, most)).body()
    except HTTPException:
        raise problems.too_large(most) from None
    except (TimeoutError, ClientDisconnect):
        raise TimedOut(f"the request was not sent within {within_s:g} s") from None


def received_as(
    request: Request,
    function: str,
    id: str,
    *,
    remaining_s: Callable[[], float | None],
    code: Callable[[BaseException | None], str],
    credentials: Credentials | None = None,
) -> Received:
    """Return the received call of the service function.

    Without `credentials`, those of the header or the cookie are used.
    """
    if credentials is None:
        credentials = presented(request, face_of(request).cookies)
    return Received(
        face="http",
        method=f"{request.method} {request.url.path}",
        function=function,
        request_id=id,
        source=request.client.host if request.client else "",
        credentials=credentials,
        remaining_s=remaining_s,
        code=code,
    )


def status_name(error: BaseException | None) -> str:
    """Return the status for the log line of an error, a cancellation, or None for success."""
    if error is None:
        return "200"
    return str(problems.status(error) if isinstance(error, Exception) else problems.CLIENT_GONE)


def as_problem(_: Request, error: Exception, id: str) -> Response:
    """Answer an error with its problem details."""
    return problems.response(problems.problem(error, request_id=id))
