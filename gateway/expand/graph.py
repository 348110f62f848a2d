"""Follow the dependencies of a file, a symbol, or a repository.

Imports and tests are followed along stored edges, one bulk read per level. Calls, base classes, and
imports from other repositories are not stored as edges: each query resolves them by the names that
files use (`callees`, `callers`, `across`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from codelode.counts import counted
from codelode.graph import walk
from codelode.model import Edge, EdgeKind, RefName, RepositoryName
from codelode.name_resolution import Confidence
from gateway.expand.across import across, indexed_elsewhere
from gateway.expand.callees import bases, callees
from gateway.expand.callers import callers, subclasses
from gateway.expand.links import GraphNode, Link, node_of
from gateway.expand.repositories import RepositoryQuery, around
from gateway.expand.subject import Subject, SubjectQuery, find_subject, shared
from gateway.state import Backends


class Relation(StrEnum):
    """The kinds of links, in the order of the answer."""

    DEFINITIONS = "definitions"
    IMPORTS = "imports"
    IMPORTERS = "importers"
    CALLS = "calls"
    CALLERS = "callers"
    INHERITS = "inherits"
    SUBCLASSES = "subclasses"
    REFERENCES = "references"
    TESTS = "tests"
    CROSS_REPOSITORY = "cross_repository"


FORWARD = (
    *(Relation.DEFINITIONS, Relation.IMPORTS, Relation.CALLS, Relation.INHERITS),
    *(Relation.TESTS, Relation.CROSS_REPOSITORY),
)
BACKWARD = (
    *(Relation.DEFINITIONS, Relation.IMPORTERS, Relation.CALLERS, Relation.SUBCLASSES),
    *(Relation.TESTS, Relation.CROSS_REPOSITORY),
)

#: Maximum number of files with definitions of the subject whose links are followed. Chosen by hand.
MAX_DEFINING = 20

NO_REFERENCES = "no reference index is configured: calls and uses are missing"


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """The text of a subject, and the links to follow from it."""

    subject: str  # empty: the single repository in `repositories`
    repositories: tuple[RepositoryName, ...]  # where the subject may be
    visible: tuple[RepositoryName, ...]  # where links across repositories may lead
    relations: tuple[Relation, ...]
    depth: int
    reverse: bool
    limit: int  # links of each relation
    ref: RefName


@dataclass(frozen=True, slots=True)
class GraphResult:
    """Links by relation, nearest first."""

    kind: str  # of the subject: file, symbol, or repository
    repository: RepositoryName
    links: tuple[Link, ...]
    notices: tuple[str, ...] = ()


_Read = Callable[[SubjectQuery, Backends], Awaitable[Sequence[Link]]]


async def graph(query: GraphQuery, backends: Backends) -> GraphResult:
    """Return the links of a subject. Raises NotFound if nothing with that name is indexed."""
    if not query.subject:
        return await _of_repository(query, backends)
    subject = await find_subject(
        query.subject, repositories=query.repositories, ref=query.ref, backends=backends
    )
    resolved = _resolved(subject, query)
    links: list[Link] = []
    notices = shared(query.subject, subject, is_cut=True)
    for relation, read in _READERS.items():
        if relation not in query.relations:
            continue
        found = await read(resolved, backends)
        if len(found) > query.limit:
            notices.append(_more(relation, query.limit))
        links += found[: query.limit]
    notices += _cut(subject, resolved)
    if backends.references is None:
        notices.append(NO_REFERENCES)
    return GraphResult(subject.kind, resolved.repository, tuple(links), tuple(notices))


async def _of_repository(query: GraphQuery, backends: Backends) -> GraphResult:
    (repository,) = query.repositories
    asked = RepositoryQuery(
        repository, query.ref, query.visible, query.depth, query.reverse, query.limit + 1
    )
    is_asked = Relation.CROSS_REPOSITORY in query.relations
    links, cut = await around(asked, backends) if is_asked else ([], ())
    notices = [*cut] if backends.references else [NO_REFERENCES]
    if len(links) > query.limit:
        notices.append(_more(Relation.CROSS_REPOSITORY, query.limit))
    return GraphResult("repository", repository, tuple(links[: query.limit]), tuple(notices))


def _more(relation: Relation, limit: int) -> str:
    return f"{relation}: only the first {limit} are shown; raise `limit` for more"


def _resolved(subject: Subject, query: GraphQuery) -> SubjectQuery:
    """Narrow the query to the first repository that has the subject.

    One more link is read than is shown, to detect whether there are more.
    """
    repository = next(iter(subject.files))[0]
    paths = [path for owner, path in subject.files if owner == repository]
    return SubjectQuery(
        repository=repository,
        paths=tuple(paths[:MAX_DEFINING]),
        definitions=tuple(at for at in subject.definitions if at.repository == repository),
        name=subject.name,
        depth=query.depth,
        reverse=query.reverse,
        limit=query.limit + 1,
        ref=query.ref,
        visible=query.visible,
    )


def _cut(subject: Subject, query: SubjectQuery) -> list[str]:
    defining = sum(repository == query.repository for repository, _ in subject.files)
    if defining <= MAX_DEFINING:
        return []
    return [
        f"{counted(defining, 'file')} define {query.name}: only the links of the first "
        f"{MAX_DEFINING} are shown; name it with its class or module, as in `Client.get`"
    ]


async def _definitions(query: SubjectQuery, _: Backends) -> list[Link]:
    nodes = map(node_of, query.definitions)
    return [Link("definitions", node, node, 1, Confidence.EXACT) for node in nodes]


# files


async def _imports(query: SubjectQuery, backends: Backends, *, relation: Relation) -> list[Link]:
    reverse = relation is Relation.IMPORTERS
    found = await asyncio.to_thread(_walk, query, backends, kind=EdgeKind.IMPORTS, reverse=reverse)
    return await indexed_elsewhere(await _held(relation, found, query, backends), query, backends)


async def _tests(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return the tests of the subject, and the files that it tests."""
    once = replace(query, depth=1)
    found: list[tuple[Edge, int]] = []
    for reverse in (True, False):
        found += await asyncio.to_thread(
            _walk, once, backends, kind=EdgeKind.TESTS, reverse=reverse
        )
    return await _held(Relation.TESTS, found, query, backends)


