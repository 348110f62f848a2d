"""Answer errors of pages: redirect unknown callers to the sign-in page, and show other errors."""

from __future__ import annotations

import re
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from codelode.errors import Unauthenticated
from gateway.api.rest import problems
from gateway.api.rest.app import unrouted
from gateway.api.rest.calls import REQUEST_ID, AdmittedRoute, Handler, admitted, face_of
from gateway.api.web.labels import labelled
from gateway.api.web.rendering import page
from gateway.calls import request_id
from gateway.service.capabilities import FUNCTIONS

#: Header that our scripts send to get only a part of a page.
PART = "x-codelode-part"

#: Matches a path of this gateway. Browsers take `//host` and `/\\host` for other hosts, and drop
#: control characters.
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")


class PageRoute(AdmittedRoute):
    """A route that answers with a page. Its operation id names the call."""

    def get_route_handler(self) -> Handler:
        # AdmittedRoute's handler is skipped: it answers errors as problem details.
        handler = super(AdmittedRoute, self).get_route_handler()
        return admitted(handler, FUNCTIONS[self.operation_id or ""], refused, reads_body=True)


def page_router() -> APIRouter:
    """Return a router for pages; each names its call with `operation_id`."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


def refused(request: Request, error: Exception, id: str) -> Response:
    """Return the response for a page, or a part of one, that cannot be shown."""
    is_unknown = isinstance(error, Unauthenticated)
    if is_unknown and PART not in request.headers:
        response: Response = RedirectResponse(sign_in_url(request), 303)
    else:
        response = error_page(request, problems.problem(error, request_id=id))
    if is_unknown:
        face_of(request).cookies.put(response, request, "session", "", life_s=0)
    return response


def error_page(request: Request, told: problems.Problem) -> Response:
    template = "problem.html" if PART in request.headers else "error.html"
    response = page(request, template, status=told.status, problem=labelled(told))
    if told.retry_s:
        response.headers["Retry-After"] = str(max(1, round(told.retry_s)))
    return response


def sign_in_url(request: Request) -> str:
    """Return the URL of the sign-in page that leads back to the page of the request."""
    if request.method != "GET":
        return "/sign-in"
    there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    ended = "&ended=1" if face_of(request).cookies.get(request, "session") else ""
    return f"/sign-in?next={quote(there, safe='')}{ended}" if there != "/" or ended else "/sign-in"


def own_path(given: str) -> str:
    """Return the path if it is one of this gateway, else that of the start page."""
    return given if _OWN_PATH.fullmatch(given) else "/"


async def unrouted_page(request: Request, error: Exception) -> Response:
    """Answer a request that no route matches, with a page if a browser asks for one."""
    assert isinstance(error, HTTPException)
    wants_page = "text/html" in request.headers.get("accept", "")
    if not wants_page or request.url.path.startswith("/api"):
        return await unrouted(request, error)
    id = request_id(request.headers.get(REQUEST_ID))
    told = problems.Problem(
        type="about:blank",
        title="Not found" if error.status_code == 404 else "Not possible",
        status=error.status_code,
        detail=f"there is no page at {request.url.path[:200]}; the address may be cut or mistyped",
        request_id=id,
    )
    response = error_page(request, told)
    response.headers[REQUEST_ID] = id
    return response


def answer_unrouted(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, unrouted_page)
