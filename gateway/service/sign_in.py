"""Sign browsers in: open sessions, and make links that open one without typing a secret."""

from __future__ import annotations

from codelode.access import Principal
from gateway.service.capabilities import permitted
from gateway.service.dependencies import Dependencies
from gateway.sessions import Credential


@permitted
async def sign_in(dependencies: Dependencies, principal: Principal, credential: Credential) -> str:
    """Open a session with the caller's own credential and return its id, the value of a cookie."""
    return await dependencies.sessions.open(credential)


@permitted
async def sign_in_link(dependencies: Dependencies, principal: Principal, authorization: str) -> str:
    """Return the code of a link that signs one browser in, once, with the authorization."""
    return await dependencies.sessions.link(authorization)
