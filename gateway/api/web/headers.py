"""Add the headers that tell browsers what a page may load and who may show it in a frame.

They are added to every response of the HTTP port in one place, so that no page can lack them. Only
the documentation of the REST API gets no content security policy, because it needs an inline
script. It shows no content of repositories.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
#: Paths without a content security policy.
API_DOCS = ("/api/docs", "/api/static/")

_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class SecurityHeaders:
    """Adds the headers to the responses of an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        added = [*_ALWAYS]
        if not scope.get("path", "").startswith(API_DOCS):
            added.append((b"content-security-policy", POLICY.encode()))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        await self._app(scope, receive, sending)
