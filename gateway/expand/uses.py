"""Calls and bases between symbols, from the names that files use.

The text of the stored chunks says where a name stands and in which definition, so that nothing but
names is stored for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codelode import references, relations
from codelode.model import (
    Chunk,
    EdgeKind,
    Located,
    Reference,
    ReferenceKind,
    RefName,
    RepositoryName,
    Symbol,
)
from codelode.relations import Confidence, Meant, meant
from gateway.expand.links import Link, Place
from gateway.state import Backends

#: Definitions whose calls are followed at each step.
MAX_STEP = 20
#: Files of which the text is read to place a use.
MAX_FILES = 200
#: Lines told of one name in one file.
MAX_LINES = 5

_NAME = re.compile(r"[^\W\d][\w$]*[?!]?")
#: Languages in which a call needs no parentheses.
_BARE = frozenset({"ruby", "elixir", "haskell", "bash", "scala", "lua", "perl"})


@dataclass(frozen=True, slots=True)
class Asked:
    """The subject, and how far to go."""

    repository: RepositoryName
    paths: tuple[str, ...]
    definitions: tuple[Located, ...]  # none: the subject is the files
    name: str
    depth: int
    limit: int
    ref: RefName


async def callees(asked: Asked, backends: Backends) -> list[Link]:
    """What the subject calls, and what that calls, as far as it is sure."""
    if backends.references is None or backends.symbols is None:
        return []
    if not asked.definitions:
        return await _uses_of_files(asked, backends, kinds=_CALLS)
    links: list[Link] = []
    level: Sequence[Located] = asked.definitions
    seen = {_key(at) for at in level}
    for depth in range(1, asked.depth + 1):
        found = await _called(level[:MAX_STEP], asked, backends)
        further: list[Located] = []
        for source, one in found:
            at = one.definition
            if _key(at) in seen:
                continue
            seen.add(_key(at))
            links.append(Link("calls", _place(source), _place(at), depth, one.confidence))
            if one.confidence is not Confidence.NAME:
                further.append(at)
        level = further
        if not level or len(links) >= asked.limit:
            break
    return links[: asked.limit]


_CALLS = (ReferenceKind.CALL, ReferenceKind.MEMBER, ReferenceKind.CLASS)


async def bases(asked: Asked, backends: Backends) -> list[Link]:
    """What the subject's classes inherit or implement."""
    if backends.references is None or backends.symbols is None:
        return []
    found = await _uses_of_files(
        asked, backends, kinds=(ReferenceKind.IMPLEMENTATION,), relation="inherits"
    )
    if not asked.definitions:
        return found
    texts = await _texts(asked, asked.paths, backends)
    heads = {at.path: _head(at.symbol, texts[at.path]) for at in asked.definitions}
    return [
        Link(link.relation, _place(at), link.target, 1, link.confidence)
        for link in found
        for at in asked.definitions
        if at.path == link.source.path
        and _last(link.target.symbol) in _NAME.findall(heads[at.path])
    ]


def _last(qualified: str) -> str:
    return qualified.rpartition(".")[2]


def _head(symbol: Symbol, lines: Mapping[int, str]) -> str:
    """The first lines of a definition, where its bases stand."""
    end = min(symbol.end_line, symbol.start_line + 5)
    return "\n".join(lines.get(line, "") for line in range(symbol.start_line, end + 1))


# uses of files


async def _uses_of_files(
    asked: Asked, backends: Backends, *, kinds: Collection[ReferenceKind], relation: str = "calls"
) -> list[Link]:
    """What the names that the files use mean, each definition once per file."""
    resolved = await asyncio.to_thread(_resolved, asked.repository, asked.paths, kinds, backends)
    links: dict[tuple[str, Place], Link] = {}
    for path, found in resolved.items():
        for one in relations.best(m for some in found.values() for m in some):
            if one.definition.path == path and relation == "calls":
                continue
            link = Link(
                relation,
                Place(asked.repository, path),
                _place(one.definition),
                1,
                one.confidence,
            )
            links.setdefault((path, link.target), link)
    return list(links.values())[: asked.limit]


_Resolved = Mapping[str, Mapping[Reference, tuple[Meant, ...]]]  # by path, then by use


def _resolved(
    repository: RepositoryName,
    paths: Sequence[str],
    kinds: Collection[ReferenceKind],
    backends: Backends,
) -> _Resolved:
    """What each use of each file means, in five round trips."""
    assert backends.references is not None
    assert backends.symbols is not None
    names = backends.references.names(repository, paths)
    uses = {
        path: [use for use in references.uses(used) if use.kind in kinds]
        for path, used in names.items()
    }
    wanted = sorted({use.name for some in uses.values() for use in some})
    definitions = backends.symbols.lookup_all(wanted, repository=repository)
    imported = _imported(repository, paths, backends)
    return {
        path: {
            use: meant(use, path=path, imported=imported[path], definitions=definitions[use.name])
            for use in some
        }
        for path, some in uses.items()
    }


