"""Rank by scores fused from the keyword and vector results, with a boost for definitions. Pure.

The boost multiplies the score of a chunk that defines a name of the query, whichever search found
it. Equal scores are ordered by keyword score, because keywords match the words as written.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from codelode.fusion import RRF_K
from codelode.model import Candidate, Chunk, ChunkId
from codelode.names import is_constructor, spelling
from gateway.options import Fusion
from gateway.rank.query_group import Scores
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
    """Return the candidates, best first. If `alpha` is None, the kind of the query decides it."""
    if not candidates:
        return ()
    names = {spelling(name) for name in analysis.identifiers}
    fused = score(candidates, fusion=fusion, alpha=analysis.alpha(alpha))
    boosts = [1 + (boost - 1) * _defines(one.chunk, names) for one in candidates]
    entries = [
        Ranked(candidate, float(value * factor), NAMES, (float(value), float(factor)))
        for candidate, value, factor in zip(candidates, fused, boosts, strict=True)
    ]
    return tuple(sorted(entries, key=_best_first))


def score(candidates: Sequence[Candidate], *, fusion: Fusion, alpha: float) -> Scores:
    """Fuse both scores: vector scores have the weight `alpha`, keyword scores `1 - alpha`."""
    sides = (
        (alpha, [candidate.similarity for candidate in candidates]),
        (1 - alpha, [candidate.keyword_score for candidate in candidates]),
    )
    one_side = _relative if fusion is Fusion.RELATIVE else _reciprocal
    total: Scores = np.sum([weight * one_side(scores) for weight, scores in sides], axis=0)
    return total


def merged(rankings: Sequence[Sequence[Ranked]], *, k: int = RRF_K) -> tuple[Ranked, ...]:
    """Merge the rankings of several wordings of a query by reciprocal rank.

    The score of a chunk is the sum of 1 / (k + rank) over the rankings, ranks 1-based. The first
    ranking is that of the query as written: it decides ties, and its candidates are kept. The parts
    of a score are the contributions of the wordings: `rank.query`, `rank.alternate_1`, ….
    """
    names = ("rank.query", *(f"rank.alternate_{number}" for number in range(1, len(rankings))))
    entries: dict[ChunkId, Ranked] = {}
    parts: dict[ChunkId, list[float]] = {}
    for number, ranking in enumerate(rankings):
        for rank, entry in enumerate(ranking, 1):
            id = entry.candidate.chunk.id
            entries.setdefault(id, entry)
            parts.setdefault(id, [0.0] * len(rankings))[number] = 1 / (k + rank)
    scored = [
        entry._replace(score=sum(parts[id]), names=names, parts=tuple(parts[id]))
        for id, entry in entries.items()
    ]
    return tuple(sorted(scored, key=lambda entry: -entry.score))


def by_similarity(candidates: Sequence[Candidate]) -> tuple[Ranked, ...]:
    """Rank by cosine alone, most similar first; candidates without a cosine are left out."""
    entries = [
        Ranked(candidate, candidate.similarity, ("rank.similarity",), (candidate.similarity,))
        for candidate in candidates
        if candidate.similarity is not None
    ]
    return tuple(sorted(entries, key=lambda entry: -entry.score))


def ranks(scores: Sequence[float | None]) -> Scores:
    """Return the 1-based rank of each score, ties in order; infinity where there is no score."""
    given = [at for at, score in enumerate(scores) if score is not None]
    given.sort(key=lambda at: -(scores[at] or 0.0))
    out = np.full(len(scores), np.inf)
    out[given] = np.arange(1, len(given) + 1)
    return out


def _reciprocal(scores: Sequence[float | None]) -> Scores:
    """Return 1 / (k + rank) for each score; 0 where there is none."""
    reciprocal: Scores = 1.0 / (RRF_K + ranks(scores))
    return reciprocal


def _relative(scores: Sequence[float | None]) -> Scores:
    """Scale the scores so that the best is 1 and the worst 0; 0 where there is none."""
    given = [score for score in scores if score is not None]
    if not given:
        return np.zeros(len(scores))
    low, span = min(given), (max(given) - min(given)) or 1.0
    if min(given) == max(given):
        low -= 1.0
    return np.array([0.0 if score is None else (score - low) / span for score in scores])


def _defines(chunk: Chunk, names: Set[str]) -> float:
    """Return 1 if one of the names is the chunk's main definition, ½ if it is another one in it.

    A constructor has the name of its class but counts ½: a query for the name means the class.
    """
    if chunk.symbol and spelling(chunk.symbol) in names:
        return 0.5 if is_constructor(chunk.symbol) else 1.0
    return 0.5 if any(spelling(name) in names for name in chunk.symbols) else 0.0


def _best_first(entry: Ranked) -> tuple[float, float, str, str, int, str]:
    candidate, chunk = entry.candidate, entry.candidate.chunk
    keyword = candidate.keyword_score or 0.0
    return (-entry.score, -keyword, chunk.repository, chunk.path, chunk.start_line, chunk.id)
