"""What the subject uses: calls and bases, from the names in its files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence

from codelode import references, relations
from codelode.model import Located, Reference, ReferenceKind, RepositoryName, Symbol
from codelode.relations import Confidence, Meant, meant
from gateway.expand.links import Link, Place
from gateway.expand.subject import CALLS, Asked, files_imported, key, lines_of, place_of
from gateway.state import Backends

#: Definitions whose calls are followed at each step.
MAX_STEP = 20

_NAME = re.compile(r"[^\W\d][\w$]*[?!]?")
#: Languages in which a call needs no parentheses.
_BARE = frozenset({"ruby", "elixir", "haskell", "bash", "scala", "lua", "perl"})


async def callees(asked: Asked, backends: Backends) -> list[Link]:
    """What the subject calls, and what that calls, as far as it is sure."""
    if backends.references is None or backends.symbols is None:
        return []
    if not asked.definitions:
        return await _uses_of_files(asked, backends, kinds=CALLS)
    links: list[Link] = []
    level: Sequence[Located] = asked.definitions
    seen = {key(at) for at in level}
    for depth in range(1, asked.depth + 1):
        found = await _called(level[:MAX_STEP], asked, backends)
        further: list[Located] = []
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
        return found
    texts = await lines_of(asked, asked.paths, backends)
    heads = {at.path: _head(at.symbol, texts[at.path]) for at in asked.definitions}
    return [
        Link(link.relation, place_of(at), link.target, 1, link.confidence)
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
                place_of(one.definition),
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
    imported = files_imported(repository, paths, backends)
    return {
        path: {
            use: meant(use, path=path, imported=imported[path], definitions=definitions[use.name])
            for use in some
        }
        for path, some in uses.items()
    }


async def _called(
    level: Sequence[Located], asked: Asked, backends: Backends
) -> list[tuple[Located, Meant]]:
    """What each definition calls in its own lines."""
    paths = list(dict.fromkeys(at.path for at in level))
    resolved = await asyncio.to_thread(_resolved, asked.repository, paths, CALLS, backends)
    texts = await lines_of(asked, paths, backends)
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
