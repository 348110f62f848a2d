"""Scores of candidates, and their ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]  # (candidates,)


def ranks(scores: Sequence[float | None]) -> Scores:
    """The 1-based rank of each score, best first, ties in order; infinite where there is none."""
    given = [place for place, score in enumerate(scores) if score is not None]
    given.sort(key=lambda place: -(scores[place] or 0.0))
    out = np.full(len(scores), np.inf)
    out[given] = np.arange(1, len(given) + 1)
    return out
