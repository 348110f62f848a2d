"""Two rankings → one score, by ranks alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from codelode.fusion import RRF_K

Scores = npt.NDArray[np.float64]  # (candidates,)


def ranks(scores: Sequence[float | None]) -> Scores:
    """The 1-based rank of each score, best first, ties in order; infinite where there is none."""
    given = [place for place, score in enumerate(scores) if score is not None]
    given.sort(key=lambda place: -(scores[place] or 0.0))
    out = np.full(len(scores), np.inf)
    out[given] = np.arange(1, len(given) + 1)
    return out


def fuse(rankings: Sequence[Scores], *, k: int = RRF_K) -> Scores:
    """Score each candidate by reciprocal rank: the sum of 1 / (k + rank), ranks 1-based.

    Uses ranks only, so score scales need not agree. Order of `rankings` does not matter.
    Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    total: Scores = np.sum([1.0 / (k + ranking) for ranking in rankings], axis=0)
    return total
