"""Follow import chains from the files of the hits, and mark how each chain ends.

The graph is read first, with one read per repository and level. The chains are then followed depth
first over the edges that were read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from codelode.graph import edges_of_files, levels
from codelode.model import Edge, EdgeKind, FileKey, RefName
from codelode.ports import DependencyGraph
from gateway.state import ImportLink, Mark

#: Maximum number of links of an answer, because import chains grow exponentially. Chosen by hand.
MAX_LINKS = 200
#: Maximum number of files whose imports are read for an answer. Chosen by hand.
MAX_FILES = 2_000

_Imports = Mapping[FileKey, Sequence[Edge]]


async def chains(
    starts: Sequence[FileKey], ref: RefName, graph: DependencyGraph, *, depth: int
) -> tuple[tuple[ImportLink, ...], tuple[str, ...]]:
    """Return the chains of all files in order, depth first, and a notice if they were cut."""
    imports = await asyncio.to_thread(_read, starts, ref, graph, depth=depth)
    links: list[ImportLink] = []
    followed: set[FileKey] = set()
    for start in starts:
        for link in _follow(start, imports, followed, trail=(start[1],), depth=depth):
            if len(links) == MAX_LINKS:
                notice = f"import chains were cut after {MAX_LINKS} links"
                return tuple(links), (notice,)
            links.append(link)
    return tuple(links), ()


def _follow(
    at: FileKey,
    imports: _Imports,
    followed: set[FileKey],
    *,
    trail: tuple[str, ...],
    depth: int,
) -> Iterator[ImportLink]:
    """Yield the links of the chains that begin at a file. Each file is followed once per answer."""
    if at in followed:
        return
    followed.add(at)
    repository, path = at
    level = len(trail)
    for edge in imports.get(at, ()):
        target = (repository, edge.target)
        mark = _mark(edge, target, imports, trail=trail, depth=depth)
        yield ImportLink(repository, path, edge.target, level, mark)
        if mark is Mark.INTERNAL:
            further = (*trail, edge.target)
            yield from _follow(target, imports, followed, trail=further, depth=depth)


def _mark(
    edge: Edge, target: FileKey, imports: _Imports, *, trail: Sequence[str], depth: int
) -> Mark:
    if edge.is_external:
        return Mark.EXTERNAL
    if edge.target in trail:
        return Mark.CIRCULAR
    is_last = len(trail) >= depth
    is_read = target in imports
    return Mark.TRUNCATED if not is_read or (is_last and imports[target]) else Mark.INTERNAL


def _read(
    starts: Sequence[FileKey], ref: RefName, graph: DependencyGraph, *, depth: int
) -> dict[FileKey, tuple[Edge, ...]]:
    """Read the imports of every file within `depth` links, and one level further.

    The additional level shows whether a chain continues after its last link.
    """
    found: dict[FileKey, tuple[Edge, ...]] = {}
    for level in levels(starts, depth=depth + 1):
        files = level.nodes[: MAX_FILES - len(found)]
        for file, edges in edges_of_files(graph.outgoing, ref, files).items():
            found[file] = tuple(edge for edge in edges if edge.kind is EdgeKind.IMPORTS)
            level.reach((file[0], edge.target) for edge in found[file] if not edge.is_external)
    return found
