"""Which of some remembered vectors is nearest: the same for every store of queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codelode.model import Vector


def nearest(vector: Vector, known: Sequence[tuple[str, Vector]]) -> tuple[str, float] | None:
    """The key of the nearest vector and its cosine; the first of equal ones. None without any."""
    if not known:
        return None
    rows = np.stack([other for _, other in known])
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines = rows @ vector / np.where(lengths > 0, lengths, 1)
    best = int(cosines.argmax())
    return known[best][0], float(cosines[best])
