"""Checks of a batch that every chunk store makes before it writes any part of the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from codelode.model import FileChunks


def require_distinct(files: Sequence[FileChunks]) -> None:
    """Raise ValueError if a file occurs twice: it is unknown which one is right."""
    keys = Counter((file.repository, file.path) for file in files)
    for (repository, path), times in keys.items():
        if times > 1:
            raise ValueError(f"{repository}:{path} occurs {times} times in one call")


def require_vectors(files: Sequence[FileChunks], *, dim: int | None) -> None:
    """Raise ValueError unless each chunk has a finite vector, with `dim` dimensions if given."""

    for file in files:
        shape = (len(file.chunks), dim or file.vectors.shape[-1])
        if file.chunks and file.vectors.shape != shape:
            raise ValueError(f"{file.path}: vectors are {file.vectors.shape}, expected {shape}")
        if not np.isfinite(file.vectors).all():
            raise ValueError(f"{file.path}: a vector is not finite")
