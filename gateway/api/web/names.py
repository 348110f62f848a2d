"""Look up a name of a file: its definitions, its callers, and the files that use it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codelode.errors import NotFound
from gateway import service
from gateway.api.rest.calls import Call
from gateway.api.web.links import code_url, link
from gateway.expand.links import GraphNode
from gateway.service.requests import ExplainRequest, GraphRequest
from gateway.service.results import Definition, GraphAnswer

#: Maximum number of definitions, and of uses of each kind, that are shown.
MAX_DEFINITIONS = 20
MAX_USES = 50

_USES = (("callers", "Called by"), ("subclasses", "Inherited by"), ("references", "Used by"))


@dataclass(frozen=True, slots=True)
class Place:
    """A place where a name is defined or used."""

    url: str
    repository: str
    path: str
    line: int
    symbol: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Uses:
    """The uses of one kind."""

    title: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A name with its definitions and uses; without definitions, nothing is known of it."""

    name: str
    home: str  # the repository that the page shows
    summary: str
    definitions: tuple[Place, ...]
    uses: tuple[Uses, ...]
    notices: tuple[str, ...]
    graph_url: str
    search_url: str


async def look_up(call: Call, repository: str, ref: str, name: str) -> Found:
    """Return the meaning of the name in the repository, or else in all that the caller sees."""
    for where, at in ((repository, ref), ("", "")):
        try:
            return await _found(call, where, at, name, home=repository)
        except NotFound:
            continue
    search_url = link("/search", q=name)
    return Found(name, repository, "", (), (), (), "", search_url)


async def _found(call: Call, repository: str, ref: str, name: str, *, home: str) -> Found:
    given = ExplainRequest(name, repository, ref)
    about = await service.explain(call.dependencies, call.principal, given)
    asked = GraphRequest(name, repository, ref, [kind for kind, _ in _USES], 1, MAX_USES, True)
    graph = await service.graph(call.dependencies, call.principal, asked)
    return Found(
        name=name,
        home=home,
        summary=about.summary,
        definitions=tuple(_definition(one, ref) for one in about.definitions[:MAX_DEFINITIONS]),
        uses=tuple(_uses(graph, repository, ref)),
        notices=(*about.notices, *graph.notices),
        graph_url=link("/graph", repository=repository, ref=ref, symbol=name),
        search_url=link("/search", q=name),
    )


def _uses(graph: GraphAnswer, repository: str, ref: str) -> Iterable[Uses]:
    """Yield the uses of each kind; a caller is not listed again among the references."""
    seen: set[GraphNode] = set()
    for kind, title in _USES:
        nodes = dict.fromkeys(one.source for one in graph.links if one.relation == kind)
        places = tuple(_place(one, repository, ref) for one in nodes if one not in seen)
        seen.update(nodes)
        if places:
            yield Uses(title, places)


def _place(node: GraphNode, repository: str, ref: str) -> Place:
    lines = (node.line, node.line) if node.line else None
    at = ref if node.repository == repository else ""  # another repository may not have the ref
    url = code_url(node.repository, node.path, at, lines)
    return Place(url, node.repository, node.path, node.line, node.symbol)


def _definition(one: Definition, ref: str) -> Place:
    return Place(
        code_url(one.repository, one.path, ref, (one.start_line, one.end_line)),
        one.repository,
        one.path,
        one.start_line,
        one.name,
        one.signature or one.doc,
    )
