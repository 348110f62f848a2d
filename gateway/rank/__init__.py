"""Candidates → a ranking, best first, each place with the parts of its score.

The ranker is linear over a few named features, because such a score can be read, explained and
fitted without over-fitting: boosted trees over the same features did worse on repositories they
had not seen. What the features are is in `features`, what they weigh in `weights`. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from codelode.model import Candidate
from gateway.rank.order import order
from gateway.rank.scene import Scene
from gateway.rank.scores import Scores
from gateway.rank.weights import SAME_FILE, WEIGHTS
from gateway.state import Analysis, Backends, Ranked, SearchState

Parts = npt.NDArray[np.float64]  # (candidates, parts): what each part adds to the score

#: The names of the parts, in order.
PARTS = (*(f"rank.{feature.__name__}" for feature in WEIGHTS), "rank.same_file")


async def rank(state: SearchState, backends: Backends) -> SearchState:
    """Adds the ranking of the candidates."""
    return await order(state, backends, linear=ranked)


def ranked(analysis: Analysis, candidates: Sequence[Candidate]) -> tuple[Ranked, ...]:
    """The candidates, best first; equal scores in the order of their places in the code."""
    if not candidates:
        return ()
    ordered = sorted(candidates, key=_place)
    scene = Scene(analysis, ordered)
    weighed = np.stack([weight * feature(scene) for feature, weight in WEIGHTS.items()], axis=1)
    parts = np.column_stack([weighed, same_file(weighed.sum(axis=1), scene.files)])
    scores = parts.sum(axis=1)
    rows = parts.tolist()
    return tuple(
        Ranked(ordered[place], float(scores[place]), PARTS, tuple(rows[place]))
        for place in _best_first(scores).tolist()
    )


def same_file(scores: Scores, files: npt.NDArray[np.int64]) -> Scores:
    """What to add to each score for the better candidates of its file, so that no file fills
    the list. `files`: the number of each candidate's file.
    """
    better: Counter[int] = Counter()
    numbers = files.tolist()
    added = np.zeros(len(scores))
    for place in _best_first(scores).tolist():
        added[place] = SAME_FILE * better[numbers[place]]
        better[numbers[place]] += 1
    return added


def _place(candidate: Candidate) -> tuple[str, str, int, str]:
    chunk = candidate.chunk
    return chunk.repository, chunk.path, chunk.start_line, chunk.id


def _best_first(scores: Scores) -> npt.NDArray[np.int64]:
    return np.argsort(-scores, kind="stable")
