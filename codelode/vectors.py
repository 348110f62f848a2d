"""The types of embedding vectors.

They are apart from `codelode.model` because numpy takes longer to import than a client's call.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]  # (dim,), unit length
Vectors = npt.NDArray[np.float32]  # (n, dim), unit length; a zero row: there was no text to embed


def no_vectors() -> Vectors:
    """Return the vectors of no texts."""
    return np.zeros((0, 0), np.float32)
