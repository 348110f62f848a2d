"""The fused score of both sides of the index, with the definition boost: the classic hybrid.

The boost multiplies by what the chunk defines, whichever side found it. Equal scores are settled by
the keyword side, which knows the words that were written.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from codelode.fusion import RRF_K
from codelode.model import Candidate, Chunk
from codelode.names import is_constructor, spelling
from gateway.options import Fusion
from gateway.rank.scores import Scores, ranks
from gateway.state import Analysis, Ranked

NAMES = ("rank.fused", "rank.boost.definition")


def ranked(
    analysis: Analysis,
    candidates: Sequence[Candidate],
    *,
    fusion: Fusion = Fusion.RRF,
    alpha: float | None = None,
    boost: float = 2.0,
) -> tuple[Ranked, ...]:
    """The candidates, best first; `alpha` None: by the kind of the query."""
    if not candidates:
        return ()
    names = {spelling(name) for name in analysis.identifiers}
    fused = score(candidates, fusion=fusion, alpha=analysis.alpha(alpha))
    boosts = [1 + (boost - 1) * _defines(one.chunk, names) for one in candidates]
    places = [
        Ranked(candidate, float(value * factor), NAMES, (float(value), float(factor)))
        for candidate, value, factor in zip(candidates, fused, boosts, strict=True)
    ]
    return tuple(sorted(places, key=_best_first))


def score(candidates: Sequence[Candidate], *, fusion: Fusion, alpha: float) -> Scores:
    """`alpha` of the vector side and the rest of the keyword side."""
    sides = (
        (alpha, [candidate.similarity for candidate in candidates]),
        (1 - alpha, [candidate.keyword_score for candidate in candidates]),
    )
    one_side = _relative if fusion is Fusion.RELATIVE else _reciprocal
    total: Scores = np.sum([weight * one_side(scores) for weight, scores in sides], axis=0)
    return total


def _reciprocal(scores: Sequence[float | None]) -> Scores:
    """1 / (k + rank); 0 where the side did not find it."""
    reciprocal: Scores = 1.0 / (RRF_K + ranks(scores))
    return reciprocal


def _relative(scores: Sequence[float | None]) -> Scores:
    """Scaled so that the side's best is 1 and its worst 0, as is what it did not find."""
    given = [score for score in scores if score is not None]
    if not given:
        return np.zeros(len(scores))
    low, span = min(given), (max(given) - min(given)) or 1.0
    if min(given) == max(given):
        low -= 1.0
    return np.array([0.0 if score is None else (score - low) / span for score in scores])


def _defines(chunk: Chunk, names: Set[str]) -> float:
    """1 where it mainly defines one of the names, ½ where it does beside others.

    A constructor has the name of its class and is not what is asked for by it.
    """
    if chunk.symbol and spelling(chunk.symbol) in names:
        return 0.5 if is_constructor(chunk.symbol) else 1.0
    return 0.5 if any(spelling(name) in names for name in chunk.symbols) else 0.0


def _best_first(place: Ranked) -> tuple[float, float, str, str, int, str]:
    candidate, chunk = place.candidate, place.candidate.chunk
    keyword = candidate.keyword_score or 0.0
    return (-place.score, -keyword, chunk.repository, chunk.path, chunk.start_line, chunk.id)
