"""Rank candidates by the weighted sum of named features. Pure.

The ranker is linear over a few features because such a score can be explained, and fitted without
over-fitting: boosted trees over the same features did worse on repositories that they were not
trained on. `features` computes the features, `weights` holds their fitted weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from codelode.model import Candidate
from gateway.rank.query_group import QueryGroup, Scores
from gateway.rank.weights import SAME_FILE, WEIGHTS
from gateway.state import Analysis, Ranked

#: The names of the parts of a score, in order.
PARTS = (*(f"rank.{feature.__name__}" for feature in WEIGHTS), "rank.same_file")


def ranked(analysis: Analysis, candidates: Sequence[Candidate]) -> tuple[Ranked, ...]:
    """Return the candidates, best first; equal scores by repository, path and line."""
    if not candidates:
        return ()
    ordered = sorted(candidates, key=_location)
    group = QueryGroup(analysis, ordered)
    weighed = np.stack([weight * feature(group) for feature, weight in WEIGHTS.items()], axis=1)
    parts = np.column_stack([weighed, same_file(weighed.sum(axis=1), group.files)])
    scores = parts.sum(axis=1)
    rows = parts.tolist()
    return tuple(
        Ranked(ordered[at], float(scores[at]), PARTS, tuple(rows[at]))
        for at in _best_first(scores).tolist()
    )


def same_file(scores: Scores, files: npt.NDArray[np.int64]) -> Scores:
    """Return the penalty of each candidate for the better-ranked candidates of its file.

    Without it one file fills the list. `files`: the number of each candidate's file.
    """
    better: Counter[int] = Counter()
    numbers = files.tolist()
    penalties = np.zeros(len(scores))
    for at in _best_first(scores).tolist():
        penalties[at] = SAME_FILE * better[numbers[at]]
        better[numbers[at]] += 1
    return penalties


def _location(candidate: Candidate) -> tuple[str, str, int, str]:
    chunk = candidate.chunk
    return chunk.repository, chunk.path, chunk.start_line, chunk.id


def _best_first(scores: Scores) -> npt.NDArray[np.int64]:
    return np.argsort(-scores, kind="stable")
