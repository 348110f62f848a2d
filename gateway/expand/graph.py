"""Follow the dependencies of a file or a symbol.

Imports and tests are followed along stored edges, one bulk read per level. Calls, base classes and
uses of packages by other repositories are not stored as edges: each query resolves them from the
names that files use (`callees`, `callers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from codelode import deadline, references
from codelode.counts import counted
from codelode.graph import walk
from codelode.model import DEFAULT_REF, Edge, EdgeKind, RefName, RepositoryName
from codelode.name_resolution import Confidence
from codelode.ports import PackageIndex, ReferenceIndex
from gateway.expand.callees import bases, callees
from gateway.expand.callers import callers, subclasses
from gateway.expand.links import GraphNode, Link, node_of
from gateway.expand.subject import Subject, SubjectQuery, find_subject
from gateway.state import Backends


class Relation(StrEnum):
    """The kinds of links that can be asked for, in the order of the answer."""

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

#: Most files that define the subject whose links are followed. Chosen by hand, as the next bound.
MAX_DEFINING = 20
#: Most package keys that are looked up for one file.
MAX_PACKAGES = 500

NO_REFERENCES = "no reference index is configured: calls and uses are missing"


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """The text of a subject, and the links to follow from it."""

    subject: str
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

    kind: str  # of the subject: file or symbol
    repository: RepositoryName
    links: tuple[Link, ...]
    notices: tuple[str, ...] = ()


_Read = Callable[[SubjectQuery, Backends], Awaitable[Sequence[Link]]]


async def graph(query: GraphQuery, backends: Backends) -> GraphResult:
    """Return the links of a subject. Raises NotFound when nothing of that name is indexed."""
    subject = await find_subject(
        query.subject, repositories=query.repositories, ref=query.ref, backends=backends
    )
    resolved = _resolved(subject, query)
    links: list[Link] = []
    notices: list[str] = []
    for relation, read in _READERS.items():
        if relation not in query.relations:
            continue
        found = await read(resolved, backends)
        if len(found) > query.limit:
            notices.append(
                f"{relation}: only the first {query.limit} are shown; raise `limit` for more"
            )
        links += found[: query.limit]
    notices += _cut(subject, resolved)
    if backends.references is None:
        notices.append(NO_REFERENCES)
    return GraphResult(subject.kind, resolved.repository, tuple(links), tuple(notices))


def _resolved(subject: Subject, query: GraphQuery) -> SubjectQuery:
    """Narrow to the first repository that has the subject.

    One link more is read than is shown, to know whether there are more.
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
    return await _held(relation, found, query, backends)


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
    """Return links for the edges between files that the ref holds.

    A file without chunks, such as an empty one, is left out.
    """
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


# repositories


async def _across(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return links to other repositories, or for `reverse` from them."""
    if backends.references is None or backends.packages is None:
        return []
    find = _consumers if query.reverse else _publishers
    return await asyncio.to_thread(find, query, backends.references, backends.packages)


def _publishers(query: SubjectQuery, index: ReferenceIndex, packages: PackageIndex) -> list[Link]:
    """Return the packages of other repositories that the subject's files use."""
    links = [
        Link(
            Relation.CROSS_REPOSITORY,
            GraphNode(query.repository, path),
            GraphNode(repository, folder, key),
            1,
            Confidence.IMPORTED,
        )
        for path, used in index.names(query.repository, query.ref, query.paths).items()
        for key, found in packages.publishers(references.packages(used)[:MAX_PACKAGES]).items()
        for repository, folder in found
        if repository != query.repository and repository in query.visible
    ]
    return _longest_keys(links)


def _longest_keys(links: Iterable[Link]) -> list[Link]:
    """Keep the longest of package keys with a common start, for each file and repository.

    Such keys are `go:a.b/c` and `go:a.b/c/d`.
    """
    kept: dict[tuple[GraphNode, RepositoryName, str], Link] = {}
    for link in sorted(links, key=lambda one: len(one.target.symbol)):
        ecosystem = link.target.symbol.partition(":")[0]
        first = link.target.symbol.partition("/")[0].partition(".")[0]
        kept[link.source, link.target.repository, f"{ecosystem} {first}"] = link
    return sorted(kept.values(), key=lambda one: (one.source.path, one.target.symbol))


def _consumers(query: SubjectQuery, index: ReferenceIndex, packages: PackageIndex) -> list[Link]:
    """Return files of other repositories that use a package of the subject's files."""
    published = packages.published_by(query.repository, query.ref).keys
    keys = {references.of_package(key): key for key in _keys_around(published, query.paths)}
    links: list[Link] = []
    for repository in query.visible:
        deadline.check()
        if repository == query.repository or not keys or len(links) >= query.limit:
            continue
        found = index.files(repository, DEFAULT_REF, list(keys))
        using = _files_using(repository, query.name, index) if query.name else None
        links += [
            Link(
                Relation.CROSS_REPOSITORY,
                GraphNode(repository, path),
                GraphNode(query.repository, published[keys[name]], keys[name]),
                1,
                Confidence.IMPORTED,
            )
            for name, paths in found.items()
            for path in paths
            if using is None or path in using
        ]
    return links


def _files_using(repository: RepositoryName, name: str, index: ReferenceIndex) -> Collection[str]:
    found = index.files(repository, DEFAULT_REF, references.uses_of(name))
    return {path for paths in found.values() for path in paths}


def _keys_around(folders: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """Return the keys published from the closest folder around a path, for each ecosystem.

    `folders`: the folder that each key is published from.
    """
    closest: dict[str, int] = {}
    around: dict[str, str] = {}
    for key, folder in folders.items():
        if folder and not any(path.startswith(f"{folder}/") for path in paths):
            continue
        ecosystem = key.partition(":")[0]
        around[key] = ecosystem
        closest[ecosystem] = max(closest.get(ecosystem, 0), len(folder))
    return [key for key, ecosystem in around.items() if len(folders[key]) == closest[ecosystem]]


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
    Relation.CROSS_REPOSITORY: _across,
}
