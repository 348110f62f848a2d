"""What is the same for every dependency graph: the order of edges, and walking along them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codelode.model import Edge, RepositoryName
from codelode.ports import DependencyGraph


def in_order(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """The distinct edges by source, target and kind: the order in which graphs return them."""
    return tuple(
        sorted(set(edges), key=lambda edge: (edge.source, edge.target, edge.kind, edge.is_external))
    )


def outgoing_edges(path: str, edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """The distinct edges, in order. Raises ValueError for one that starts elsewhere."""
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
) -> tuple[tuple[tuple[str, int], ...], bool]:
    """Files within `depth` edges of `start` with their distances, and whether `limit` cut any off.

    Nearest first, then by path; `start` itself and external names are left out. `reverse` follows
    edges against their direction: who depends on these? Reads the graph once per level, so a walk
    into a hub costs that hub's edges once. Files beyond `depth` do not count as cut off.
    """
    found: list[tuple[str, int]] = []
    seen = set(start)
    level = tuple(dict.fromkeys(start))
    for distance in range(1, depth + 1):
        nearby = sorted(_neighbours(graph, repository, level, reverse=reverse) - seen)
        room = limit - len(found)
        found += [(path, distance) for path in nearby[:room]]
        if len(nearby) > room:
            return tuple(found), True
        if not nearby:
            break
        seen.update(nearby)
        level = tuple(nearby)
    return tuple(found), False


def _neighbours(
    graph: DependencyGraph, repository: RepositoryName, paths: Sequence[str], *, reverse: bool
) -> set[str]:
    if reverse:
        into = graph.incoming(repository, paths).values()
        return {edge.source for edges in into for edge in edges}
    out = graph.outgoing(repository, paths).values()
    return {edge.target for edges in out for edge in edges if not edge.is_external}
