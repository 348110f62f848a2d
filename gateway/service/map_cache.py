"""Cache the maps that were read last, because unpacking a large one takes 0.1 s."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from codelode.chunk_map import ChunkMap
from codelode.model import RepositoryName

#: Maximum number of cached maps; each takes up to 4 MB.
MAX_KEPT = 4

#: The repositories of a map, and when it was made.
Key = tuple[tuple[RepositoryName, ...], float]


@dataclass(slots=True)
class KnownMaps:
    """The maps that were read last. Thread-safe."""

    _kept: OrderedDict[Key, ChunkMap] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Key, packed: Callable[[], bytes | None]) -> ChunkMap | None:
        """Return the map, or None if it is gone. `packed` reads it, or returns None."""
        with self._lock:
            if (known := self._kept.get(key)) is not None:
                return known
        if (stored := packed()) is None:
            return None
        found = ChunkMap.unpacked(stored)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found