def _imported(
    repository: RepositoryName, paths: Sequence[str], backends: Backends
) -> dict[str, set[str]]:
    """The files that each imports, and those that these pass on."""
    if backends.graph is None:
        return {path: set() for path in paths}
    out = backends.graph.outgoing(repository, paths)
    own = {
        path: {e.target for e in edges if e.kind is EdgeKind.IMPORTS and not e.is_external}
        for path, edges in out.items()
    }
    passing = sorted({t for some in own.values() for t in some if relations.passes_on(t)})
    further = backends.graph.outgoing(repository, passing)
    for some in own.values():
        for target in [one for one in some if one in further]:
            some |= {e.target for e in further[target] if not e.is_external}
    return own


async def _called(
    level: Sequence[Located], asked: Asked, backends: Backends
) -> list[tuple[Located, Meant]]:
    """What each definition calls in its own lines."""
    paths = list(dict.fromkeys(at.path for at in level))
    resolved = await asyncio.to_thread(_resolved, asked.repository, paths, _CALLS, backends)
    texts = await _texts(asked, paths, backends)
    found: list[tuple[Located, Meant]] = []
    for at in level:
        called = _called_names(at, texts[at.path])
        some = [
            one
            for use, meanings in resolved[at.path].items()
            if use.name in called
            for one in meanings
            if not _is_inside(one.definition, at)
        ]
        found += [(at, one) for one in relations.best(some)]
    return found


def _is_inside(inner: Located, outer: Located) -> bool:
    return (
        inner.path == outer.path
        and outer.symbol.start_line <= inner.symbol.start_line
        and inner.symbol.end_line <= outer.symbol.end_line
    )


def _called_names(at: Located, lines: Mapping[int, str]) -> set[str]:
    """Names that are called in the definition's lines, by their looks."""
    symbol = at.symbol
    text = "\n".join(lines.get(line, "") for line in range(symbol.start_line, symbol.end_line + 1))
    if relations.family(at.path) in _BARE:
        return set(_NAME.findall(text))
    return set(_CALLED.findall(text))


_CALLED = re.compile(r"([^\W\d][\w$]*)(?=(?:::)?(?:<[^<>()\n]*>)?[!?.]{0,2}\s?[({`])")


# uses of the subject


async def callers(asked: Asked, backends: Backends, *, relation: str) -> list[Link]:
    """Where the subject's symbols are used, surest first.

    Of a file: uses of what it defines and shows to others.
    """
    kinds = _CALLS if relation == "callers" else tuple(ReferenceKind)
    return await _users(asked, backends, kinds=kinds, relation=relation)


async def subclasses(asked: Asked, backends: Backends) -> list[Link]:
    """What inherits or implements the subject."""
    kinds = (ReferenceKind.IMPLEMENTATION,)
    return await _users(asked, backends, kinds=kinds, relation="subclasses")


async def _users(
    asked: Asked, backends: Backends, *, kinds: Sequence[ReferenceKind], relation: str
) -> list[Link]:
    if backends.references is None or backends.symbols is None:
        return []
    names = await _defined_names(asked, backends)
    found = await asyncio.to_thread(_using_files, asked, names, kinds, backends)
    order = list(Confidence)
    found = sorted(found, key=lambda one: (order.index(one.confidence), one.path, one.name))
    found = found[:MAX_FILES]
    paths = [one.path for one in found]
    texts, defined = await asyncio.gather(
        _chunks(asked, paths, backends), _defined(asked, paths, backends)
    )
    links: list[Link] = []
    for one in found:
        target = Place(
            asked.repository, one.of.path, one.of.symbol.qualified_name, one.of.symbol.start_line
        )
        links += [
            Link(relation, source, target, 1, one.confidence)
            for source in _places(one, texts[one.path], defined[one.path])
        ]
        if len(links) >= asked.limit:
            break
    return links[: asked.limit]


async def _defined_names(asked: Asked, backends: Backends) -> Mapping[str, tuple[Located, ...]]:
    """Names of the subject with its own definitions of them."""
    if asked.definitions:
        return {asked.name: asked.definitions}
    found = await _defined(asked, asked.paths, backends)
    names: dict[str, tuple[Located, ...]] = {}
    for at in (at for some in found.values() for at in some if at.symbol.is_exported):
        names[at.symbol.name] = (*names.get(at.symbol.name, ()), at)
    return names


