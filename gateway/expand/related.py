"""Files near the hits in the dependency graph, breadth first, and their neighbours in the folder.

An edge is a label until the index confirms it: a graph knows the paths of whatever ref was indexed
last, so a file that the searched ref does not hold is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from codelode.model import Category, EdgeKind, FileKey, HybridQuery, RepositoryName
from codelode.ports import ChunkSearch, DependencyGraph
from gateway.state import Backends, Related, Relation, SearchQuery

#: The surest relation first: it is kept when there are more files than wanted.
RELATIONS: tuple[Relation, ...] = (
    Relation.TEST_FOR,
    Relation.INTERFACE_OF,
    Relation.IMPORTS,
    Relation.CALLS,
    Relation.IMPORTED_BY,
    Relation.SIBLING,
)

_OUTGOING = {
    EdgeKind.IMPORTS: Relation.IMPORTS,
    EdgeKind.CALLS: Relation.CALLS,
    EdgeKind.INHERITS: Relation.INTERFACE_OF,
    EdgeKind.TESTS: Relation.TEST_FOR,
}
_INCOMING = {**_OUTGOING, EdgeKind.IMPORTS: Relation.IMPORTED_BY}

#: Files that the walk starts from: the best of the page.
MAX_STARTS = 10
#: Neighbours kept of one file: a hub has thousands.
MAX_NEIGHBOURS = 50
#: Files looked at for each that is wanted, as some are not at the ref.
SPARE = 3
#: Folders searched for siblings, and chunks that are looked at in each.
MAX_FOLDERS = 3
SIBLING_CHUNKS = 30


@dataclass(frozen=True, slots=True)
class _Step:
    """A file as a walk reached it."""

    place: FileKey
    relation: Relation
    hops: int
    of: str


async def related(
    starts: Sequence[FileKey], query: SearchQuery, backends: Backends
) -> tuple[Related, ...]:
    """At most `related` files, nearest first, then by relation and path."""
    options, graph = query.options.expand, backends.graph
    assert graph is not None
    begin = starts[:MAX_STARTS]
    steps = await asyncio.to_thread(walk, begin, graph, hops=options.hops)
    steps += await _siblings(begin, query, backends.chunks)
    nearest = sorted(
        _distinct(steps, but=starts),
        key=lambda step: (step.hops, RELATIONS.index(step.relation), step.place),
    )
    wanted = nearest[: SPARE * options.related]
    held = await backends.chunks.files([step.place for step in wanted], query.filters.ref)
    found = [
        Related(*step.place, step.relation, step.hops, step.of, held[step.place])
        for step in wanted
        if held[step.place]
    ]
    return tuple(map(_as_test, found[: options.related]))


def walk(starts: Sequence[FileKey], graph: DependencyGraph, *, hops: int) -> list[_Step]:
    """Every file within `hops` edges, each by the way that reached it first."""
    steps: list[_Step] = []
    seen = set(starts)
    level = [_Step(place, Relation.SIBLING, 0, place[1]) for place in starts]
    for _ in range(hops):
        found = []
        for step in _neighbours(level, graph):
            if step.place not in seen:
                seen.add(step.place)
                found.append(step)
        steps += found
        level = found
    return steps


def _neighbours(level: Iterable[_Step], graph: DependencyGraph) -> Iterable[_Step]:
    """One edge further, by repository in two reads."""
    by_repository: dict[RepositoryName, dict[str, _Step]] = {}
    for step in level:
        by_repository.setdefault(step.place[0], {})[step.place[1]] = step
    for repository, steps in by_repository.items():
        out = graph.outgoing(repository, list(steps))
        into = graph.incoming(repository, list(steps))
        for path, step in steps.items():
            ends = [(_OUTGOING[e.kind], e.target) for e in out[path] if not e.is_external]
            ends += [(_INCOMING[e.kind], e.source) for e in into[path]]
            ends.sort(key=lambda end: (RELATIONS.index(end[0]), end[1]))
            for relation, other in ends[:MAX_NEIGHBOURS]:
                yield _Step((repository, other), relation, step.hops + 1, step.of)


async def _siblings(
    starts: Sequence[FileKey], query: SearchQuery, chunks: ChunkSearch
) -> list[_Step]:
    """Files of the best hits' folders that hold words of the query."""
    folders: dict[FileKey, str] = {}
    for repository, path in starts:
        folders.setdefault((repository, path.rpartition("/")[0]), path)
    asked = list(folders.items())[:MAX_FOLDERS]
    found = await asyncio.gather(*(_in_folder(folder, query, chunks) for folder, _ in asked))
    return [
        _Step((repository, path), Relation.SIBLING, 1, of)
        for ((repository, _), of), paths in zip(asked, found, strict=True)
        for path in paths
    ]


async def _in_folder(folder: FileKey, query: SearchQuery, chunks: ChunkSearch) -> list[str]:
    """Paths directly in the folder, best first."""
    repository, parent = folder
    glob = f"{parent}/*" if parent else "*"
    inside = replace(query.filters, repositories=(repository,), paths=(glob,), symbols=(), kinds=())
    asked = HybridQuery(query.text, None, inside, SIBLING_CHUNKS, visible=query.visible)
    paths = dict.fromkeys(candidate.chunk.path for candidate in await chunks.hybrid(asked))
    # A folder's own name may hold `*`, which is no wildcard there.
    return [path for path in paths if path.rpartition("/")[0] == parent]


def _distinct(steps: Iterable[_Step], *, but: Iterable[FileKey]) -> list[_Step]:
    seen = set(but)
    distinct = []
    for step in steps:
        if step.place not in seen:
            seen.add(step.place)
            distinct.append(step)
    return distinct


def _as_test(found: Related) -> Related:
    """A test that imports the hit is a test for it, also where no edge says so."""
    is_test = found.chunks[0].category is Category.TEST
    if is_test and found.relation is Relation.IMPORTED_BY and found.hops == 1:
        return replace(found, relation=Relation.TEST_FOR)
    return found
