"""Find the users of the subject (callers, references, subclasses), most certain matches first."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codelode import deadline
from codelode.model import LocatedSymbol, Reference, ReferenceKind, RefName, RepositoryName
from codelode.name_resolution import Confidence, resolve_use
from gateway.expand.aliases import lines_in, uses_of
from gateway.expand.links import GraphNode, Link, node_of
from gateway.expand.subject import (
    CALLS,
    SubjectQuery,
    defined_in,
    files_imported,
    innermost,
    stored_chunks,
    symbol_key,
)
from gateway.state import Backends

#: Maximum number of uses, each of a name in a file, that are returned. Chosen by hand.
MAX_USERS = 200
#: Maximum number of lines that are listed for a use. Chosen by hand.
MAX_LINES = 5


async def callers(query: SubjectQuery, backends: Backends, *, relation: str) -> list[Link]:
    """Return where the symbols of the subject are used, most certain matches first.

    If the subject is a file, its symbols are those that it exports.
    """
    kinds = CALLS if relation == "callers" else (*CALLS, ReferenceKind.IMPLEMENTATION)
    return await _users(query, backends, kinds=kinds, relation=relation)


async def subclasses(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return the classes that inherit or implement the subject."""
    kinds = (ReferenceKind.IMPLEMENTATION,)
    return await _users(query, backends, kinds=kinds, relation="subclasses")


async def _users(
    query: SubjectQuery, backends: Backends, *, kinds: Sequence[ReferenceKind], relation: str
) -> list[Link]:
    if backends.references is None or backends.symbols is None:
        return []
    names = await _defined_names(query, backends)
    found = await asyncio.to_thread(users, query.repository, query.ref, names, kinds, backends)
    if not query.definitions:
        found = [one for one in found if one.path not in query.paths]
    order = list(Confidence)
    found = sorted(found, key=lambda one: (order.index(one.confidence), one.path, one.use.kind))
    found = found[:MAX_USERS]
    paths = [one.path for one in found]
    held, defined, lines = await asyncio.gather(
        stored_chunks(query, paths, backends),
        defined_in(query.repository, query.ref, paths, backends),
        asyncio.to_thread(lines_in, query.repository, query.ref, paths, kinds, backends.references),
    )
    places = ((path, line) for (path, _), at in lines.items() for line in at[:MAX_LINES])
    around = await asyncio.to_thread(innermost, places, defined)
    links: dict[tuple[GraphNode, GraphNode], Link] = {}
    for one in (one for one in found if held[one.path]):
        target = node_of(one.of)
        at = lines.get((one.path, one.use), ())
        for source in _nodes(query.repository, one.path, at, around):
            links.setdefault((source, target), Link(relation, source, target, 1, one.confidence))
        if len(links) >= query.limit:
            break
    return list(links.values())[: query.limit]


async def _defined_names(
    query: SubjectQuery, backends: Backends
) -> Mapping[str, tuple[LocatedSymbol, ...]]:
    """Return the names that the subject defines, each with its definitions."""
    if query.definitions:
        return {query.name: query.definitions}
    found = await defined_in(query.repository, query.ref, query.paths, backends)
    return exported(at for some in found.values() for at in some)


def exported(defined: Iterable[LocatedSymbol]) -> dict[str, tuple[LocatedSymbol, ...]]:
    """Return the exported definitions by name."""
    names: defaultdict[str, list[LocatedSymbol]] = defaultdict(list)
    for at in (at for at in defined if at.symbol.is_exported):
        names[at.symbol.name].append(at)
    return {name: tuple(some) for name, some in names.items()}


@dataclass(frozen=True, slots=True)
class User:
    """A use of a name in a file that may mean one of the requested definitions."""

    path: str
    use: Reference
    of: LocatedSymbol
    confidence: Confidence


def users(
    repository: RepositoryName,
    ref: RefName,
    names: Mapping[str, tuple[LocatedSymbol, ...]],
    kinds: Sequence[ReferenceKind],
    backends: Backends,
) -> list[User]:
    """Return the uses of the names that may mean one of their definitions."""
    assert backends.references is not None
    assert backends.symbols is not None
    using = uses_of(repository, ref, names, kinds, backends.references)
    paths = sorted({use.path for use in using})
    imported = files_imported(repository, ref, paths, backends)
    definitions = backends.symbols.lookup_all(sorted(names), repository=repository, ref=ref)
    found: list[User] = []
    for path, use, source in using:
        deadline.check()
        if path not in imported:
            continue
        own = names[use.name]
        meanings = resolve_use(
            use,
            path=path,
            imported=imported[path],
            definitions=_own_first(definitions[use.name], own),
            source=source,
        )
        mine = next((m for m in meanings if _is_of(m.definition, own)), None)
        if mine is not None:
            found.append(User(path, use, mine.definition, mine.confidence))
    return found


def _own_first(all_: Sequence[LocatedSymbol], own: Sequence[LocatedSymbol]) -> list[LocatedSymbol]:
    """Put the subject's definitions first, so that a limit on their number keeps them."""
    keys = {symbol_key(at) for at in own}
    return sorted(all_, key=lambda at: symbol_key(at) not in keys)


def _is_of(at: LocatedSymbol, own: Iterable[LocatedSymbol]) -> bool:
    return any(symbol_key(at) == symbol_key(one) for one in own)


def _nodes(
    repository: RepositoryName,
    path: str,
    lines: Sequence[int],
    around: Mapping[tuple[str, int], LocatedSymbol],
) -> list[GraphNode]:
    """Return a node for each line, with the definition around it; a file without lines has one."""
    nodes: list[GraphNode] = []
    for line in lines[:MAX_LINES]:
        at = around.get((path, line))
        nodes.append(GraphNode(repository, path, at.symbol.qualified_name if at else "", line))
    return nodes or [GraphNode(repository, path)]
