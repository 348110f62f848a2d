"""Keep the maps of chunks in dictionaries of one process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from codelode.chunk_map import MAX_MAPS, MapState
from codelode.model import RepositoryName


class MemoryChunkMaps:
    """Implements the port ChunkMaps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[tuple[RepositoryName, ...], MapState] = {}
        self._packed: dict[tuple[RepositoryName, ...], bytes] = {}
        self._made_at: dict[tuple[RepositoryName, ...], float] = {}

    def begin(self, state: MapState) -> bool:
        with self._lock:
            known = self._states.get(state.repositories)
            if known and not known.progress.is_over and not known.is_lost(state.at):
                return False
            self._states[state.repositories] = state
            return True

    def report(self, state: MapState, packed: bytes | None = None) -> bool:
        with self._lock:
            known = self._states.get(state.repositories)
            if known is None or known.progress.is_over:
                return False
            self._states[state.repositories] = state
            if packed is not None:
                self._packed[state.repositories] = packed
                self._made_at[state.repositories] = state.at
                self._drop_oldest()
            return True

    def states(self) -> tuple[MapState, ...]:
        with self._lock:
            return tuple(sorted(self._states.values(), key=lambda one: -one.at))

    def made_at(self, repositories: Sequence[RepositoryName]) -> float | None:
        with self._lock:
            return self._made_at.get(tuple(repositories))

    def packed(self, repositories: Sequence[RepositoryName]) -> bytes | None:
        with self._lock:
            return self._packed.get(tuple(repositories))

    def remove_repository(self, name: RepositoryName) -> None:
        with self._lock:
            for repositories in [one for one in self._states if name in one]:
                self._drop(repositories)

    def _drop_oldest(self) -> None:
        over = sorted(
            (one for one in self._states.values() if one.progress.is_over), key=lambda one: -one.at
        )
        for one in over[MAX_MAPS:]:
            self._drop(one.repositories)

    def _drop(self, repositories: tuple[RepositoryName, ...]) -> None:
        self._states.pop(repositories, None)
        self._packed.pop(repositories, None)
        self._made_at.pop(repositories, None)
