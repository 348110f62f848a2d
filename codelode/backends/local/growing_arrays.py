"""Arrays to which rows are appended, while views of them that were handed out never change."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from codelode.backends.local.coarse_vectors import CoarseVectors
from codelode.backends.local.column_table import Positions, at_positions
from codelode.backends.local.dictionary import Mask
from codelode.backends.local.shared_vectors import SharedVectors

#: Number of vectors that are compared at once.
_ROWS_PER_COMPARISON = 4_096

Item = TypeVar("Item", bound=np.generic)


class GrowingArray(Generic[Item]):
    """An array with spare capacity at its end. `items` that were handed out never change."""

    def __init__(self, items: npt.NDArray[Item]) -> None:
        self._held = items
        self._count = len(items)

    @property
    def items(self) -> npt.NDArray[Item]:
        return self._held[: self._count]

    def extend(self, more: npt.NDArray[Item]) -> None:
        count = self._count + len(more)
        if count > len(self._held):
            self._held = self._copy(count + count // 4)
        self._held[self._count : count] = more
        self._count = count

    def change(self, positions: Positions, values: Any) -> None:
        """Set the items at these positions in a copy of the array."""
        if len(positions):
            self._held = self._copy(len(self._held))
            self._held[positions] = values

    def keep(self, mask: Mask) -> None:
        """Remove all items but those in the mask."""
        self._held = self.items[mask]
        self._count = len(self._held)

    def spread(self, kept: Positions, positions: Positions, count: int) -> None:
        """Move the items at `kept` to `positions` of an array of `count` items; fill with zeros."""
        held = np.zeros((count, *self._held.shape[1:]), self._held.dtype)
        held[positions] = self.items[kept]
        self._held, self._count = held, count

    def _copy(self, capacity: int) -> npt.NDArray[Item]:
        held = np.empty((capacity, *self._held.shape[1:]), self._held.dtype)
        held[: self._count] = self.items
        return held


class VectorColumn:
    """The vectors of all rows: those of the first rows may be in the file that readers share."""

    def __init__(self, dim: int) -> None:
        self._shared = np.zeros((0, dim), np.int8)
        self.coarse: CoarseVectors | None = None  # the codes of the shared ones, if there are many
        self._own = GrowingArray(np.zeros((0, dim), np.int8))

    @property
    def parts(self) -> tuple[npt.NDArray[np.int8], ...]:
        """Return the vectors in the order of the rows; arrays handed out before never change."""
        return tuple(part for part in (self._shared, self._own.items) if len(part))

    def extend(self, more: npt.NDArray[np.int8]) -> None:
        self._own.extend(more)

    def keep(self, mask: Mask) -> None:
        """Keep only the vectors of the rows in the mask, all in memory: stop using the file."""
        count = len(self._shared)
        kept = [self._shared[mask[:count]], self._own.items[mask[count:]]]
        self._shared, self._own = self._shared[:0], GrowingArray(np.concatenate(kept))
        self.coarse = None

    def share(self, found: SharedVectors, kept: Positions, positions: Positions) -> bool:
        """Use the vectors of the shared file for the first rows; return whether that was done.

        The vectors at `kept` move to `positions`, of which those below `len(found.vectors)` are in
        the file. Nothing changes if the file has another vector there.
        """
        vectors = found.vectors
        count = int(np.searchsorted(positions, len(vectors)))
        for start in range(0, count, _ROWS_PER_COMPARISON):
            some = slice(start, min(start + _ROWS_PER_COMPARISON, count))
            own = np.concatenate(at_positions(self.parts, kept[some]))
            if not np.array_equal(vectors[positions[some]], own):
                return False
        later = at_positions((self._shared, self._own.items), kept[count:])
        self._shared, self._own = vectors, GrowingArray(np.concatenate(later))
        self.coarse = CoarseVectors(found.codes) if found.codes else None
        return True
