"""The dependency graph in dictionaries."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from codelode.graph import in_order, outgoing_edges
from codelode.model import Edge, FileKey, RepositoryName


class MemoryGraph:
    """Implements the port DependencyGraph."""

    def __init__(self) -> None:
        self._out: dict[FileKey, tuple[Edge, ...]] = {}
        self._in: defaultdict[FileKey, set[Edge]] = defaultdict(set)
        self._lock = threading.Lock()

    def replace(self, repository: RepositoryName, edges: Mapping[str, Sequence[Edge]]) -> None:
        for path, starting in edges.items():
            self._replace(repository, path, outgoing_edges(path, starting))

    def _replace(self, repository: RepositoryName, path: str, ordered: tuple[Edge, ...]) -> None:
        with self._lock:
            for edge in self._out.pop((repository, path), ()):
                self._in[repository, edge.target].discard(edge)
            if ordered:
                self._out[repository, path] = ordered
            for edge in ordered:
                if not edge.is_external:
                    self._in[repository, edge.target].add(edge)

    def outgoing(
        self, repository: RepositoryName, paths: Sequence[str], *, limit_per_path: int | None = None
    ) -> Mapping[str, tuple[Edge, ...]]:
        with self._lock:
            return {path: self._out.get((repository, path), ())[:limit_per_path] for path in paths}

    def incoming(
        self, repository: RepositoryName, paths: Sequence[str], *, limit_per_path: int | None = None
    ) -> Mapping[str, tuple[Edge, ...]]:
        with self._lock:
            return {
                path: in_order(self._in.get((repository, path), ()))[:limit_per_path]
                for path in paths
            }

    def remove_repository(self, repository: RepositoryName) -> None:
        with self._lock:
            for table in (self._out, self._in):
                for key in [key for key in table if key[0] == repository]:
                    del table[key]
