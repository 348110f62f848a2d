"""Keep the stage outputs in a dictionary."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from codelode.model import RunId


class MemoryStageOutputs:
    """Implements the port StageOutputs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[tuple[RunId, str], dict[str, bytes]] = {}

    def put(self, run: RunId, parts: Mapping[str, Mapping[str, bytes]]) -> None:
        with self._lock:
            for path, values in parts.items():
                self._parts.setdefault((run, path), {}).update(values)

    def get(
        self, run: RunId, paths: Sequence[str], parts: Sequence[str]
    ) -> tuple[Mapping[str, bytes], ...]:
        with self._lock:
            found = [self._parts.get((run, path), {}) for path in paths]
            return tuple({part: one[part] for part in parts if part in one} for one in found)

    def drop(self, run: RunId, paths: Sequence[str]) -> None:
        with self._lock:
            for path in paths:
                self._parts.pop((run, path), None)
