"""Make a map of the chunks of some repositories: their stored vectors in, positions out.

The work takes one core for seconds to minutes and much memory, so it is done with low priority in a
process that can be killed. The process itself reports its progress, and ends when the map is no
longer wanted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import structlog

from codelode.backends import registry
from codelode.chunk_map import MAX_POINTS, ChunkMap, ChunkVector, MapState, Progress
from codelode.errors import CodelodeError
from codelode.ledger import Catalog
from codelode.model import DEFAULT_REF, RepositoryName, Revision
from codelode.ports import ChunkMaps, Inventory
from codelode.settings import Settings
from workers.confined import Abandoned, Slots, call
from workers.mapping.layout import layout

#: The work takes 2 s of processor time for 4,000 chunks, and 30 s for MAX_POINTS.
TIMEOUT_S = 1_800.0

#: Vectors of MAX_POINTS chunks with 3,072 dimensions take 1.2 GB, and are in memory twice.
MEMORY_BYTES = 8 << 30

#: Low priority, so that the work delays nothing else.
NICENESS = 15

#: Interval of the reports of progress, seconds.
REPORT_S = 1.0

#: Maximum number of maps that a worker makes at once.
_slots = Slots(1)

log = structlog.get_logger("workers")


def make_confined(
    settings: Settings, maps: ChunkMaps, repositories: Sequence[RepositoryName]
) -> None:
    """Make the map in a separate process. If that fails, store the reason."""
    names = tuple(repositories)
    with _slots.taken():
        try:
            call(
                make_with,
                *(settings, names),
                what="the map",
                timeout_s=TIMEOUT_S,
                memory_bytes=MEMORY_BYTES,
            )
        except Abandoned:
            log.info("map_abandoned", repositories=len(names))
        except CodelodeError as exc:
            log.warning("map_failed", repositories=len(names), reason=str(exc))
            maps.report(MapState(names, Progress.FAILED, time.time(), error=str(exc)))


def make_with(settings: Settings, repositories: tuple[RepositoryName, ...]) -> None:
    """Make the map with the backends of the settings. Runs in the process that can be killed."""
    os.nice(NICENESS)
    with closing(registry.inventory(settings)) as inventory:
        make(repositories, inventory, registry.ledger(settings), registry.chunk_maps(settings))


def make(
    repositories: tuple[RepositoryName, ...],
    inventory: Inventory,
    catalog: Catalog,
    maps: ChunkMaps,
    *,
    most: int = MAX_POINTS,
) -> None:
    """Read the vectors, lay them out, and store the map. Raises Abandoned if it is not wanted."""
    began = time.monotonic()
    refs = catalog.refs_of(repositories)
    state = MapState(
        repositories,
        Progress.READING,
        time.time(),
        revisions=tuple((of[0].indexed if of else None) or Revision("") for of in refs),
        chunks=sum(of[0].chunks for of in refs if of),
    )
    _report(maps, state)
    chunks = list(inventory.vectors(repositories, DEFAULT_REF, most=most))
    at = layout(_matrix(chunks), progress=_Reporter(maps, state))
    took_s = time.monotonic() - began
    ready = replace(
        state, progress=Progress.READY, at=time.time(), share=1.0, points=len(chunks), took_s=took_s
    )
    _report(maps, ready, ChunkMap.of(chunks, at).packed())


def _matrix(chunks: Sequence[ChunkVector]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the vectors of the chunks as rows of unit length."""
    if not chunks:
        return np.zeros((0, 0), np.float32)
    found = np.stack([one.vector for one in chunks])
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


class _Reporter:
    """Reports the share of the work that is done, at most once per REPORT_S."""

    def __init__(self, maps: ChunkMaps, state: MapState) -> None:
        self._maps, self._state, self._last = maps, state, 0.0

    def __call__(self, share: float) -> None:
        if time.monotonic() - self._last < REPORT_S:
            return
        self._last = time.monotonic()
        now = replace(self._state, progress=Progress.PLACING, at=time.time(), share=share)
        _report(self._maps, now)


def _report(maps: ChunkMaps, state: MapState, packed: bytes | None = None) -> None:
    if not maps.report(state, packed):
        raise Abandoned("the map is no longer wanted")