async def _defined(
    asked: Asked, paths: Sequence[str], backends: Backends
) -> Mapping[str, tuple[Located, ...]]:
    assert backends.symbols is not None
    distinct = list(dict.fromkeys(paths))
    return await asyncio.to_thread(backends.symbols.defined_in, asked.repository, distinct)


@dataclass(frozen=True, slots=True)
class _User:
    """A file that uses a name for one of the subject's definitions."""

    path: str
    name: str
    of: Located
    confidence: Confidence


def _using_files(
    asked: Asked,
    names: Mapping[str, tuple[Located, ...]],
    kinds: Sequence[ReferenceKind],
    backends: Backends,
) -> list[_User]:
    """Files whose use of a name may mean the subject rather than another definition of it."""
    assert backends.references is not None
    assert backends.symbols is not None
    uses = {
        references.of_use(Reference(name, kind)): Reference(name, kind)
        for name in names
        for kind in kinds
    }
    held = backends.references.files(asked.repository, list(uses))
    paths = sorted({path for some in held.values() for path in some})
    if not asked.definitions:
        paths = [path for path in paths if path not in asked.paths]
    imported = _imported(asked.repository, paths, backends)
    definitions = backends.symbols.lookup_all(sorted(names), repository=asked.repository)
    found: dict[tuple[str, str], _User] = {}
    for written, use in uses.items():
        for path in held[written]:
            if path not in imported:
                continue
            meanings = meant(
                use,
                path=path,
                imported=imported[path],
                definitions=_own_first(definitions[use.name], names[use.name]),
            )
            mine = next((m for m in meanings if _is_of(m.definition, names[use.name])), None)
            if mine is not None:
                user = _User(path, use.name, mine.definition, mine.confidence)
                found.setdefault((path, use.name), user)
    return list(found.values())


def _own_first(all_: Sequence[Located], own: Sequence[Located]) -> list[Located]:
    """So that the subject is among those that are kept of a name of many definitions."""
    keys = {_key(at) for at in own}
    return sorted(all_, key=lambda at: _key(at) not in keys)


def _is_of(at: Located, own: Iterable[Located]) -> bool:
    return any(_key(at) == _key(one) for one in own)


def _places(user: _User, chunks: Sequence[Chunk], defined: Sequence[Located]) -> list[Place]:
    """Where the name stands in the file, with the definition around it; not at the definition."""
    repository = user.of.repository
    lines = [number for number, _ in _lines_with(user, chunks)][:MAX_LINES]
    if not lines:
        return [Place(repository, user.path)] if chunks else []
    return [Place(repository, user.path, _around(line, defined), line) for line in lines]


def _lines_with(user: _User, chunks: Sequence[Chunk]) -> Iterator[tuple[int, str]]:
    expression = re.compile(rf"(?<![\w$]){re.escape(user.name)}(?![\w$])")
    for chunk in chunks:
        if user.name not in chunk.content:
            continue
        for number, line in enumerate(chunk.content.splitlines(), chunk.start_line):
            is_definition = user.of.path == user.path and number == user.of.symbol.start_line
            if not is_definition and expression.search(line) and not _IMPORTING.match(line):
                yield number, line


def _around(line: int, defined: Sequence[Located]) -> str:
    """The innermost definition that holds the line; they are ordered by their first line."""
    around = [at.symbol for at in defined if at.symbol.start_line <= line <= at.symbol.end_line]
    return around[-1].qualified_name if around else ""


_IMPORTING = re.compile(r"\s*(?:from\s+\S+\s+import|import\b|use\b|using\b|#\s*include|require\b)")


# texts


async def _chunks(
    asked: Asked, paths: Sequence[str], backends: Backends
) -> dict[str, tuple[Chunk, ...]]:
    places = [(asked.repository, path) for path in dict.fromkeys(paths)]
    held = await backends.chunks.files(places, asked.ref)
    return {path: held[repository, path] for repository, path in places}


async def _texts(
    asked: Asked, paths: Sequence[str], backends: Backends
) -> dict[str, dict[int, str]]:
    """The lines of each file, by number, as far as they are stored."""
    chunks = await _chunks(asked, paths, backends)
    return {
        path: {
            number: line
            for chunk in some
            for number, line in enumerate(chunk.content.splitlines(), chunk.start_line)
        }
        for path, some in chunks.items()
    }


def _place(at: Located) -> Place:
    return Place(at.repository, at.path, at.symbol.qualified_name, at.symbol.start_line)


def _key(at: Located) -> tuple[str, str, int]:
    return at.path, at.symbol.qualified_name, at.symbol.start_line
