"""What the subject uses: calls and bases, from the names in its files."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from codelode import relations
from codelode.model import LocatedSymbol, Reference, ReferenceKind, RepositoryName, Symbol
from codelode.relations import Confidence, Meant, meant
from gateway.expand.links import Link, Place
from gateway.expand.aliases import uses_in
from gateway.expand.subject import CALLS, Asked, files_imported, key, lines_of, place_of
from gateway.state import Backends

#: Definitions whose calls are followed at each step.
MAX_STEP = 20

_NAME = re.compile(r"[^\W\d][\w$]*[?!]?")


async def callees(asked: Asked, backends: Backends) -> list[Link]:
    """What the subject calls, and what that calls, as far as it is sure."""
    if backends.references is None or backends.symbols is None:
        return []
    if not asked.definitions:
        return list(await _uses_of_files(asked, backends, kinds=CALLS))[: asked.limit]
    links: list[Link] = []
    level: Sequence[LocatedSymbol] = asked.definitions
    seen = {key(at) for at in level}
    for depth in range(1, asked.depth + 1):
        found = await _called(level[:MAX_STEP], asked, backends)
        further: list[LocatedSymbol] = []
        for source, one in found:
            at = one.definition
            if key(at) in seen:
                continue
            seen.add(key(at))
            links.append(Link("calls", place_of(source), place_of(at), depth, one.confidence))
            if one.confidence is not Confidence.NAME:
                further.append(at)
        level = further
        if not level or len(links) >= asked.limit:
            break
    return links[: asked.limit]


async def bases(asked: Asked, backends: Backends) -> list[Link]:
    """What the subject's classes inherit or implement."""
    if backends.references is None or backends.symbols is None:
        return []
    found = await _uses_of_files(
        asked, backends, kinds=(ReferenceKind.IMPLEMENTATION,), relation="inherits"
    )
    if not asked.definitions:
        return list(found)[: asked.limit]
    texts = await lines_of(asked, asked.paths, backends)
    heads = {at.path: _head(at.symbol, texts[at.path]) for at in asked.definitions}
    return [
        Link(link.relation, place_of(at), link.target, 1, link.confidence)
        for link, said in found.items()
        for at in asked.definitions
        if at.path == link.source.path and not said.isdisjoint(_NAME.findall(heads[at.path]))
    ][: asked.limit]


def _head(symbol: Symbol, lines: Mapping[int, str]) -> str:
    """The first lines of a definition, where its bases stand."""
    end = min(symbol.end_line, symbol.start_line + 5)
    return "\n".join(lines.get(line, "") for line in range(symbol.start_line, end + 1))


async def _uses_of_files(
    asked: Asked, backends: Backends, *, kinds: Collection[ReferenceKind], relation: str = "calls"
) -> dict[Link, set[str]]:
    """What the names that the files use mean, each definition once per file.

    With each how it is written there.
    """
    resolved = await asyncio.to_thread(_resolved, asked.repository, asked.paths, kinds, backends)
    links: dict[tuple[str, Place], Link] = {}
    said: dict[tuple[str, Place], set[str]] = defaultdict(set)
    for path, found in resolved.items():
        for use, some in found.items():
            for one in some:
                said[path, place_of(one.definition)].add(_LAST.split(use.written or use.name)[-1])
        for one in relations.best(m for some in found.values() for m in some):
            if one.definition.path == path and relation == "calls":
                continue
            link = Link(
                relation,
                Place(asked.repository, path),
                place_of(one.definition),
                1,
                one.confidence,
            )
            links.setdefault((path, link.target), link)
    return {link: said[at] for at, link in links.items()}


_Resolved = Mapping[str, Mapping[Reference, tuple[Meant, ...]]]  # by path, then by use


def _resolved(
    repository: RepositoryName,
    paths: Sequence[str],
    kinds: Collection[ReferenceKind],
    backends: Backends,
) -> _Resolved:
    """What each use of each file means, in six round trips."""
    assert backends.references is not None
    assert backends.symbols is not None
    uses = uses_in(repository, paths, kinds, backends.references)
    wanted = sorted({use.reference.name for use in uses})
    definitions = backends.symbols.lookup_all(wanted, repository=repository)
    imported = files_imported(repository, paths, backends)
    resolved: dict[str, dict[Reference, tuple[Meant, ...]]] = {path: {} for path in paths}
    for path, use, source in uses:
        resolved[path][use] = meant(
            use,
            path=path,
            imported=imported[path],
            definitions=definitions[use.name],
            source=source,
        )
    return resolved


async def _called(
    level: Sequence[LocatedSymbol], asked: Asked, backends: Backends
) -> list[tuple[LocatedSymbol, Meant]]:
    """What each definition calls in its own lines."""
    paths = list(dict.fromkeys(at.path for at in level))
    resolved = await asyncio.to_thread(_resolved, asked.repository, paths, CALLS, backends)
    texts = await lines_of(asked, paths, backends)
    found: list[tuple[LocatedSymbol, Meant]] = []
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
        found += [(at, one) for one in relations.best(some)]
    return found


def _is_inside(inner: LocatedSymbol, outer: LocatedSymbol) -> bool:
    return (
        inner.path == outer.path
        and outer.symbol.start_line <= inner.symbol.start_line
        and inner.symbol.end_line <= outer.symbol.end_line
    )


def _called_names(at: LocatedSymbol, lines: Mapping[int, str], members: Iterable[str]) -> set[str]:
    """Names that are called in the definition's lines, by their looks.

    `members`: of what is imported, `np.load`, which are told as a whole.
    """
    symbol = at.symbol
    text = "\n".join(lines.get(line, "") for line in range(symbol.start_line, symbol.end_line + 1))
    is_bare = relations.scope(at.path).has_bare_calls
    found: set[str] = set()
    for member in sorted(members, key=len, reverse=True):
        if member.isidentifier():
            continue
        called = rf"(?<![\w$.]){re.escape(member)}(?![\w$]){'' if is_bare else _CALL}"
        text, count = re.subn(called, " ", text)
        found |= {member} if count else set()
    return found | set((_NAME if is_bare else _CALLED).findall(text))


#: After a name that is called: arguments of a type, marks, and what opens the call.
_CALL = r"(?=(?:::)?(?:<[^<>()\n]*>)?[!?.]{0,2}\s?[({`])"
_CALLED = re.compile(rf"([^\W\d][\w$]*){_CALL}")
_LAST = re.compile(r"[.:\\]+")
