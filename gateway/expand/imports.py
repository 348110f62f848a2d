"""Import chains: what the hits' files import, what that imports, and where a chain ends.

The graph is read level by level, one read per repository and level, and the chains are then
followed depth first over what was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from codelode.model import Edge, EdgeKind, FileKey, RepositoryName
from codelode.ports import DependencyGraph
from gateway.state import ImportLink, Mark

#: Links of one answer; a hub's chains have no end.
MAX_LINKS = 200
#: Files whose imports are read in all.
MAX_FILES = 2_000

_Imports = Mapping[FileKey, Sequence[Edge]]


async def chains(
    starts: Sequence[FileKey], graph: DependencyGraph, *, depth: int
) -> tuple[tuple[ImportLink, ...], tuple[str, ...]]:
    """The chains of each file in turn, depth first, and a notice when they were cut."""
    imports = await asyncio.to_thread(_read, starts, graph, depth=depth)
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
    """The links from a file. Each file is followed once; after that its links are known."""
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
    starts: Sequence[FileKey], graph: DependencyGraph, *, depth: int
) -> dict[FileKey, tuple[Edge, ...]]:
    """The imports of every file within `depth` links; one level more, to know what is cut."""
    found: dict[FileKey, tuple[Edge, ...]] = {}
    level: Sequence[FileKey] = starts
    for _ in range(depth + 1):
        room = MAX_FILES - len(found)
        wanted: dict[RepositoryName, list[str]] = {}
        for repository, path in list(dict.fromkeys(level))[:room]:
            wanted.setdefault(repository, []).append(path)
        fresh = {
            (repository, path): tuple(edge for edge in edges if edge.kind is EdgeKind.IMPORTS)
            for repository, paths in wanted.items()
            for path, edges in graph.outgoing(repository, paths).items()
        }
        found |= fresh
        targets = (
            (place[0], e.target) for place in fresh for e in fresh[place] if not e.is_external
        )
        level = [target for target in targets if target not in found]
        if not level:
            break
    return found
