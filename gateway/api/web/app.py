"""Build the application of the HTTP port: the REST API and the pages."""

from __future__ import annotations

from functools import cache

from fastapi import FastAPI

from gateway.api.rest import app as rest
from gateway.api.web import assets, code, graph, lab, maps, repositories, search, sign_in
from gateway.api.web.headers import SecurityHeaders
from gateway.api.web.pages import answer_unrouted


@cache
def application() -> FastAPI:
    """Return the application, which all gateways of a process share."""
    app = rest.application()
    for one in (assets, sign_in, search, code, repositories, graph, maps, lab):
        app.include_router(one.router)
    answer_unrouted(app)
    app.add_middleware(SecurityHeaders)
    return app
