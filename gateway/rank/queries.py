"""The rankings of several wordings of one query → one, by reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence

from codelode.fusion import RRF_K
from codelode.model import ChunkId
from gateway.state import Ranked


def merged(rankings: Sequence[Sequence[Ranked]], *, k: int = RRF_K) -> tuple[Ranked, ...]:
    """Each chunk once, by the sum of 1 / (k + rank) over the rankings, ranks 1-based.

    The first ranking is the query's own: it settles ties and gives what it knows of a candidate.
    The parts of a score are what each wording adds: `rank.query`, `rank.alternate_1`, ….
    """
    names = ("rank.query", *(f"rank.alternate_{number}" for number in range(1, len(rankings))))
    places: dict[ChunkId, Ranked] = {}
    parts: dict[ChunkId, list[float]] = {}
    for number, ranking in enumerate(rankings):
        for rank, place in enumerate(ranking, 1):
            id = place.candidate.chunk.id
            places.setdefault(id, place)
            parts.setdefault(id, [0.0] * len(rankings))[number] = 1 / (k + rank)
    scored = [
        place._replace(score=sum(parts[id]), names=names, parts=tuple(parts[id]))
        for id, place in places.items()
    ]
    return tuple(sorted(scored, key=lambda place: -place.score))
