"""Find files related to the hits: by imports, tests, calls, inheritance, or the same folder.

Files that have no chunks at the searched ref, or that the filters of the search exclude, are left
out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codelode.globs import is_excluded
from codelode.graph import edges_of_files, levels
from codelode.model import Category, EdgeKind, FileKey, HybridQuery, RefName, RepositoryName
from codelode.ports import ChunkSearch
from gateway.expand.usage import related_by_use
from gateway.state import Backends, FileRelation, Related, SearchQuery

#: In order of significance; the first are kept if there are more files than requested.
RELATIONS: tuple[FileRelation, ...] = (
    FileRelation.TEST_FOR,
    FileRelation.INTERFACE_OF,
    FileRelation.IMPORTS,
    FileRelation.CALLS,
    FileRelation.IMPORTED_BY,
    FileRelation.SIBLING,
)

_OUTGOING = {
    EdgeKind.IMPORTS: FileRelation.IMPORTS,
    EdgeKind.TESTS: FileRelation.TEST_FOR,
}
_INCOMING = {**_OUTGOING, EdgeKind.IMPORTS: FileRelation.IMPORTED_BY}

#: Maximum number of files from which the walk starts, best first. Chosen by hand, as the next four.
MAX_STARTS = 10
#: Maximum number of neighbours kept for a file, because some files have thousands.
MAX_NEIGHBOURS = 50
#: Number of files that are looked up per requested file, because some may not exist at the ref.
SPARE = 3
#: Maximum number of folders that are searched for siblings, and of chunks read in each.
MAX_FOLDERS = 3
SIBLING_CHUNKS = 30


@dataclass(frozen=True, slots=True)
class _Step:
    """A file, and how it was reached."""

    file: FileKey
    relation: FileRelation
    hops: int
    of: str  # path of the hit's file


async def related(
    starts: Sequence[FileKey], query: SearchQuery, backends: Backends
) -> tuple[Related, ...]:
    """Return at most `related` files, nearest first, then by relation and path."""
    most = query.options.expand.related
    steps = await _nearest(starts, query, backends, count=SPARE * most)
    steps.sort(key=lambda step: (step.hops, RELATIONS.index(step.relation), step.file))
    chosen = steps[: SPARE * most]
    held = await backends.chunks.files([step.file for step in chosen], query.filters.ref)
    found = [
        Related(*step.file, step.relation, step.hops, step.of, held[step.file])
        for step in chosen
        if held[step.file] and not is_excluded(held[step.file][0], query.filters)
    ]
    return tuple(map(_as_test, found[:most]))


async def _nearest(
    starts: Sequence[FileKey], query: SearchQuery, backends: Backends, *, count: int
) -> list[_Step]:
    """Walk the graph until `count` other files are found, each by the first path that reaches it.

    Siblings are the least significant relation, so folders are searched only if one step along the
    edges finds too few files, and a second step is made only if both together find too few.
    """
    begin = starts[:MAX_STARTS]
    reached = {file: _Step(file, FileRelation.SIBLING, 0, file[1]) for file in begin}
    found: dict[FileKey, _Step] = {}
    for level in levels(begin, depth=query.options.expand.hops):
        near = [reached[file] for file in level.nodes]
        is_first, ref = level.distance == 1, query.filters.ref
        for step in await asyncio.to_thread(_neighbours, near, ref, backends, with_uses=is_first):
            reached.setdefault(step.file, step)
            level.reach([step.file])
        for file in level.reached:
            if file not in starts:
                found.setdefault(file, reached[file])
        if is_first and len(found) < count:
            siblings = await _siblings(begin, query, backends.chunks)
            found = {step.file: step for step in siblings if step.file not in starts} | found
        if len(found) >= count:
            break
    return list(found.values())


def _neighbours(
    level: Sequence[_Step], ref: RefName, backends: Backends, *, with_uses: bool
) -> list[_Step]:
    """Return the files one edge further, the most significant relations of each file first.

    Calls and inheritance are edges only for the first step, because they are resolved, not stored.
    """
    assert backends.graph is not None
    files = [step.file for step in level]
    out = edges_of_files(backends.graph.outgoing, ref, files)
    into = edges_of_files(backends.graph.incoming, ref, files)
    used = related_by_use(files, ref, backends) if with_uses else {}
    found: list[_Step] = []
    for step in level:
        repository = step.file[0]
        ends = [(_OUTGOING[e.kind], e.target) for e in out[step.file] if not e.is_external]
        ends += [(_INCOMING[e.kind], e.source) for e in into[step.file]]
        ends += used.get(step.file, ())
        ends.sort(key=lambda end: (RELATIONS.index(end[0]), end[1]))
        found += [
            _Step((repository, other), relation, step.hops + 1, step.of)
            for relation, other in ends[:MAX_NEIGHBOURS]
        ]
    return found


async def _siblings(
    starts: Sequence[FileKey], query: SearchQuery, chunks: ChunkSearch
) -> list[_Step]:
    """Return files that contain words of the query, in the folders of the best hits."""
    folders: dict[tuple[RepositoryName, str], str] = {}
    for repository, path in starts:
        folders.setdefault((repository, path.rpartition("/")[0]), path)
    searched = list(folders.items())[:MAX_FOLDERS]
    found = await asyncio.gather(*(_in_folder(folder, query, chunks) for folder, _ in searched))
    return [
        _Step((repository, path), FileRelation.SIBLING, 1, of)
        for ((repository, _), of), paths in zip(searched, found, strict=True)
        for path in paths
    ]


async def _in_folder(folder: FileKey, query: SearchQuery, chunks: ChunkSearch) -> list[str]:
    """Return paths directly in the folder, best first."""
    repository, parent = folder
    glob = f"{parent}/*" if parent else "*"
    inside = replace(query.filters, repositories=(repository,), paths=(glob,), symbols=(), kinds=())
    asked = HybridQuery(query.text, None, inside, SIBLING_CHUNKS, visible=query.visible)
    paths = dict.fromkeys(candidate.chunk.path for candidate in await chunks.hybrid(asked))
    # The name of a folder may contain `*`, which the glob reads as a wildcard.
    return [path for path in paths if path.rpartition("/")[0] == parent]


def _as_test(found: Related) -> Related:
    """Relabel a test that imports the hit as a test for it, even if no edge says so."""
    is_test = found.chunks[0].category is Category.TEST
    if is_test and found.relation is FileRelation.IMPORTED_BY and found.hops == 1:
        return replace(found, relation=FileRelation.TEST_FOR)
    return found
