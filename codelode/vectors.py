"""The types of embedding vectors.

They are not in `codelode.model` because importing numpy takes longer than a call of a client.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]  # (dim,), unit length
Vectors = npt.NDArray[np.float32]  # (n, dim), unit length; a zero row: there was no text to embed


def no_vectors() -> Vectors:
    """Return the vectors of no texts."""
    return np.zeros((0, 0), np.float32)
