"""Find vectors that are probably near a query, by codes of 4 bits for each two dimensions.

The codes are those of a product quantizer. FAISS compares 32 of them at once, with lookup tables in
registers (André, Kermarrec, and Le Scouarnec, "Cache locality is not enough", VLDB 2015), so that a
query reads a quarter of the memory of the 8-bit vectors. What it finds has to be compared with
these again.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from codelode.vectors import Vector, Vectors

if TYPE_CHECKING:
    from types import ModuleType

#: Minimum number of vectors that get codes; fewer are compared one by one in 1 ms.
MIN_ROWS = 1 << 15

#: Dimensions per code.
_WIDTH = 2
_CODE_BITS = 4

#: Number of vectors from which the centroids are computed, and of iterations of k-means.
_SAMPLE = 4_096
_ITERATIONS = 4

_ROWS_PER_STEP = 8_192


class CoarseVectors:
    """The codes of vectors, in memory. Safe to share between threads."""

    def __init__(self, stored: bytes | memoryview) -> None:
        self._index: Any = _faiss().deserialize_index(np.frombuffer(stored, np.uint8))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def near(self, query: Vector, count: int) -> npt.NDArray[np.intp]:
        """Return the positions of about `count` vectors that are probably near, ascending."""
        _, found = self._index.search(query[None].astype(np.float32), min(count, len(self)))
        return np.sort(found[0][found[0] >= 0])


def made(file: Path, *, offset: int, shape: tuple[int, int]) -> bytes:
    """Return the codes of the 8-bit vectors in the file, to be stored; empty if there are few.

    `shape`: the number of vectors, and their dimensions.
    """
    rows, dim = shape
    if rows < MIN_ROWS or dim % _WIDTH:
        return b""
    vectors = np.memmap(file, np.int8, "r", offset, shape)
    faiss = _faiss()
    # Several threads save no time here, and wait actively while others use the cores.
    faiss.omp_set_num_threads(1)
    index = faiss.IndexPQFastScan(dim, dim // _WIDTH, _CODE_BITS, faiss.METRIC_INNER_PRODUCT)
    index.pq.cp.niter = _ITERATIONS
    index.train(_unit(vectors[:: max(1, rows // _SAMPLE)]))
    for start in range(0, rows, _ROWS_PER_STEP):
        index.add(_unit(vectors[start : start + _ROWS_PER_STEP]))
    return bytes(faiss.serialize_index(index))


@cache
def _faiss() -> ModuleType:
    """Import FAISS, which takes 0.4 s, only where an index is large enough to need it."""
    logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # logs each variant that it tries
    import faiss

    module: ModuleType = faiss
    return module


def _unit(vectors: npt.NDArray[np.int8]) -> Vectors:
    """Return the vectors with length 1; zeros stay zeros."""
    floats = vectors.astype(np.float32)
    lengths = np.linalg.norm(floats, axis=1, keepdims=True)
    unit: Vectors = floats / np.maximum(lengths, 1)  # lengths are 0 or at least 1
    return unit
