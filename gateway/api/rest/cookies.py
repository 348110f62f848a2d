"""Find the credentials of a request: its authorization, else the session of the browser.

Browsers add cookies to requests that other sites cause, so the session counts for a request that
changes something only if a page of this gateway has sent it. Browsers report the sender in headers
that no page can set (`Sec-Fetch-Site`, `Origin`).
"""

from __future__ import annotations

from typing import NamedTuple

from fastapi import Request, Response

from codelode.settings import Settings
from gateway.access.identity import Credentials

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class CookieRules(NamedTuple):
    """The rules for names and attributes of this gateway's cookies."""

    is_secure: bool  # whether browsers reach the gateway only by TLS

    @classmethod
    def of(cls, settings: Settings) -> CookieRules:
        return cls(bool(settings.tls_certificate) or settings.tls_terminated_by_proxy)

    def name(self, request: Request, kind: str) -> str:
        """Return the name of a cookie.

        With the prefix `__Host-`, no other host or path can set it. Without TLS, all ports of this
        machine share their cookies, so the name contains the port.
        """
        server = request.scope.get("server") or ("", 0)
        return f"__Host-codelode-{kind}" if self.is_secure else f"codelode-{kind}-{server[1]}"

    def get(self, request: Request, kind: str) -> str:
        return request.cookies.get(self.name(request, kind), "")

    def put(
        self, response: Response, request: Request, kind: str, value: str, *, life_s: float
    ) -> None:
        """Set the cookie; an empty value removes it."""
        response.set_cookie(
            self.name(request, kind),
            value,
            max_age=round(life_s) if value else 0,
            path="/",
            secure=self.is_secure,
            httponly=True,
            samesite="lax",  # also sent on links from other sites, and back from an issuer
        )


def presented(request: Request, rules: CookieRules) -> Credentials:
    """Return the credentials of a request."""
    authorization = request.headers.get("authorization", "")
    if authorization:
        return Credentials(authorization)
    session = rules.get(request, "session")
    return Credentials(session=session) if session and is_own(request) else Credentials()


def is_own(request: Request) -> bool:
    """Return whether the request changes nothing, or comes from a page of this gateway."""
    if request.method in SAFE_METHODS:
        return True
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    _, _, host = request.headers.get("origin", "").partition("://")
    return bool(host) and host == request.headers.get("host")
