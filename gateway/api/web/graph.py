"""Serve the graph page: dependencies of a file, symbol, or repository in both directions.

They are lists, which the page's script also draws as a graph, so both show the same.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from gateway import service
from gateway.api.rest.bodies import Query as Parameters
from gateway.api.rest.bodies import Text, Whole
from gateway.api.rest.calls import Admitted
from gateway.api.web.branches import Node, Side, node, sides
from gateway.api.web.links import link
from gateway.api.web.pages import PART, page_router
from gateway.api.web.rendering import page
from gateway.expand.links import GraphNode
from gateway.service.requests import GraphRequest
from gateway.service.results import GraphAnswer

#: Maximum number of links of each relation that are shown by default, and the limits that the page
#: offers.
LIMIT = 60
LIMITS = (LIMIT, 200)

router = page_router()


class GraphParameters(Parameters):
    repository: Text = Field(default="", description="Look for the subject only there.")
    ref: Text = Field(default="", description="Branch, tag, or commit; empty: the default refs.")
    path: Text = Field(default="", description="Path of a file.")
    symbol: Text = Field(default="", description="Name of a symbol.")
    depth: Whole = Field(default=1, description="Number of steps, at most 5.")
    limit: Whole = Field(default=LIMIT, description="Links of each relation, at most 1,000.")

    @property
    def subject(self) -> str:
        return self.path or self.symbol

    def given(self, *, reverse: bool) -> GraphRequest:
        place = (self.subject, self.repository, self.ref)
        return GraphRequest(*place, (), self.depth, self.limit, reverse)


@router.get("/graph", operation_id="GetGraph")
async def graph(
    call: Admitted, request: Request, asked: Annotated[GraphParameters, Query()]
) -> Response:
    if not (asked.subject.strip() or asked.repository):
        return page(request, "graph.html", asked=asked, limits=LIMITS, root=None)
    forward, backward = await asyncio.gather(
        *(
            service.graph(call.dependencies, call.principal, asked.given(reverse=reverse))
            for reverse in (False, True)
        )
    )
    root = _root(asked, forward)
    return page(
        request,
        "branches.html" if PART in request.headers else "graph.html",
        asked=asked,
        limits=sorted({*LIMITS, asked.limit}),
        root=root,
        repository_url=link("/graph", repository=root.repository, ref=asked.ref),
        definitions=tuple(
            node(one.target, forward.repository, asked.ref)
            for one in forward.links
            if one.relation == "definitions"
        ),
        sides=_sides(asked, forward, backward),
        notices=tuple(dict.fromkeys((*forward.notices, *backward.notices))),
    )


def _root(asked: GraphParameters, found: GraphAnswer) -> Node:
    """Return the subject as a node."""
    if found.subject_kind == "repository":
        at = GraphNode(found.repository)
    elif found.subject_kind == "file":
        at = GraphNode(found.repository, asked.subject.strip().removeprefix("./"))
    else:
        at = next((one.target for one in found.links if one.relation == "definitions"), None) or (
            GraphNode(found.repository, symbol=asked.subject)
        )
    return node(at, found.repository, asked.ref)


def _sides(asked: GraphParameters, forward: GraphAnswer, backward: GraphAnswer) -> tuple[Side, ...]:
    return sides(forward, backward, asked.subject.strip().removeprefix("./"), asked.ref)
