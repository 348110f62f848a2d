"""Explain a file or a symbol, and follow its dependencies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from codelode.access import Principal
from codelode.errors import InvalidQuery
from gateway import pipeline
from gateway.expand import graph as expand
from gateway.expand.graph import BACKWARD, FORWARD, GraphQuery, Relation
from gateway.service import queries
from gateway.service.audit import involve, note
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog, unknown
from gateway.service.coverage import MAX_REPOSITORIES
from gateway.service.dependencies import Dependencies, reads_index
from gateway.service.requests import ExplainRequest, GraphRequest
from gateway.service.results import ExplainAnswer, GraphAnswer, explain_answer
from gateway.state import Backends

DEFAULT_DEPTH, MAX_DEPTH = 3, 5
DEFAULT_LIMIT, MAX_LIMIT = 200, 1_000


@permitted
@reads_index
async def explain(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: ExplainRequest
) -> ExplainAnswer:
    """Describe a file or a symbol: what it is, its definitions, importers, and tests."""
    involve(query=request.subject)
    subject = queries.subject(request.subject)
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    names = await asyncio.to_thread(catalog.known_or_all, request.repository)
    ref = await asyncio.to_thread(catalog.ref_to_read, request.ref, names)
    found = await pipeline.explain(subject, repositories=names, ref=ref, backends=backends)
    involve(found.repositories)
    note(subject_kind=found.kind, definitions=len(found.definitions))
    covered = await dependencies.coverage.of(found.repositories[:MAX_REPOSITORIES], ref)
    return explain_answer(found, covered)


@permitted
@reads_index
async def graph(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: GraphRequest
) -> GraphAnswer:
    """Follow the dependencies of a file or a symbol, also into other visible repositories.

    Without a subject, follow the dependencies between the named repository and others.
    """
    involve(query=request.subject)
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    query = await asyncio.to_thread(_query, request, catalog)
    found = await expand.graph(query, backends)
    note(subject_kind=found.kind, links=len(found.links))
    ends = (end.repository for link in found.links for end in (link.source, link.target))
    names = tuple(dict.fromkeys(filter(None, (found.repository, *ends))))[:MAX_REPOSITORIES]
    involve(names)
    covered = await dependencies.coverage.of(names, query.ref)
    return GraphAnswer(found.kind, found.repository, found.links, found.notices, covered)


def _query(request: GraphRequest, catalog: VisibleCatalog) -> GraphQuery:
    is_whole = bool(request.repository) and not request.subject.strip()
    subject = "" if is_whole else queries.subject(request.subject)
    named = catalog.known_or_all(request.repository)
    return GraphQuery(
        subject=subject,
        repositories=named,
        visible=tuple(catalog.names()),
        relations=_relations(request.relations, reverse=request.reverse),
        depth=queries.bounded("depth", request.depth, default=DEFAULT_DEPTH, most=MAX_DEPTH),
        reverse=request.reverse,
        limit=queries.bounded("limit", request.limit, default=DEFAULT_LIMIT, most=MAX_LIMIT),
        ref=catalog.ref_to_read(request.ref, named),
    )


def _relations(names: Sequence[str], *, reverse: bool) -> tuple[Relation, ...]:
    queries.check_size("relations", names)
    known = [relation.value for relation in Relation]
    for name in names:
        if name not in known:
            raise InvalidQuery("relations", unknown("relation", name, known))
    if not names:
        return BACKWARD if reverse else FORWARD
    return tuple(dict.fromkeys(map(Relation, names)))
