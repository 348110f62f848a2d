"""Sign browsers in and out: by a secret in a form, a single-use link, or an issuer's login.

Anybody can send a link or the answer of an issuer, so these are looked up, or exchanged at the
issuer, only after the gateway has checked that the address has not failed too often.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from codelode.errors import CodelodeError, Denied, InvalidQuery, Unauthenticated
from codelode.openid_flow import LoginRequest, code_of, endpoint, new_seed
from gateway import service
from gateway.access.identity import Credentials
from gateway.access.shared_token import WRONG_TOKEN
from gateway.api.rest import problems
from gateway.api.rest.answers import answered
from gateway.api.rest.calls import REQUEST_ID, Call, admitted, as_problem, base_url, face_of
from gateway.api.rest.cookies import is_own
from gateway.api.web.forms import fields
from gateway.api.web.labels import labelled
from gateway.api.web.pages import error_page, own_path
from gateway.api.web.rendering import page
from gateway.calls import request_id
from gateway.sessions import LINK_S, Credential

#: How long the user may take at the issuer, seconds.
LOGIN_S = 600.0

FOREIGN = Denied(
    "this request came from another site, so it is not followed; open the page of this gateway, "
    "and sign in or out there"
)
OTHER_LOGIN = Unauthenticated(
    f"this login was not begun in this browser, or more than {LOGIN_S / 60:g} minutes ago; sign in "
    "again"
)

WRONG_SECRET = (
    "this is not an API key or token of this gateway: copy the whole text of the key, or use "
    "`codelode web` on the machine where `codelode up` runs"
)

router = APIRouter(include_in_schema=False)


@dataclass(slots=True)
class _Login:
    """A login whose credential is asked for when the gateway admits the call."""

    ask: Callable[[], Awaitable[Credential]]
    credential: Credential = field(init=False)

    async def authorization(self) -> str:
        self.credential = await self.ask()
        return self.credential.authorization


@router.get("/sign-in")
async def sign_in_page(request: Request) -> Response:
    return _page(request)


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    if not is_own(request):
        return _refused(request, FOREIGN)
    try:
        form = await fields(request)
    except CodelodeError as error:
        return _refused(request, error)
    secret, then = form.get("secret", "").strip(), form.get("next", "/")
    if not secret:
        return _refused(request, InvalidQuery("secret", "is empty; paste an API key or a token"))
    credential = Credential(f"Bearer {secret}")
    return await _open(request, Credentials(credential.authorization), lambda: credential, then)


@router.post("/sign-in/link")
async def make_link(request: Request) -> Response:
    """Return a single-use link that signs a browser in with the credentials of this call."""
    authorization = request.headers.get("authorization", "")

    async def make(_: Request) -> Response:
        call: Call = request.state.call
        code = await service.sign_in_link(call.dependencies, call.principal, authorization)
        return answered({"path": f"/sign-in/link?code={code}", "expires_in_s": LINK_S})

    return await admitted(make, "sign_in_link", as_problem, Credentials(authorization))(request)


@router.get("/sign-in/link")
async def follow_link(request: Request) -> Response:
    """Sign in by a link, but not from another site: it could sign users in as somebody else."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return _refused(request, FOREIGN)
    if "prefetch" in request.headers.get("sec-purpose", ""):
        return Response(status_code=503)
    sessions, code = face_of(request).dependencies.sessions, request.query_params.get("code", "")
    return await _complete(request, partial(sessions.taken, code), "/")


@router.get("/sign-in/start")
async def start_login(request: Request) -> Response:
    """Send the browser to the issuer. A cookie ties the login to this browser."""
    issuers = face_of(request).dependencies.sessions.issuers
    issuer = request.query_params.get("issuer", "")
    if issuer not in issuers.urls:
        raise HTTPException(404)
    then, seed = own_path(request.query_params.get("next", "/")), new_seed()
    try:
        found = endpoint(await issuers.described(issuer), "authorization_endpoint")
    except CodelodeError as error:
        return _refused(request, error)
    url = LoginRequest.of(seed).url(
        found,
        client_id=issuers.client_id,
        redirect_uri=_redirect_uri(request),
        scope=issuers.scope,
    )
    response = RedirectResponse(url, 303)
    value = ".".join((seed, str(issuers.urls.index(issuer)), quote(then, safe="")))
    face_of(request).cookies.put(response, request, "login", value, life_s=LOGIN_S)
    return response


