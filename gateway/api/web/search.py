"""Serve the search page, and only its results for the script, which replaces them as you type."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query, Request, Response

from codelode.errors import Busy
from gateway import service
from gateway.api.rest.calls import Admitted, Call, counted_as
from gateway.api.web.links import link
from gateway.api.web.pages import PART, page_router
from gateway.api.web.parameters import SearchParameters
from gateway.api.web.rendering import page
from gateway.api.web.results import active, facets, groups, notices
from gateway.service.capabilities import may
from gateway.service.results import ListedScope, SearchAnswer

#: Maximum number of repositories that the start page lists.
MAX_LISTED = 50

router = page_router()


@router.get("/", operation_id="Search")
@router.get("/search", operation_id="Search")
async def search(
    call: Admitted, request: Request, asked: Annotated[SearchParameters, Query()]
) -> Response:
    part = PART in request.headers
    values = await (_found if asked.q.strip() else _start)(call, request, asked)
    template = "results.html" if part else "search.html"
    return page(request, template, asked=asked, **values)


async def _scopes(call: Call, request: Request, asked: SearchParameters) -> Sequence[ListedScope]:
    """Return the scopes to offer.

    None are offered if another filter already says where to search, or if listing them would
    exceed the caller's limit of calls: the page itself is within it.
    """
    if not call.dependencies.settings.scopes or asked.says_where:
        return ()
    try:
        async with counted_as(request, "scopes"):
            return await service.scopes(call.dependencies, call.principal)
    except Busy:
        return ()


async def _found(call: Call, request: Request, asked: SearchParameters) -> dict[str, Any]:
    answer = await service.search(call.dependencies, call.principal, asked.given())
    scopes = await _scopes(call, request, asked)
    # Arranging a page of hits takes about 20 ms and would block the event loop.
    return await asyncio.to_thread(_arranged, answer, asked, scopes)


def _arranged(
    answer: SearchAnswer, asked: SearchParameters, scopes: Sequence[ListedScope]
) -> dict[str, Any]:
    return {
        "answer": answer,
        "groups": groups(answer, asked),
        "facets": tuple(facets(answer, asked, scopes)),
        "active": tuple(active(asked)),
        "notices": tuple(notices(answer, asked)),
        "counts": _counts(answer),
        "lab_url": link("/lab", **{**dict(asked), "collapse": False, "why": False, "page": ""}),
        "more_url": asked.url(page=answer.next_page_token) if answer.next_page_token else "",
    }


async def _start(call: Call, request: Request, asked: SearchParameters) -> dict[str, Any]:
    """Return what the page shows before there is a query."""
    found = await service.repositories(call.dependencies, call.principal)
    return {
        "answer": None,
        "active": tuple(active(asked)),
        "repositories": found[:MAX_LISTED],
        "total": len(found),
        "scopes": await _scopes(call, request, asked),
        "may_index": may(call.principal, "start"),
    }


def _counts(answer: SearchAnswer) -> dict[str, int]:
    return {
        "hit": len(answer.hits),
        "file": len({(hit.repository, hit.path) for hit in answer.hits}),
        "repository": len({hit.repository for hit in answer.hits}),
        "copy": sum(len(hit.copies) for hit in answer.hits),
    }