def _walk(
    query: SubjectQuery, backends: Backends, *, kind: EdgeKind, reverse: bool
) -> Sequence[tuple[Edge, int]]:
    """Return the edges within `depth` steps with their distances."""
    if backends.graph is None:
        return ()
    found, _ = walk(
        backends.graph,
        query.repository,
        query.ref,
        query.paths,
        depth=query.depth,
        reverse=reverse,
        limit=query.limit,
        kind=kind,
    )
    return found


async def _held(
    relation: Relation,
    found: Sequence[tuple[Edge, int]],
    query: SubjectQuery,
    backends: Backends,
) -> list[Link]:
    """Return links for the edges whose files have chunks at the ref; empty files have none."""
    repository = query.repository
    ends = {edge.source for edge, _ in found}
    ends |= {edge.target for edge, _ in found if not edge.is_external}
    held = await backends.chunks.files([(repository, path) for path in sorted(ends)], query.ref)
    return [
        Link(
            relation,
            GraphNode(repository, edge.source),
            _target(repository, edge),
            distance,
            Confidence.EXACT,
        )
        for edge, distance in found
        if held[repository, edge.source] and (edge.is_external or held[repository, edge.target])
    ]


def _target(repository: RepositoryName, edge: Edge) -> GraphNode:
    if edge.is_external:
        return GraphNode(RepositoryName(""), symbol=edge.target)
    return GraphNode(repository, edge.target)


_READERS: dict[Relation, _Read] = {
    Relation.DEFINITIONS: _definitions,
    Relation.IMPORTS: partial(_imports, relation=Relation.IMPORTS),
    Relation.IMPORTERS: partial(_imports, relation=Relation.IMPORTERS),
    Relation.CALLS: callees,
    Relation.CALLERS: partial(callers, relation="callers"),
    Relation.INHERITS: bases,
    Relation.SUBCLASSES: subclasses,
    Relation.REFERENCES: partial(callers, relation="references"),
    Relation.TESTS: _tests,
    Relation.CROSS_REPOSITORY: across,
}
