"""Rank candidates by the weighted sum of named features. Pure.

The ranker is linear over a few features because such a score can be explained and does not
overfit: boosted trees over the same features did worse on repositories that they were not trained
on. `features` computes the features, `weights` defines their weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from codelode.model import Candidate
from gateway.rank.query_group import QueryGroup, Scores
from gateway.rank.weights import SAME_FILE, WEIGHTS
from gateway.state import Analysis, Ranked

#: The names of the parts of a score, in order.
PARTS = (*(f"rank.{feature.__name__}" for feature in WEIGHTS), "rank.same_file")

_WEIGHTS = np.array(list(WEIGHTS.values()))


def ranked(analysis: Analysis, candidates: Sequence[Candidate]) -> tuple[Ranked, ...]:
    """Return the candidates, best first; equal scores by repository, path, and line."""
    if not candidates:
        return ()
    ordered = sorted(candidates, key=_location)
    group = QueryGroup(analysis, ordered)
    parts = np.zeros((len(ordered), len(PARTS)))
    parts[:, :-1] = np.array([feature(group) for feature in WEIGHTS]).T * _WEIGHTS
    parts[:, -1] = same_file(parts[:, :-1].sum(axis=1), group.files)
    found = parts.sum(axis=1)
    scores = found.tolist()
    # Views, because the parts of most candidates are never read and would be 2,000 objects.
    rows = parts.ravel().data
    width = len(PARTS)
    return tuple(
        Ranked(ordered[at], scores[at], PARTS, rows[at * width : (at + 1) * width])
        for at in _best_first(found).tolist()
    )


def same_file(scores: Scores, files: npt.NDArray[np.int64]) -> Scores:
    """Return the penalty of each candidate for the better-ranked candidates of its file.

    Without it, one file could fill the list. `files`: the number of each candidate's file.
    """
    by_file = np.lexsort((-scores, files))
    grouped = files[by_file]
    better = np.arange(len(grouped)) - np.searchsorted(grouped, grouped)
    penalties = np.zeros(len(scores))
    penalties[by_file] = SAME_FILE * better
    return penalties


def _location(candidate: Candidate) -> tuple[str, str, int, str]:
    chunk = candidate.chunk
    return chunk.repository, chunk.path, chunk.start_line, chunk.id


def _best_first(scores: Scores) -> npt.NDArray[np.int64]:
    return np.argsort(-scores, kind="stable")
