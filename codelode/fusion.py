"""Choose the keyword and vector results to read and rank.

Reading and ranking candidates is most of the cost of a search, and half of the candidates rank far
below the first page. Candidates are chosen by rank, because ranks mean the same in every store
and scores do not: BM25 scores fall faster in a store that scores each field by itself. The effect
of ranking 72 of 150 candidates on quality is measured in `docs/ranking.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

#: Damps the first ranks; the value of Cormack, Clarke and Büttcher, SIGIR 2009.
RRF_K = 60

#: Score penalty per result list for candidates of a secondary category. The first rank of a list
#: scores 1, so a secondary candidate that leads both lists scores as one that leads a single list.
SECONDARY_PENALTY = 0.5

Key = TypeVar("Key")


def shortlist(
    sides: Sequence[Sequence[Key]], limit: int | None, *, is_secondary: Callable[[Key], bool]
) -> list[Key]:
    """Return at most `limit` candidates, those with the best fused ranks; None: all of them.

    Each list is ordered best first. The result is in no particular order.
    """
    scores: defaultdict[Key, float] = defaultdict(float)
    for side in sides:
        for rank, key in enumerate(side, 1):
            scores[key] += (RRF_K + 1) / (RRF_K + rank)
    if limit is None or len(scores) <= limit:
        return list(scores)
    penalty = SECONDARY_PENALTY * sum(map(bool, sides))
    for key in scores:
        if is_secondary(key):
            scores[key] -= penalty
    return sorted(scores, key=scores.__getitem__, reverse=True)[:limit]
