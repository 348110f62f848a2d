"""What every chunk store checks before it writes: a bad batch must fail whole, not half written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from codelode.model import FileChunks


def require_distinct(files: Sequence[FileChunks]) -> None:
    """Raise ValueError when a file occurs twice: which of both would be right is not known."""
    places = Counter((file.repository, file.path) for file in files)
    for (repository, path), times in places.items():
        if times > 1:
            raise ValueError(f"{repository}:{path} occurs {times} times in one call")


def require_vectors(files: Sequence[FileChunks], *, dim: int | None) -> None:
    """Raise ValueError unless each chunk has a finite vector, of the dimensions when given."""
    for file in files:
        shape = (len(file.chunks), dim or file.vectors.shape[-1])
        if file.chunks and file.vectors.shape != shape:
            raise ValueError(f"{file.path}: vectors are {file.vectors.shape}, expected {shape}")
        if not np.isfinite(file.vectors).all():
            raise ValueError(f"{file.path}: a vector is not finite")
