"""Find what the subject calls and inherits, from the names that its files use."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from codelode import name_resolution
from codelode.model import LocatedSymbol, Reference, ReferenceKind, RepositoryName, Symbol
from codelode.name_resolution import Confidence, ResolvedUse, resolve_use
from gateway.expand.aliases import uses_in
from gateway.expand.links import GraphNode, Link, node_of
from gateway.expand.subject import CALLS, SubjectQuery, files_imported, stored_lines, symbol_key
from gateway.state import Backends

#: Most definitions whose calls are followed at each step. Chosen by hand.
MAX_STEP = 20

_NAME = re.compile(r"[^\W\d][\w$]*[?!]?")


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
    found = await _uses_of_files(
        query, backends, kinds=(ReferenceKind.IMPLEMENTATION,), relation="inherits"
    )
    if not query.definitions:
        return list(found)[: query.limit]
    texts = await stored_lines(query, query.paths, backends)
    heads = {at.path: _head(at.symbol, texts[at.path]) for at in query.definitions}
    return [
        Link(link.relation, node_of(at), link.target, 1, link.confidence)
        for link, names in found.items()
        for at in query.definitions
        if at.path == link.source.path and not names.isdisjoint(_NAME.findall(heads[at.path]))
    ][: query.limit]


def _head(symbol: Symbol, lines: Mapping[int, str]) -> str:
    """Return the first lines of a definition, which name its bases."""
    end = min(symbol.end_line, symbol.start_line + 5)
    return "\n".join(lines.get(line, "") for line in range(symbol.start_line, end + 1))


async def _uses_of_files(
    query: SubjectQuery,
    backends: Backends,
    *,
    kinds: Collection[ReferenceKind],
    relation: str = "calls",
) -> dict[Link, set[str]]:
    """Return links to the definitions that the files use, each once per file.

    Each link maps to the names under which the file writes the definition.
    """
    resolved = await asyncio.to_thread(_resolved, query.repository, query.paths, kinds, backends)
    links: dict[tuple[str, GraphNode], Link] = {}
    written: dict[tuple[str, GraphNode], set[str]] = defaultdict(set)
    for path, found in resolved.items():
        for use, some in found.items():
            for one in some:
                written[path, node_of(one.definition)].add(_LAST.split(use.written or use.name)[-1])
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
    return {link: written[at] for at, link in links.items()}


_Resolved = Mapping[str, Mapping[Reference, tuple[ResolvedUse, ...]]]  # by path, then by use


def _resolved(
    repository: RepositoryName,
    paths: Sequence[str],
    kinds: Collection[ReferenceKind],
    backends: Backends,
) -> _Resolved:
    """Resolve each use of each file to definitions, in six round trips."""
    assert backends.references is not None
    assert backends.symbols is not None
    uses = uses_in(repository, paths, kinds, backends.references)
    wanted = sorted({use.reference.name for use in uses})
    definitions = backends.symbols.lookup_all(wanted, repository=repository)
    imported = files_imported(repository, paths, backends)
    resolved: dict[str, dict[Reference, tuple[ResolvedUse, ...]]] = {path: {} for path in paths}
    for path, use, source in uses:
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
    """Return pairs of a definition and a definition that it calls within its own lines."""
    paths = list(dict.fromkeys(at.path for at in level))
    resolved = await asyncio.to_thread(_resolved, query.repository, paths, CALLS, backends)
    texts = await stored_lines(query, paths, backends)
    found: list[tuple[LocatedSymbol, ResolvedUse]] = []
    for at in level:
        uses = resolved[at.path]
        called = _called_names(at, texts[at.path], [use.written for use in uses if use.written])
        some = [
            one
            for use, meanings in uses.items()
            if (use.written or use.name) in called
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


def _called_names(at: LocatedSymbol, lines: Mapping[int, str], members: Iterable[str]) -> set[str]:
    """Return the names that the lines of the definition call, found by a regular expression.

    `members`: qualified names of imported members, such as `np.load`, which are matched whole.
    """
    symbol = at.symbol
    text = "\n".join(lines.get(line, "") for line in range(symbol.start_line, symbol.end_line + 1))
    is_bare = name_resolution.scope(at.path).has_bare_calls
    found: set[str] = set()
    for member in sorted(members, key=len, reverse=True):
        if member.isidentifier():
            continue
        called = rf"(?<![\w$.]){re.escape(member)}(?![\w$]){'' if is_bare else _CALL}"
        text, count = re.subn(called, " ", text)
        found |= {member} if count else set()
    return found | set((_NAME if is_bare else _CALLED).findall(text))


#: Matches after a called name: type arguments, marks, and the character that opens the call.
_CALL = r"(?=(?:::)?(?:<[^<>()\n]*>)?[!?.]{0,2}\s?[({`])"
_CALLED = re.compile(rf"(?<![\w$])[\d$]*+([^\W\d][\w$]*+){_CALL}")
_LAST = re.compile(r"[.:\\]+")
