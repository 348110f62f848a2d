"""Find the uses of a name in all repositories, the most certain ones first.

Uses in a repository that defines the name, or that imports it from there, are resolved as for the
graph (`callers`, `across`). In a repository that does both, the imports of each file decide. Uses
in other repositories match by the name alone and come last; for a qualified name they are left out,
because its last part may mean anything there.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from codelode import deadline, references
from codelode.access import Visibility
from codelode.model import (
    DEFAULT_REF,
    Chunk,
    FileKey,
    Filters,
    LocatedSymbol,
    Reference,
    ReferenceKind,
    RefName,
    RepositoryName,
)
from codelode.name_resolution import Confidence, dotted, is_builtin_member, is_named, scope
from gateway.expand.across import across
from gateway.expand.aliases import lines_in, uses_in
from gateway.expand.callers import users
from gateway.expand.links import GraphNode, Link, node_of
from gateway.expand.passages import lines as lines_of
from gateway.expand.subject import CALLS, SubjectQuery, files_imported, innermost
from gateway.state import Backends

#: The kinds of uses that are listed.
KINDS = (*CALLS, ReferenceKind.IMPLEMENTATION)

#: Maximum number of repositories, and of files of each, whose definitions are followed into other
#: repositories, and maximum number of files found there. Chosen by hand.
MAX_DEFINING = 20
MAX_IMPORTING = 10_000

#: Number of uses whose files are read together.
BATCH = 200

#: Maximum number of characters of a line that are returned.
MAX_LINE_CHARS = 1_000

Defined = Mapping[RepositoryName, tuple[LocatedSymbol, ...]]
Paths = Mapping[RepositoryName, set[str]]


@dataclass(frozen=True, slots=True)
class UsesQuery:
    """A name, and where to look for its uses."""

    name: str
    filters: Filters
    visible: Visibility
    known: tuple[RepositoryName, ...]  # the visible repositories, where it may be defined
    limit: int

    @property
    def last(self) -> str:
        """Return the part of the name after the last dot."""
        return dotted(self.name).rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class FoundUse:
    """A line that uses a name."""

    repository: RepositoryName
    path: str
    line: int  # 1-based; 0: not known
    kind: str  # a ReferenceKind; empty: not known
    confidence: Confidence
    definition: GraphNode | None  # None: not known
    text: str = ""  # of the line
    symbol: str = ""  # qualified name of the definition around the line


@dataclass(frozen=True, slots=True)
class Uses:
    """The uses of a name, up to the limit."""

    found: tuple[FoundUse, ...]
    is_defined: bool
    has_more: bool


async def uses(query: UsesQuery, files: Iterable[FileKey], backends: Backends) -> Uses:
    """Return the uses of a name. Needs the symbol table and the reference index.

    `files`: the files that contain the last part of the name.
    """
    last = query.last
    defined = await asyncio.to_thread(_defined, query, last, backends)
    paths: defaultdict[RepositoryName, set[str]] = defaultdict(set)
    for repository, path in files:
        paths[repository].add(path)
    within = await asyncio.to_thread(_within, query, last, defined, paths, backends)
    outside = await _importing(query, last, defined, paths, backends)
    found = await asyncio.to_thread(_decided, query, within, outside, defined, backends)
    is_plain = last == query.name or not defined
    if is_plain and len({(one.repository, one.path, one.line) for one in found}) <= query.limit:
        known = {(one.repository, one.path) for one in found}
        found += await asyncio.to_thread(_by_name, query, last, defined, paths, known, backends)
    shown = await _shown(_ordered(found), query, last, backends)
    return Uses(tuple(shown[: query.limit]), bool(defined), len(shown) > query.limit)


def _defined(query: UsesQuery, last: str, backends: Backends) -> Defined:
    assert backends.symbols is not None
    name = dotted(query.name)
    by_repository: defaultdict[RepositoryName, list[LocatedSymbol]] = defaultdict(list)
    found = backends.symbols.lookup(last, repositories=query.known, ref=query.filters.ref)
    for at in found:
        if is_named(at.symbol.qualified_name, name) or at.symbol.name == name:
            by_repository[at.repository].append(at)
    return {repository: tuple(some) for repository, some in by_repository.items()}


def _within(
    query: UsesQuery, last: str, defined: Defined, paths: Paths, backends: Backends
) -> list[FoundUse]:
    """Return the uses in the repositories that define the name."""
    assert backends.references is not None
    found: list[FoundUse] = []
    for repository in (one for one in paths if one in defined):
        ref = query.filters.ref
        names = {last: defined[repository]}
        everywhere = users(repository, ref, names, KINDS, backends)
        some = [one for one in everywhere if one.path in paths[repository]]
        using = [one.path for one in some]
        lines = lines_in(repository, ref, using, KINDS, backends.references)
        for one in some:
            how = (one.use.kind, one.confidence, node_of(one.of))
            on = lines.get((one.path, one.use), ()) or (0,)
            found += [FoundUse(repository, one.path, line, *how) for line in on]
    return found


async def _importing(
    query: UsesQuery, last: str, defined: Defined, paths: Paths, backends: Backends
) -> list[FoundUse]:
    """Return the uses in repositories that import the name from one that defines it."""
    if query.filters.ref != DEFAULT_REF:  # other repositories are read at theirs
        return []
    found: list[FoundUse] = []
    for repository, own in islice(defined.items(), MAX_DEFINING):
        others = tuple(one for one in paths if one != repository)
        subject = SubjectQuery(
            repository=repository,
            paths=tuple(dict.fromkeys(at.path for at in own))[:MAX_DEFINING],
            definitions=own,
            name=last,
            depth=1,
            reverse=True,
            limit=MAX_IMPORTING,
            ref=query.filters.ref,
            visible=others,
        )
        links = [
            link
            for link in await across(subject, backends)
            if link.source.path in paths[link.source.repository]
            and (link.source.repository not in defined or _names(link, last))
        ]
        found += await asyncio.to_thread(_imported, links, last, own, backends)
    return found


def _names(link: Link, last: str) -> bool:
    """Return whether a file imports the name itself, not only its module or package."""
    return link.target.symbol.rpartition(".")[2] == last


def _decided(
    query: UsesQuery,
    within: Sequence[FoundUse],
    outside: Sequence[FoundUse],
    defined: Defined,
    backends: Backends,
) -> list[FoundUse]:
    """Return the uses. For a file with uses of both kinds, its imports decide which are kept.

    A file that defines the name, or imports a file that does, means its own repository's
    definition.
    """
    paths: defaultdict[RepositoryName, list[str]] = defaultdict(list)
    for one in outside:
        if one.repository in defined:
            paths[one.repository].append(one.path)
    own: set[FileKey] = set()
    for repository, some in paths.items():
        defining = {at.path for at in defined[repository]}
        distinct = list(dict.fromkeys(some))
        imported = files_imported(repository, query.filters.ref, distinct, backends)
        own |= {
            (repository, path)
            for path in distinct
            if path in defining or not defining.isdisjoint(imported.get(path, ()))
        }
    found = [one for one in outside if (one.repository, one.path) not in own]
    elsewhere = {(one.repository, one.path) for one in found}
    return [*(one for one in within if (one.repository, one.path) not in elsewhere), *found]


def _imported(
    links: Sequence[Link], last: str, own: Sequence[LocatedSymbol], backends: Backends
) -> list[FoundUse]:
    by_file = {(link.source.repository, link.source.path): link for link in reversed(links)}
    paths: defaultdict[RepositoryName, list[str]] = defaultdict(list)
    for repository, path in by_file:
        paths[repository].append(path)
    found = []
    for repository, some in paths.items():
        lines = _lines(repository, DEFAULT_REF, some, last, backends)
        for path in some:
            link = by_file[repository, path]
            target = link.target if _names(link, last) else node_of(own[0])
            for use, line in lines.get(path, ()) or ((None, 0),):
                kind = use.kind if use else ""
                found.append(FoundUse(repository, path, line, kind, link.confidence, target))
    return found


def _by_name(
    query: UsesQuery,
    last: str,
    defined: Defined,
    paths: Paths,
    known: set[FileKey],
    backends: Backends,
) -> list[FoundUse]:
    """Return the uses of the name in other repositories; more than the limit if there are more."""
    assert backends.references is not None
    scopes = {scope(at.path) for some in defined.values() for at in some}
    entries = [references.of_use(Reference(last, kind)) for kind in KINDS]
    found: list[FoundUse] = []
    for repository, inside in paths.items():
        deadline.check()
        if repository in defined:
            continue
        held = backends.references.files(repository, query.filters.ref, entries)
        using = {path for some in held.values() for path in some if path in inside}
        using = {one for one in using if (repository, one) not in known}
        using = {one for one in using if not scopes or scope(one) in scopes}
        lines = _lines(repository, query.filters.ref, sorted(using), last, backends)
        found += [
            FoundUse(repository, path, line, use.kind, Confidence.NAME, None)
            for path, some in lines.items()
            for use, line in some
            if not is_builtin_member(use, path)
        ]
        if len(found) > query.limit:
            break
    return found


def _lines(
    repository: RepositoryName,
    ref: RefName,
    paths: Sequence[str],
    last: str,
    backends: Backends,
) -> dict[str, list[tuple[Reference, int]]]:
    """Return the lines on which each file uses the name, with each use."""
    assert backends.references is not None
    found: defaultdict[str, list[tuple[Reference, int]]] = defaultdict(list)
    for use in uses_in(repository, ref, paths, KINDS, backends.references):
        if use.reference.name == last:
            found[use.path] += [(use.reference, line) for line in use.reference.lines or (0,)]
    return found


def _ordered(found: Iterable[FoundUse]) -> list[FoundUse]:
    """Return one use for each line, the most certain ones first, then by location."""
    order = list(Confidence)
    best: dict[tuple[RepositoryName, str, int], FoundUse] = {}
    for one in sorted(found, key=lambda one: order.index(one.confidence)):
        best.setdefault((one.repository, one.path, one.line), one)
    return sorted(
        best.values(),
        key=lambda one: (order.index(one.confidence), one.repository, one.path, one.line),
    )


async def _shown(
    found: Sequence[FoundUse], query: UsesQuery, last: str, backends: Backends
) -> list[FoundUse]:
    """Return the uses with the texts of their lines; more than the limit if there are more.

    The tables may be a moment ahead of the index, so files that the index lacks are left out.
    """
    shown: list[FoundUse] = []
    for start in range(0, len(found), BATCH):
        some = found[start : start + BATCH]
        keys = list(dict.fromkeys((one.repository, one.path) for one in some))
        held = await backends.chunks.files(keys, query.filters.ref)
        there = [one for one in some if held[one.repository, one.path]]
        shown += await asyncio.to_thread(_read, there, held, query.filters.ref, last, backends)
        if len(shown) > query.limit:
            break
    return shown


def _read(
    found: Sequence[FoundUse],
    held: Mapping[FileKey, Sequence[Chunk]],
    ref: RefName,
    last: str,
    backends: Backends,
) -> Iterator[FoundUse]:
    """Yield the uses with their lines and the definitions around them."""
    assert backends.symbols is not None
    word = re.compile(rf"(?<!\w){re.escape(last)}(?!\w)")
    texts = {key: lines_of(chunks) for key, chunks in held.items()}
    placed = [_placed(one, texts[one.repository, one.path], word) for one in found]
    around: dict[tuple[RepositoryName, str, int], str] = {}
    for repository in dict.fromkeys(one.repository for one in placed):
        deadline.check()
        places = [(one.path, one.line) for one in placed if one.repository == repository]
        paths = list(dict.fromkeys(path for path, _ in places))
        defined = backends.symbols.defined_in(repository, ref, paths)
        for (path, line), at in innermost(places, defined).items():
            around[repository, path, line] = at.symbol.qualified_name
    return (
        replace(one, symbol=around.get((one.repository, one.path, one.line), "")) for one in placed
    )


def _placed(one: FoundUse, text: Mapping[int, str], word: re.Pattern[str]) -> FoundUse:
    """Return the use with the text of its line; if that is unknown, of the first with the name."""
    line = one.line or next((number for number, on in text.items() if word.search(on)), 0)
    return replace(one, line=line, text=text.get(line, "").strip()[:MAX_LINE_CHARS])
