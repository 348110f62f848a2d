"""Imports as written → edges to files of the repository, or to a name outside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codelode.model import Edge, EdgeKind, Import

#: What an import could mean, most likely first; and which of many paths the ref holds.
Candidates = Callable[[Import], Sequence[str]]
Exists = Callable[[Sequence[str]], frozenset[str]]


def import_edges(
    imports: Sequence[Import], *, path: str, candidates: Candidates, exists: Exists
) -> tuple[Edge, ...]:
    """One edge per distinct target, sorted; asks `exists` once. A file never imports itself."""
    meant = {imported: tuple(candidates(imported)) for imported in imports}
    held = exists(sorted({target for targets in meant.values() for target in targets}))
    edges = set()
    for imported, targets in meant.items():
        target = next((target for target in targets if target in held), None)
        if target is None:
            edges.add(Edge(path, imported.module, EdgeKind.IMPORTS, is_external=True))
        elif target != path:
            edges.add(Edge(path, target, EdgeKind.IMPORTS))
    return tuple(sorted(edges, key=lambda edge: (edge.is_external, edge.target)))
