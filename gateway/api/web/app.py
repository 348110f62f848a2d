"""Add the pages to the application of the HTTP port."""

from __future__ import annotations

from fastapi import FastAPI

from gateway.api.web import assets, code, graph, lab, maps, repositories, search, sign_in
from gateway.api.web.headers import SecurityHeaders
from gateway.api.web.pages import answer_unrouted


def with_pages(app: FastAPI) -> FastAPI:
    """Return the application, which now answers with pages beside the REST API."""
    for one in (assets, sign_in, search, code, repositories, graph, maps, lab):
        app.include_router(one.router)
    answer_unrouted(app)
    app.add_middleware(SecurityHeaders)
    return app
