"""Keep the dependency graph in dictionaries."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from codelode.graph import in_order, outgoing_edges
from codelode.model import Edge, RefName, RepositoryName

_Key = tuple[RepositoryName, RefName, str]  # the last part is a path


class MemoryGraph:
    """Implements the port DependencyGraph."""

    def __init__(self) -> None:
        self._out: dict[_Key, tuple[Edge, ...]] = {}
        self._in: defaultdict[_Key, set[Edge]] = defaultdict(set)
        self._lock = threading.Lock()

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        edges: Mapping[str, Sequence[Edge]],
    ) -> None:
        for path, starting in edges.items():
            ordered = outgoing_edges(path, starting)
            with self._lock:
                for ref in refs:
                    self._replace(repository, ref, path, ordered)

    def _replace(
        self, repository: RepositoryName, ref: RefName, path: str, ordered: tuple[Edge, ...]
    ) -> None:
        for edge in self._out.pop((repository, ref, path), ()):
            self._in[repository, ref, edge.target].discard(edge)
        if ordered:
            self._out[repository, ref, path] = ordered
        for edge in ordered:
            if not edge.is_external:
                self._in[repository, ref, edge.target].add(edge)

    def outgoing(
        self,
        repository: RepositoryName,
        ref: RefName,
        paths: Sequence[str],
        *,
        limit_per_path: int | None = None,
    ) -> Mapping[str, tuple[Edge, ...]]:
        with self._lock:
            return {
                path: self._out.get((repository, ref, path), ())[:limit_per_path] for path in paths
            }

    def incoming(
        self,
        repository: RepositoryName,
        ref: RefName,
        paths: Sequence[str],
        *,
        limit_per_path: int | None = None,
    ) -> Mapping[str, tuple[Edge, ...]]:
        with self._lock:
            return {
                path: in_order(self._in.get((repository, ref, path), ()))[:limit_per_path]
                for path in paths
            }

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        self._remove(repository, ref)

    def remove_repository(self, repository: RepositoryName) -> None:
        self._remove(repository)

    def _remove(self, *start: str) -> None:
        with self._lock:
            for table in (self._out, self._in):
                for key in [key for key in table if key[: len(start)] == start]:
                    del table[key]