@router.get("/sign-in/callback")
async def end_login(request: Request) -> Response:
    """Exchange the code that the browser brings for a token, and open a session with it."""
    seed, _, rest = face_of(request).cookies.get(request, "login").partition(".")
    number, _, then = rest.partition(".")
    response = await _complete(request, partial(_credential, request, seed, number), unquote(then))
    face_of(request).cookies.put(response, request, "login", "", life_s=0)
    return response


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    if not is_own(request):
        return _refused(request, FOREIGN)
    face = face_of(request)
    try:
        await face.dependencies.sessions.close(face.cookies.get(request, "session"))
    except CodelodeError as error:
        return _refused(request, error)
    response = RedirectResponse("/sign-in", 303)
    face.cookies.put(response, request, "session", "", life_s=0)
    return response


async def _credential(request: Request, seed: str, number: str) -> Credential:
    """Return the credential of the login from which the browser returns."""
    issuers = face_of(request).dependencies.sessions.issuers
    login, given = LoginRequest.of(seed), dict(request.query_params)
    issuer = {str(at): url for at, url in enumerate(issuers.urls)}.get(number)
    if not seed or issuer is None or not login.has_state(given.get("state", "")):
        raise OTHER_LOGIN
    form = login.code_form(
        code_of(given, issuer),
        client_id=issuers.client_id,
        redirect_uri=_redirect_uri(request),
    )
    token, refresh_token = login.tokens(await issuers.answer(issuer, form), issuer)
    return Credential(f"Bearer {token}", issuer, refresh_token)


async def _complete(
    request: Request, ask: Callable[[], Awaitable[Credential]], then: str
) -> Response:
    """Open a session with the credential that `ask` returns, and redirect to the page `then`."""
    login = _Login(ask)
    return await _open(request, Credentials(login=login), lambda: login.credential, then)


async def _open(
    request: Request, given: Credentials, credential: Callable[[], Credential], then: str
) -> Response:
    """Open a session if what is given is accepted, and redirect to the page `then`."""
    face = face_of(request)

    async def open_session(_: Request) -> Response:
        call: Call = request.state.call
        session = await service.sign_in(call.dependencies, call.principal, credential())
        sessions = call.dependencies.sessions
        await sessions.close(face.cookies.get(request, "session"))
        response = RedirectResponse(own_path(then), 303)
        face.cookies.put(response, request, "session", session, life_s=sessions.life_s)
        return response

    return await admitted(open_session, "sign_in", partial(_shown, then=then), given)(request)


def _page(request: Request, problem: problems.Problem | None = None, then: str = "") -> Response:
    """Return the sign-in page, which says what was wrong with the last attempt."""
    urls = face_of(request).dependencies.sessions.issuers.urls
    return page(
        request,
        "sign_in.html",
        status=problem.status if problem else 200,
        issuers=urls,
        then=own_path(then or request.query_params.get("next", "/")),
        has_ended="ended" in request.query_params,
        problem=labelled(problem) if problem else None,
    )


def _refused(request: Request, error: Exception) -> Response:
    return _shown(request, error, request_id(request.headers.get(REQUEST_ID)))


def _shown(request: Request, error: Exception, id: str, *, then: str = "") -> Response:
    told = problems.problem(error, request_id=id)
    if told.detail == WRONG_TOKEN:  # its remedy is for commands
        told = replace(told, detail=WRONG_SECRET)
    if isinstance(error, Unauthenticated | InvalidQuery):
        return _page(request, told, then)
    return error_page(request, told)


def _redirect_uri(request: Request) -> str:
    """Return the URL to which the issuer sends the browser, as configured at the issuer."""
    return f"{base_url(request)}/sign-in/callback"
