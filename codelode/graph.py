"""Operations on any dependency graph: the order of edges, and breadth-first traversal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from codelode.model import Edge, EdgeKind, RepositoryName
from codelode.ports import DependencyGraph

#: Bounds on the files per read. One more read costs as much as reading about 50 unneeded edges.
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


def walk(
    graph: DependencyGraph,
    repository: RepositoryName,
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
    seen = set(start)
    level = tuple(dict.fromkeys(start))

    def other(edge: Edge) -> str:
        return edge.source if reverse else edge.target

    def is_leading(edge: Edge, distance: int) -> bool:
        return other(edge) not in seen and not (edge.is_external and distance > 1)

    for distance in range(1, depth + 1):
        reached: dict[str, None] = {}
        unread: Sequence[str] = level
        while unread:
            batch, unread = _split(unread, room=limit - len(found))
            edges = read(repository, batch, limit_per_path=limit + 1)
            leading = [e for e in _edges(edges, kind) if is_leading(e, distance)]
            cut_off = [path for path in batch if len(edges.get(path, ())) > limit]
            if cut_off and len(found) + len(leading) <= limit:  # too many edges were not new
                edges = {**edges, **read(repository, cut_off)}
                leading = [e for e in _edges(edges, kind) if is_leading(e, distance)]
            found += [(edge, distance) for edge in leading]
            reached |= {other(edge): None for edge in leading if not edge.is_external}
            if len(found) > limit:
                return tuple(found[:limit]), True
        if not reached:
            break
        seen |= reached.keys()
        level = tuple(reached)
    return tuple(found), False


def _split(level: Sequence[str], *, room: int) -> tuple[Sequence[str], Sequence[str]]:
    """Split the files of a level into those to read now and the rest, by how many edges fit."""

    count = min(MOST_PER_READ, max(LEAST_PER_READ, room // 4))
    return level[:count], level[count:]


def _edges(read: Mapping[str, Sequence[Edge]], kind: EdgeKind) -> Iterator[Edge]:
    return (edge for edges in read.values() for edge in edges if edge.kind is kind)
