"""Which of the candidates that two sides found are worth reading, where not all are wanted.

Reading a candidate and ranking it is most of what a search costs, and half of those found never
come near the first page. They are chosen by ranks, which mean the same in every store; scores do
not: BM25 falls off faster where fields are scored apart. What 72 of 150 cost is in
`docs/ranking.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

#: Damps the first ranks; the value of Cormack, Clarke and Büttcher, SIGIR 2009.
RRF_K = 60

#: Of 1, which the best of a side gets, what something secondary loses for each side there is: the
#: best of both stands beside the best of one.
HELD_BACK = 0.5

Key = TypeVar("Key")


def shortlist(
    sides: Sequence[Sequence[Key]], most: int | None, *, is_secondary: Callable[[Key], bool]
) -> list[Key]:
    """At most `most` of what the sides hold, each of them best first; None: all of it."""
    scores: defaultdict[Key, float] = defaultdict(float)
    for side in sides:
        for rank, key in enumerate(side, 1):
            scores[key] += (RRF_K + 1) / (RRF_K + rank)
    if most is None or len(scores) <= most:
        return list(scores)
    loss = HELD_BACK * sum(map(bool, sides))
    for key in scores:
        if is_secondary(key):
            scores[key] -= loss
    return sorted(scores, key=scores.__getitem__, reverse=True)[:most]
