"""Imports as written → edges to files of the repository, or to a name outside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from codelode.model import Edge, EdgeKind, Import, ParsedFile


class Candidates(Protocol):
    """What an import could mean, most likely first."""

    def __call__(self, imp: Import, /, *, path: str, language: str) -> Sequence[str]: ...


#: Which of many paths the ref holds.
Exists = Callable[[Sequence[str]], frozenset[str]]

_Meant = dict[Import, Sequence[str]]


def import_edges(
    files: Mapping[str, ParsedFile], *, candidates: Candidates, exists: Exists
) -> dict[str, tuple[Edge, ...]]:
    """For each path, one edge per distinct target, sorted. A file never imports itself.

    Asks `exists` once for all files.
    """
    meant: dict[str, _Meant] = {
        path: {imp: candidates(imp, path=path, language=file.language) for imp in file.imports}
        for path, file in files.items()
    }
    targets = {target for of in meant.values() for some in of.values() for target in some}
    held = exists(sorted(targets)) if targets else frozenset()
    return {path: _edges(path, of, held) for path, of in meant.items()}


def _edges(path: str, meant: _Meant, held: frozenset[str]) -> tuple[Edge, ...]:
    edges = set()
    for imp, targets in meant.items():
        target = next((target for target in targets if target in held), None)
        if target is None:
            edges.add(Edge(path, imp.module, EdgeKind.IMPORTS, is_external=True))
        elif target != path:
            edges.add(Edge(path, target, EdgeKind.IMPORTS))
    return tuple(sorted(edges, key=lambda edge: (edge.is_external, edge.target)))
