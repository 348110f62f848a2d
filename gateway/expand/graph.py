"""What is around a file or a symbol in the dependency graph.

Files are walked along stored edges, level by level in bulk reads. Calls, bases and what other
repositories publish are matched when they are asked for, from names that files use
(`uses`, `users`). Every path is checked against the index: the graph knows those of whatever
ref was indexed last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from codelode import references
from codelode.errors import NotFound
from codelode.graph import walk
from codelode.model import Edge, EdgeKind, LocatedSymbol, RefName, RepositoryName
from codelode.relations import Confidence, named
from gateway.expand.links import Link, Place
from gateway.expand.subject import Asked
from gateway.expand.callers import callers, subclasses
from gateway.expand.callees import bases, callees
from gateway.state import Backends


class Relation(StrEnum):
    """What links may be asked for, in the order in which they are told."""

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

#: Files that define a name and are looked around.
MAX_DEFINING = 20
#: Keys of packages that are looked up for one file.
MAX_PACKAGES = 500

NO_REFERENCES = "no reference index is configured: calls and uses are missing"


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """What to look for around what."""

    subject: str
    repositories: tuple[RepositoryName, ...]  # where the subject may be
    visible: tuple[RepositoryName, ...]  # where links across repositories may lead
    relations: tuple[Relation, ...]
    depth: int
    reverse: bool
    limit: int  # links of each relation
    ref: RefName


@dataclass(frozen=True, slots=True)
class Around:
    """The answer: links by relation, nearest first."""

    kind: str  # file or symbol
    repository: RepositoryName
    links: tuple[Link, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Subject:
    repository: RepositoryName
    paths: tuple[str, ...]  # the file, or the files that define the symbol
    definitions: tuple[LocatedSymbol, ...] = ()  # none: the subject is a file
    name: str = ""


async def graph(query: GraphQuery, backends: Backends) -> Around:
    """Everything asked for around the subject. NotFound: nothing of that name is indexed."""
    subject = await _subject(query, backends)
    links: list[Link] = []
    notices: list[str] = []
    for relation in Relation:
        if relation not in query.relations:
            continue
        found = await _of_relation(relation, subject, query, backends)
        if len(found) > query.limit:
            notices.append(f"{relation}: the first {query.limit} are shown; ask for more")
        links += found[: query.limit]
    if backends.references is None:
        notices.append(NO_REFERENCES)
    kind = "symbol" if subject.definitions else "file"
    return Around(kind, subject.repository, tuple(links), tuple(notices))


async def _subject(query: GraphQuery, backends: Backends) -> _Subject:
    places = [(repository, query.subject) for repository in query.repositories]
    held = await backends.chunks.files(places, query.ref)
    file = next((place for place in places if held[place]), None)
    if file is not None:
        return _Subject(file[0], (file[1],))
    found = await _definitions(query, backends)
    if not found:
        raise NotFound(
            f"no file and no symbol {query.subject[:100]!r} is indexed at this ref; "
            "`codelode search` finds names that are alike"
        )
    repository = found[0].repository
    mine = tuple(at for at in found if at.repository == repository)
    paths = tuple(dict.fromkeys(at.path for at in mine))[:MAX_DEFINING]
    return _Subject(repository, paths, mine, query.subject.rpartition(".")[2])


async def _definitions(query: GraphQuery, backends: Backends) -> tuple[LocatedSymbol, ...]:
    if backends.symbols is None:
        return ()
    last = query.subject.rpartition(".")[2]
    lookup = backends.symbols.lookup
    found = await asyncio.to_thread(lookup, last, repositories=query.repositories)
    found = tuple(at for at in found if named(at.symbol.qualified_name, query.subject))
    places = list(dict.fromkeys((at.repository, at.path) for at in found))
    held = await backends.chunks.files(places, query.ref)
    return tuple(at for at in found if held[at.repository, at.path])


async def _of_relation(
    relation: Relation, subject: _Subject, query: GraphQuery, backends: Backends
) -> Sequence[Link]:
    """At least the links of a relation up to one more than the limit, nearest first."""
    if relation is Relation.DEFINITIONS:
        return [_defined(at) for at in subject.definitions]
    if relation in _OF_FILES:
        return await _OF_FILES[relation](relation, subject, query, backends)
    if relation is Relation.CROSS_REPOSITORY:
        across = _consumers if query.reverse else _publishers
        return await asyncio.to_thread(across, subject, query, backends)
    asked = Asked(
        repository=subject.repository,
        paths=subject.paths,
        definitions=subject.definitions,
        name=subject.name,
        depth=query.depth,
        limit=query.limit + 1,
        ref=query.ref,
    )
    return await _OF_NAMES[relation](asked, backends)


def _defined(at: LocatedSymbol) -> Link:
    place = Place(at.repository, at.path, at.symbol.qualified_name, at.symbol.start_line)
    return Link("definitions", place, place, 1, Confidence.EXACT)


# files


async def _imports(
    relation: Relation, subject: _Subject, query: GraphQuery, backends: Backends
) -> list[Link]:
    reverse = relation is Relation.IMPORTERS
    found = await asyncio.to_thread(
        _walk, subject, query, backends, kind=EdgeKind.IMPORTS, reverse=reverse
    )
    links = [_edge_link(str(relation), subject.repository, edge, depth) for edge, depth in found]
    return await _held(links, query, backends)


def _walk(
    subject: _Subject, query: GraphQuery, backends: Backends, *, kind: EdgeKind, reverse: bool
) -> Sequence[tuple[Edge, int]]:
    """Edges within `depth` steps with their distance."""
    if backends.graph is None:
        return ()
    found, _ = walk(
        backends.graph,
        subject.repository,
        subject.paths,
        depth=query.depth,
        reverse=reverse,
        limit=query.limit + 1,
        kind=kind,
    )
    return found


async def _tests(
    relation: Relation, subject: _Subject, query: GraphQuery, backends: Backends
) -> list[Link]:
    """Tests of the subject, and what it tests."""
    once = replace(query, depth=1)
    found: list[tuple[Edge, int]] = []
    for reverse in (True, False):
        found += await asyncio.to_thread(
            _walk, subject, once, backends, kind=EdgeKind.TESTS, reverse=reverse
        )
    links = [_edge_link(str(relation), subject.repository, edge, depth) for edge, depth in found]
    return await _held(links, query, backends)


def _edge_link(relation: str, repository: RepositoryName, edge: Edge, depth: int) -> Link:
    source = Place(repository, edge.source)
    target = Place(RepositoryName(""), "", edge.target)
    if not edge.is_external:
        target = Place(repository, edge.target)
    return Link(relation, source, target, depth, Confidence.EXACT)


async def _held(links: Sequence[Link], query: GraphQuery, backends: Backends) -> list[Link]:
    """Those whose files the ref holds; a file without chunks, an empty one, is none of them."""
    ends = {
        (place.repository, place.path)
        for link in links
        for place in (link.source, link.target)
        if place.path
    }
    held = await backends.chunks.files(sorted(ends), query.ref)
    return [
        link
        for link in links
        if all(
            not place.path or held[place.repository, place.path]
            for place in (link.source, link.target)
        )
    ]


_OfFiles = Callable[[Relation, _Subject, GraphQuery, Backends], Awaitable[list[Link]]]
_OfNames = Callable[[Asked, Backends], Awaitable[list[Link]]]

_OF_FILES: dict[Relation, _OfFiles] = {
    Relation.IMPORTS: _imports,
    Relation.IMPORTERS: _imports,
    Relation.TESTS: _tests,
}
_OF_NAMES: dict[Relation, _OfNames] = {
    Relation.CALLS: callees,
    Relation.CALLERS: partial(callers, relation="callers"),
    Relation.REFERENCES: partial(callers, relation="references"),
    Relation.INHERITS: bases,
    Relation.SUBCLASSES: subclasses,
}


# repositories


def _publishers(subject: _Subject, query: GraphQuery, backends: Backends) -> list[Link]:
    """Packages of other repositories that the subject's files take from."""
    if backends.references is None or backends.packages is None:
        return []
    names = backends.references.names(subject.repository, subject.paths)
    links: list[Link] = []
    for path, used in names.items():
        keys = references.packages(used)[:MAX_PACKAGES]
        for key, found in backends.packages.publishers(keys).items():
            links += [
                Link(
                    "cross_repository",
                    Place(subject.repository, path),
                    Place(repository, folder, key),
                    1,
                    Confidence.IMPORTED,
                )
                for repository, folder in found
                if repository != subject.repository and repository in query.visible
            ]
    return _longest_keys(links)


