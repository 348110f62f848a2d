"""GraphService: what is around a file or a symbol, over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codelode.errors import InvalidQuery
from codelode.ledger import Catalog
from codelode.model import RepositoryName
from codelode.v1 import graph_pb2, graph_pb2_grpc
from gateway.api import validate
from gateway.api.interceptors import Context, note
from gateway.expand.graph import BACKWARD, FORWARD, Around, GraphQuery, Relation, graph
from gateway.expand.links import Link, Place
from gateway.state import Backends

DEFAULT_DEPTH, MAX_DEPTH = 3, 5
DEFAULT_LIMIT, MAX_LIMIT = 200, 1_000


@dataclass(frozen=True, slots=True)
class GraphService(graph_pb2_grpc.GraphServiceServicer):
    """Follows dependencies between files, symbols and repositories."""

    backends: Backends
    ledger: Catalog

    async def GetGraph(  # noqa: N802 - gRPC's name
        self, request: graph_pb2.GetGraphRequest, context: Context
    ) -> graph_pb2.GetGraphResponse:
        """What is around a file or a symbol in the dependency graph."""
        query = await asyncio.to_thread(self._read, request)
        found = await graph(query, self.backends)
        note(subject_kind=found.kind, links=len(found.links))
        return _response(found)

    def _read(self, request: graph_pb2.GetGraphRequest) -> GraphQuery:
        subject = validate.query_text(request.subject, field="subject").removeprefix("./")
        visible = tuple(repository.name for repository in self.ledger.repositories())
        named = self._named(request.repository, visible)
        return GraphQuery(
            subject=subject,
            repositories=named,
            visible=visible,
            relations=_relations(request.relations, reverse=request.reverse),
            depth=validate.bounded("depth", request.depth, default=DEFAULT_DEPTH, most=MAX_DEPTH),
            reverse=request.reverse,
            limit=validate.bounded("limit", request.limit, default=DEFAULT_LIMIT, most=MAX_LIMIT),
            ref=validate.known_ref(request.ref, named, self.ledger),
        )

    def _named(self, name: str, visible: tuple[RepositoryName, ...]) -> tuple[RepositoryName, ...]:
        if not name:
            return visible
        return validate.known_repositories([name], self.ledger, field="repository")


def _relations(names: Sequence[str], *, reverse: bool) -> tuple[Relation, ...]:
    known = [relation.value for relation in Relation]
    for name in names:
        if name not in known:
            raise InvalidQuery("relations", validate.unknown("relation", name, known))
    if not names:
        return BACKWARD if reverse else FORWARD
    return tuple(dict.fromkeys(map(Relation, names)))


def _response(found: Around) -> graph_pb2.GetGraphResponse:
    return graph_pb2.GetGraphResponse(
        subject_kind=found.kind,
        repository=found.repository,
        links=_links(found.links),
        notices=found.notices,
    )


def _links(links: Iterable[Link]) -> Iterable[graph_pb2.GraphLink]:
    for link in links:
        yield graph_pb2.GraphLink(
            relation=link.relation,
            source=_place(link.source),
            target=_place(link.target),
            depth=link.depth,
            confidence=link.confidence,
        )


def _place(place: Place) -> graph_pb2.GraphPlace:
    return graph_pb2.GraphPlace(
        repository=place.repository, path=place.path, symbol=place.symbol, line=place.line
    )
