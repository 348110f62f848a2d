"""Operations on any dependency graph: the order of edges, and breadth-first traversal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from codelode import deadline
from codelode.model import Edge, EdgeKind, FileKey, RefName, RepositoryName
from codelode.ports import DependencyGraph

Node = TypeVar("Node")


class ReadEdges(Protocol):
    """One of the reading methods of a graph."""

    def __call__(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str], /
    ) -> Mapping[str, Sequence[Edge]]:
        """Return the edges of each path."""


#: Minimum and maximum number of files per read. One more read costs as much as reading about 50
#: unneeded edges.
LEAST_PER_READ, MOST_PER_READ = 16, 256


def in_order(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return the distinct edges in the order of graphs: by source, target, and kind."""
    return tuple(
        sorted(set(edges), key=lambda edge: (edge.source, edge.target, edge.kind, edge.is_external))
    )


def outgoing_edges(path: str, edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return the distinct edges, in order. Raises ValueError if one does not start at `path`."""
    ordered = in_order(edges)
    stray = next((edge for edge in ordered if edge.source != path), None)
    if stray is not None:
        raise ValueError(f"the edge {stray} does not start at {path!r}")
    return ordered


@dataclass(slots=True)
class Level(Generic[Node]):
    """The nodes at one distance of a breadth-first walk; `reach` adds to the next level."""

    nodes: Sequence[Node]
    distance: int  # of the nodes that are reached from here, 1-based
    seen: AbstractSet[Node]  # nodes of this level and of those before
    reached: dict[Node, None] = field(default_factory=dict)

    def reach(self, nodes: Iterable[Node]) -> None:
        """Add the nodes that were not reached in fewer steps."""
        self.reached |= {node: None for node in nodes if node not in self.seen}


def levels(start: Iterable[Node], *, depth: int) -> Iterator[Level[Node]]:
    """Yield the levels of a breadth-first walk of at most `depth` steps.

    The caller adds the nodes that each level reaches (`Level.reach`).
    """
    nodes = tuple(dict.fromkeys(start))
    seen: set[Node] = set()
    for distance in range(1, depth + 1):
        if not nodes:
            return
        seen.update(nodes)
        level = Level(nodes, distance, seen)
        yield level
        nodes = tuple(level.reached)


def edges_of_files(
    read: ReadEdges, ref: RefName, files: Iterable[FileKey]
) -> dict[FileKey, Sequence[Edge]]:
    """Read the edges of files of several repositories, with one call per repository.

    `read`: the method `outgoing` or `incoming` of a graph.
    """
    paths: dict[RepositoryName, list[str]] = {}
    for repository, path in files:
        paths.setdefault(repository, []).append(path)
    return {
        (repository, path): edges
        for repository, some in paths.items()
        for path, edges in read(repository, ref, some).items()
    }


def walk(
    graph: DependencyGraph,
    repository: RepositoryName,
    ref: RefName,
    start: Sequence[str],
    *,
    depth: int,
    reverse: bool,
    limit: int,
    kind: EdgeKind = EdgeKind.IMPORTS,
) -> tuple[tuple[tuple[Edge, int], ...], bool]:
    """Traverse the graph from `start`, breadth first; return edges with distances, and a flag.

    The edges are those within `depth` steps whose far end was not reached in fewer steps, nearest
    first. Edges to external names are included only for files of `start`. `reverse` follows edges
    backwards, to dependents. The flag is True if `limit` cut off edges; edges beyond `depth` do
    not count. No more edges of a file are read than can be returned, so that a file with very many
    edges does not make a traversal slower.
    """
    read = graph.incoming if reverse else graph.outgoing
    found: list[tuple[Edge, int]] = []

    def other(edge: Edge) -> str:
        return edge.source if reverse else edge.target

    def leading(edges: Mapping[str, Sequence[Edge]], level: Level[str]) -> list[Edge]:
        return [
            edge
            for edge in _of_kind(edges, kind)
            if other(edge) not in level.seen and not (edge.is_external and level.distance > 1)
        ]

    for level in levels(start, depth=depth):
        unread = level.nodes
        while unread:
            deadline.check()
            batch, unread = _split(unread, room=limit - len(found))
            edges = read(repository, ref, batch, limit_per_path=limit + 1)
            new = leading(edges, level)
            cut_off = [path for path in batch if len(edges.get(path, ())) > limit]
            if cut_off and len(found) + len(new) <= limit:  # new edges may be among those cut off
                new = leading({**edges, **read(repository, ref, cut_off)}, level)
            found += [(edge, level.distance) for edge in new]
            level.reach(other(edge) for edge in new if not edge.is_external)
            if len(found) > limit:
                return tuple(found[:limit]), True
    return tuple(found), False


def _split(level: Sequence[str], *, room: int) -> tuple[Sequence[str], Sequence[str]]:
    """Split the files of a level into those to read now and the rest, by how many edges fit."""

    count = min(MOST_PER_READ, max(LEAST_PER_READ, room // 4))
    return level[:count], level[count:]


def _of_kind(read: Mapping[str, Sequence[Edge]], kind: EdgeKind) -> Iterator[Edge]:
    return (edge for edges in read.values() for edge in edges if edge.kind is kind)