def _longest_keys(links: Iterable[Link]) -> list[Link]:
    """Of keys that begin one another (`go:a.b/c`, `go:a.b/c/d`) the longest for each repository."""
    kept: dict[tuple[Place, RepositoryName, str], Link] = {}
    for link in sorted(links, key=lambda one: len(one.target.symbol)):
        ecosystem = link.target.symbol.partition(":")[0]
        first = link.target.symbol.partition("/")[0].partition(".")[0]
        kept[link.source, link.target.repository, f"{ecosystem} {first}"] = link
    return sorted(kept.values(), key=lambda one: (one.source.path, one.target.symbol))


def _consumers(subject: _Subject, query: GraphQuery, backends: Backends) -> list[Link]:
    """Files of other repositories that take from a package that the subject's files are in."""
    if backends.references is None or backends.packages is None:
        return []
    published = backends.packages.published_by(subject.repository).keys
    keys = _keys_around(published, subject.paths)
    links: list[Link] = []
    for repository in query.visible:
        if repository == subject.repository or not keys or len(links) > query.limit:
            continue
        wanted = {references.of_package(key): key for key in keys}
        found = backends.references.files(repository, list(wanted))
        using = _using(repository, subject.name, backends) if subject.name else None
        links += [
            Link(
                "cross_repository",
                Place(repository, path),
                Place(subject.repository, published[wanted[name]], wanted[name]),
                1,
                Confidence.IMPORTED,
            )
            for name, paths in found.items()
            for path in paths
            if using is None or path in using
        ]
    return links


def _using(repository: RepositoryName, name: str, backends: Backends) -> Collection[str]:
    assert backends.references is not None
    found = backends.references.files(repository, references.uses_of(name))
    return {path for paths in found.values() for path in paths}


def _keys_around(published: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """Keys published from the closest folder around one of the paths, for each ecosystem."""
    folders = published
    closest: dict[str, int] = {}
    around: dict[str, str] = {}
    for key, folder in folders.items():
        if folder and not any(path.startswith(f"{folder}/") for path in paths):
            continue
        ecosystem = key.partition(":")[0]
        around[key] = ecosystem
        closest[ecosystem] = max(closest.get(ecosystem, 0), len(folder))
    return [key for key, ecosystem in around.items() if len(folders[key]) == closest[ecosystem]]
