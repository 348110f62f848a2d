"""Maps of chunks in two dimensions, read from the messages of SearchService."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import iter_unpack

from codelode.client.reading import value
from codelode.reports import MapStatus
from codelode.v1 import search_pb2


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A point of a map, from (0, 0) to (1, 1)."""

    x: float
    y: float
    repository: str
    language: str
    category: str


@dataclass(frozen=True, slots=True)
class MapPlace:
    """The chunk at a point."""

    point: int  # its index in `ChunkMap.points`
    repository: str
    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """The map of some repositories, and the other maps that exist."""

    repositories: tuple[str, ...]
    status: MapStatus | None  # None: it was never requested
    expected_s: float  # time that a worker takes for the map
    maps: tuple[MapStatus, ...]
    points: tuple[MapPoint, ...]  # of the newest map of these repositories


def chunk_map(message: search_pb2.GetMapResponse) -> ChunkMap:
    return value(ChunkMap, message, points=tuple(_points(message)))


def _points(message: search_pb2.GetMapResponse) -> Iterator[MapPoint]:
    for x, y, repository, language, category in iter_unpack("<5H", message.points):
        yield MapPoint(
            x / 65_535,
            y / 65_535,
            message.point_repositories[repository],
            message.languages[language],
            message.categories[category],
        )
