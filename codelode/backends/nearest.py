"""Search for the most similar vector, shared by all semantic query caches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codelode.vectors import Vector


def nearest(vector: Vector, known: Sequence[tuple[str, Vector]]) -> tuple[str, float] | None:
    """Return key and cosine of the most similar vector, the first of equals, or None."""

    if not known:
        return None
    rows = np.stack([other for _, other in known])
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines = rows @ vector / np.where(lengths > 0, lengths, 1)
    best = int(cosines.argmax())
    return known[best][0], float(cosines[best])
