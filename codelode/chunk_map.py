"""A map of the chunks of some repositories in two dimensions, as it is stored.

A map is made for a set of repositories from their chunks alone, and only callers that see all of
them may read it, so no position depends on what its reader may not see.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from codelode.model import RepositoryName, Revision
from codelode.vectors import Vector

#: Maximum number of repositories and of chunks of a map. More chunks are cut to those with the
#: smallest ids, a random sample because ids are hashes.
MAX_REPOSITORIES = 50
MAX_POINTS = 100_000

#: Maximum number of maps that are kept; a map of MAX_POINTS takes about 2 MB.
MAX_MAPS = 10

#: Seconds without a progress report after which an unfinished map counts as abandoned.
LOST_AFTER_S = 120.0

#: Positions are multiples of 1 / SCALE of the width of the map.
SCALE = 65_535

Codes = npt.NDArray[np.uint32]


class Progress(StrEnum):
    """The progress of a map."""

    WAITING = "waiting"
    READING = "reading vectors"
    PLACING = "placing points"
    READY = "ready"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in (Progress.READY, Progress.FAILED)


@dataclass(frozen=True, slots=True)
class MapState:
    """The state of the map of some repositories."""

    repositories: tuple[RepositoryName, ...]  # in order
    progress: Progress
    at: float  # when it was reported, seconds since the epoch
    share: float = 0.0  # fraction of the work done, 0 to 1
    error: str = ""  # why it failed
    points: int = 0  # of a map that is ready
    chunks: int = 0  # that the repositories had when it was made
    revisions: tuple[Revision, ...] = ()  # that it was made from, one for each repository
    took_s: float = 0.0

    def is_lost(self, now: float) -> bool:
        """Return whether the map is unfinished and nothing was reported for LOST_AFTER_S."""
        return not self.progress.is_over and now - self.at > LOST_AFTER_S


class ChunkVector(NamedTuple):
    """A stored chunk with its vector, and what a map shows of it."""

    id: str
    repository: str
    path: str
    start_line: int
    end_line: int
    language: str
    category: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class MapPlace:
    """The chunk at a point."""

    point: int
    repository: str
    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """The points of a map, and the chunks at them. Codes are positions in the tuples of names."""

    repositories: tuple[str, ...]
    languages: tuple[str, ...]
    categories: tuple[str, ...]
    paths: tuple[str, ...]
    points: npt.NDArray[np.uint16]  # (n, 5): x, y, codes of repository, language, and category
    places: Codes  # (n, 3): code of the path, first and last line

    @classmethod
    def of(cls, chunks: Sequence[ChunkVector], at: npt.NDArray[np.float32]) -> ChunkMap:
        """Return the map with the chunks at these positions, which are scaled to its width."""
        repositories, of_repository = _coded(one.repository for one in chunks)
        languages, of_language = _coded(one.language for one in chunks)
        categories, of_category = _coded(one.category for one in chunks)
        paths, of_path = _coded(one.path for one in chunks)
        lines = np.array([[one.start_line, one.end_line] for one in chunks], np.uint32)
        codes = np.stack([of_repository, of_language, of_category], axis=1)
        points = np.concatenate([_scaled(at), codes.astype(np.uint16)], axis=1)
        places = np.concatenate([of_path[:, None], lines.reshape(-1, 2)], axis=1)
        return cls(repositories, languages, categories, paths, points, places.astype(np.uint32))

    def place(self, point: int) -> MapPlace:
        """Return the chunk at a point; points are numbered from 0."""
        path, start, end = self.places[point].tolist()
        repository = self.repositories[self.points[point, 2]]
        return MapPlace(point, repository, self.paths[path], start, end)

    def packed(self) -> bytes:
        """Return the map as compressed bytes."""
        names = [self.repositories, self.languages, self.categories, self.paths]
        text = np.frombuffer(json.dumps(names).encode(), np.uint8)
        out = io.BytesIO()
        np.savez_compressed(out, names=text, points=self.points, places=self.places)
        return out.getvalue()

    @classmethod
    def unpacked(cls, packed: bytes) -> ChunkMap:
        """Return the map from the bytes that `packed` returned."""
        with np.load(io.BytesIO(packed), allow_pickle=False) as found:
            repositories, languages, categories, paths = json.loads(found["names"].tobytes())
            return cls(
                *(tuple(repositories), tuple(languages), tuple(categories), tuple(paths)),
                points=found["points"],
                places=found["places"],
            )


def _coded(names: Iterable[str]) -> tuple[tuple[str, ...], Codes]:
    """Return the distinct names, most frequent first, and the code of each given name."""
    found, codes, counts = np.unique(list(names), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order))
    return tuple(found[order].tolist()), rank[codes] if len(order) else np.zeros(0, np.uint32)


def _scaled(at: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Scale the positions to 0 … SCALE by one factor for both axes, and centre them."""
    if not len(at):
        return np.zeros((0, 2), np.uint16)
    low, high = at.min(axis=0), at.max(axis=0)
    width = max(float((high - low).max()), 1e-9)
    inside = (at - (low + high) / 2) / width + 0.5
    found: npt.NDArray[np.uint16] = np.rint(inside * SCALE).astype(np.uint16)
    return found
