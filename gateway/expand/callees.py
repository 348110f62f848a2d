"""Find what the subject calls and inherits from, by the names that its files use."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from codelode import deadline, name_resolution
from codelode.model import LocatedSymbol, Reference, ReferenceKind, RefName, RepositoryName
from codelode.name_resolution import Confidence, ResolvedUse, resolve_use
from gateway.expand.aliases import uses_in
from gateway.expand.links import GraphNode, Link, node_of
from gateway.expand.subject import (
    CALLS,
    SubjectQuery,
    defined_in,
    files_imported,
    innermost,
    symbol_key,
)
from gateway.state import Backends

#: Maximum number of definitions whose calls are followed at each step. Chosen by hand.
MAX_STEP = 20


async def callees(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return the calls of the subject, and the calls of the called definitions up to `depth`.

    Calls that were matched by name alone (Confidence.NAME) are listed but not followed.
    """
    if backends.references is None or backends.symbols is None:
        return []
    if not query.definitions:
        return list(await _uses_of_files(query, backends, kinds=CALLS))[: query.limit]
    links: list[Link] = []
    level: Sequence[LocatedSymbol] = query.definitions
    seen = {symbol_key(at) for at in level}
    for depth in range(1, query.depth + 1):
        found = await _called(level[:MAX_STEP], query, backends)
        further: list[LocatedSymbol] = []
        for source, one in found:
            at = one.definition
            if symbol_key(at) in seen:
                continue
            seen.add(symbol_key(at))
            links.append(Link("calls", node_of(source), node_of(at), depth, one.confidence))
            if one.confidence is not Confidence.NAME:
                further.append(at)
        level = further
        if not level or len(links) >= query.limit:
            break
    return links[: query.limit]


async def bases(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return the base classes and interfaces of the classes of the subject."""
    if backends.references is None or backends.symbols is None:
        return []
    kinds = (ReferenceKind.IMPLEMENTATION,)
    found = await _uses_of_files(query, backends, kinds=kinds, relation="inherits")
    if not query.definitions:
        return list(found)[: query.limit]
    defined = await defined_in(query.repository, query.ref, query.paths, backends)
    return (await asyncio.to_thread(_of_definitions, query, found, defined))[: query.limit]


def _of_definitions(
    query: SubjectQuery,
    found: Mapping[Link, Collection[int]],
    defined: Mapping[str, Sequence[LocatedSymbol]],
) -> list[Link]:
    """Return the links from lines of the subject's definitions, with these as their sources."""
    places = ((link.source.path, line) for link, lines in found.items() for line in lines)
    around = innermost(places, defined)
    order = {at: number for number, at in enumerate(query.definitions)}
    links: list[Link] = []
    for link, lines in found.items():
        inside = {around.get((link.source.path, line)) for line in lines}
        own = sorted((at for at in inside if at in order), key=lambda at: order[at])
        links += [replace(link, source=node_of(at)) for at in own]
    return links


async def _uses_of_files(
    query: SubjectQuery,
    backends: Backends,
    *,
    kinds: Collection[ReferenceKind],
    relation: str = "calls",
) -> dict[Link, set[int]]:
    """Return links to the definitions that the files use, each once per file, with their lines."""
    resolved = await asyncio.to_thread(
        resolve_uses, query.repository, query.ref, query.paths, kinds, backends
    )
    links: dict[tuple[str, GraphNode], Link] = {}
    lines: dict[tuple[str, GraphNode], set[int]] = defaultdict(set)
    for path, found in resolved.items():
        for use, some in found.items():
            for one in some:
                lines[path, node_of(one.definition)].update(use.lines)
        for one in name_resolution.by_confidence(m for some in found.values() for m in some):
            if one.definition.path == path and relation == "calls":
                continue
            link = Link(
                relation,
                GraphNode(query.repository, path),
                node_of(one.definition),
                1,
                one.confidence,
            )
            links.setdefault((path, link.target), link)
    return {link: lines[at] for at, link in links.items()}


#: The definitions that uses may mean, by path and by use.
Resolved = Mapping[str, Mapping[Reference, tuple[ResolvedUse, ...]]]


def resolve_uses(
    repository: RepositoryName,
    ref: RefName,
    paths: Sequence[str],
    kinds: Collection[ReferenceKind],
    backends: Backends,
) -> Resolved:
    """Resolve each use of each file to definitions, in six round trips."""
    assert backends.references is not None
    assert backends.symbols is not None
    uses = uses_in(repository, ref, paths, kinds, backends.references)
    wanted = sorted({use.reference.name for use in uses})
    definitions = backends.symbols.lookup_all(wanted, repository=repository, ref=ref)
    imported = files_imported(repository, ref, paths, backends)
    resolved: dict[str, dict[Reference, tuple[ResolvedUse, ...]]] = {path: {} for path in paths}
    for path, use, source in uses:
        deadline.check()
        resolved[path][use] = resolve_use(
            use,
            path=path,
            imported=imported[path],
            definitions=definitions[use.name],
            source=source,
        )
    return resolved


async def _called(
    level: Sequence[LocatedSymbol], query: SubjectQuery, backends: Backends
) -> list[tuple[LocatedSymbol, ResolvedUse]]:
    """Return pairs of a definition and another one that is called within its lines."""
    paths = list(dict.fromkeys(at.path for at in level))
    resolved = await asyncio.to_thread(
        resolve_uses, query.repository, query.ref, paths, CALLS, backends
    )
    return await asyncio.to_thread(_inside, level, resolved)


def _inside(
    level: Sequence[LocatedSymbol], resolved: Resolved
) -> list[tuple[LocatedSymbol, ResolvedUse]]:
    """Return the resolved uses within the lines of each definition."""
    found: list[tuple[LocatedSymbol, ResolvedUse]] = []
    for at in level:
        deadline.check()
        some = [
            one
            for use, meanings in resolved[at.path].items()
            if any(at.symbol.start_line <= line <= at.symbol.end_line for line in use.lines)
            for one in meanings
            if not _is_inside(one.definition, at)
        ]
        found += [(at, one) for one in name_resolution.by_confidence(some)]
    return found


def _is_inside(inner: LocatedSymbol, outer: LocatedSymbol) -> bool:
    return (
        inner.path == outer.path
        and outer.symbol.start_line <= inner.symbol.start_line
        and inner.symbol.end_line <= outer.symbol.end_line
    )
