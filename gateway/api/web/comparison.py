"""Compare the results of two searches: where each hit of one is among the hits of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.api.web.results import ShownHit, shown_hit
from gateway.service.results import Hit, SearchAnswer

#: Number of lines of a hit that are shown before and after the one that matches best.
CONTEXT_LINES = 1


@dataclass(frozen=True, slots=True)
class ComparedHit:
    """A hit, and its rank in the other results; 0 if they do not have it."""

    shown: ShownHit
    other: int

    @property
    def climbed(self) -> int:
        """Return by how many ranks the hit is above its rank in the other results."""
        return self.other - self.shown.rank if self.other else 0


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of hits that both results have, and that only one of them has."""

    both: int
    moved: int  # hits that both have, at different ranks
    only_first: int
    only_second: int


def compared(answer: SearchAnswer, other: SearchAnswer, query: str) -> tuple[ComparedHit, ...]:
    """Return the hits of the answer with their ranks in the other one."""
    ranks = {place: rank for rank, place in enumerate(_places(other.hits), 1)}
    ranked = enumerate(zip(answer.hits, _places(answer.hits), strict=True), 1)
    return tuple(
        ComparedHit(
            shown_hit(hit, rank, query, answer.ref, context=CONTEXT_LINES), ranks.get(place, 0)
        )
        for rank, (hit, place) in ranked
    )


def counts(first: Sequence[ComparedHit], second: Sequence[ComparedHit]) -> Counts:
    return Counts(
        both=sum(1 for one in second if one.other),
        moved=sum(1 for one in second if one.climbed),
        only_first=sum(1 for one in first if not one.other),
        only_second=sum(1 for one in second if not one.other),
    )


def _places(hits: Sequence[Hit]) -> Iterator[tuple[object, ...]]:
    """Yield the identity of each hit: its lines, and how many hits before it have the same."""
    before: Counter[tuple[object, ...]] = Counter()
    for hit in hits:
        lines = hit.repository, hit.path, hit.start_line, hit.end_line, hit.content
        yield (*lines, before[lines])  # a long line may have many equal chunks
        before[lines] += 1
