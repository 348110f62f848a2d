"""Load columns from the database incrementally: new rows, deleted rows, and changed refs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import structlog

from codelode.backends.local import shared_vectors
from codelode.backends.local.column_table import ENCODED, ColumnTable, Dictionaries, at_positions
from codelode.backends.local.database import State
from codelode.backends.local.dictionary import Mask

#: Fraction of deleted rows above which they are removed.
MAX_DELETED = 1 / 3

#: Rows read at once: the first load must not hold all of them as Python objects.
_ROWS_PER_READ = 4_096

_log = structlog.get_logger(__name__)

_NEW_ROWS = (
    "SELECT row, file, refs, language, category, kind, names, vector FROM chunks "
    "WHERE row > ? ORDER BY row"
)
_CHANGES = "SELECT row, is_gone FROM changes WHERE seq > ?"
_REFS = "SELECT row, refs FROM chunks WHERE row IN (SELECT value FROM json_each(?))"
_NEW_FILES = "SELECT file, repository, path FROM files WHERE file > ? ORDER BY file"


class ColumnLoader:
    """Builds each snapshot from the previous one. For one thread at a time."""

    def __init__(self, folder: Path, *, dim: int) -> None:
        self._folder = folder
        self._dim = dim
        self.columns: ColumnTable | None = None
        self._start()

    def load(self, connection: sqlite3.Connection, state: State) -> ColumnTable:
        """Return the snapshot of the state that the connection's open transaction sees."""
        before = self.columns
        if before is not None and before.state.version == state.version:
            return before
        if before is not None and state.first_change > before.state.last_change + 1:
            self._start()  # changes in between were dropped from the log
            before = None
        if before is not None:
            self._mark_changes(connection, before.state.last_change)
        self._read_files(connection)
        self._read_rows(connection)
        self._compact()
        self._share(state)
        self.columns = self._snapshot(state)
        return self.columns

    def _start(self) -> None:
        self._dictionaries = Dictionaries()
        self._files = np.zeros((1, 2), np.int32)  # by file number: codes of repository and path
        self._last_row = 0
        self._rows = GrowingArray(np.zeros(0, np.int64))
        self._codes = {name: GrowingArray(np.zeros(0, np.int32)) for name in ENCODED}
        self._is_alive = GrowingArray(np.zeros(0, np.bool_))
        self._vectors = VectorColumn(self._dim)
        self._shared: tuple[int, int] | None = None  # version of the file that was tried last
        self._scales = GrowingArray(np.zeros(0, np.float32))

    def _arrays(self) -> Iterator[GrowingArray[Any] | VectorColumn]:
        yield from (self._rows, self._is_alive, self._vectors, self._scales)
        yield from self._codes.values()

    def _snapshot(self, state: State) -> ColumnTable:
        return ColumnTable(
            state=state,
            dictionaries=self._dictionaries,
            rows=self._rows.items,
            codes={name: codes.items for name, codes in self._codes.items()},
            is_alive=self._is_alive.items,
            vectors=self._vectors.parts,
            scales=self._scales.items,
        )

    def _mark_changes(self, connection: sqlite3.Connection, after: int) -> None:
        changes = connection.execute(_CHANGES, (after,)).fetchall()
        gone = self._positions([row for row, is_gone in changes if is_gone])
        self._is_alive.change(gone, False)
        moved = [row for row, is_gone in changes if not is_gone and row <= self._last_row]
        refs = connection.execute(_REFS, (json.dumps(moved),)).fetchall() if moved else []
        rows, values = zip(*refs, strict=True) if refs else ((), ())
        self._codes["refs"].change(self._positions(rows), self._dictionaries.refs.encode(values))

    def _positions(self, rows: Sequence[int]) -> npt.NDArray[np.intp]:
        """Return the positions of the rows that are loaded, in the order given."""
        known, asked = self._rows.items, np.array(rows, np.int64)
        found = np.searchsorted(known, asked)
        found, asked = found[found < len(known)], asked[found < len(known)]
        here: npt.NDArray[np.intp] = found[known[found] == asked]
        return here

    def _read_files(self, connection: sqlite3.Connection) -> None:
        found = connection.execute(_NEW_FILES, (len(self._files) - 1,)).fetchall()
        if not found:
            return
        files, repositories, paths = zip(*found, strict=True)
        more = np.zeros((files[-1] + 1 - len(self._files), 2), np.int32)
        position = np.array(files) - len(self._files)
        more[position, 0] = self._dictionaries.repositories.encode(repositories)
        more[position, 1] = self._dictionaries.paths.encode(paths)
        self._files = np.concatenate([self._files, more])

    def _read_rows(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute(_NEW_ROWS, (self._last_row,))
        while found := cursor.fetchmany(_ROWS_PER_READ):
            self._append(*zip(*found, strict=True))

    def _append(
        self,
        rows: Sequence[int],
        files: Sequence[int],
        refs: Sequence[str],
        languages: Sequence[str],
        categories: Sequence[str],
        kinds: Sequence[str],
        names: Sequence[str],
        vectors: Sequence[bytes],
    ) -> None:
        places = self._files[np.array(files)]
        self._codes["repositories"].extend(places[:, 0])
        self._codes["paths"].extend(places[:, 1])
        texts = {
            "refs": refs,
            "languages": languages,
            "categories": categories,
            "kinds": kinds,
            "names": names,
        }
        for name, values in texts.items():
            self._codes[name].extend(getattr(self._dictionaries, name).encode(values))
        matrix = np.frombuffer(b"".join(vectors), np.int8).reshape(len(rows), self._dim)
        self._vectors.extend(matrix)
        self._scales.extend(_inverse_lengths(matrix))
        self._is_alive.extend(np.ones(len(rows), np.bool_))
        self._rows.extend(np.array(rows, np.int64))
        self._last_row = rows[-1]

    def _compact(self) -> None:
        alive = self._is_alive.items
        if np.count_nonzero(alive) < len(alive) * (1 - MAX_DELETED):
            for array in self._arrays():
                array.keep(alive)

    def _share(self, state: State) -> None:
        """Use the shared file if it is new and fits this state; later rows follow its rows."""
        version = shared_vectors.version(self._folder)
        if version is None or version == self._shared:
            return
        found = shared_vectors.opened(self._folder, dim=self._dim)
        if found is None or not len(found.rows) or found.rows[-1] >= state.next_row:
            return
        rows, is_alive = self._rows.items, self._is_alive.items
        is_later = rows > found.rows[-1]
        kept = np.flatnonzero(is_later | np.isin(rows, found.rows, assume_unique=True))
        whole = np.concatenate([found.rows, rows[is_later]])
        alive = np.count_nonzero(is_alive)
        if np.count_nonzero(is_alive[kept]) < alive or alive < len(whole) * (1 - MAX_DELETED):
            return
        self._shared = version
        positions = np.searchsorted(whole, rows[kept])
        if not self._vectors.share(found.vectors, kept, positions):
            _log.warning("shared_vectors_ignored", folder=str(self._folder))
            return
        others: list[GrowingArray[Any]] = [self._is_alive, self._scales, *self._codes.values()]
        for array in others:
            array.spread(kept, positions, len(whole))  # rows that were deleted are not alive
        self._rows = GrowingArray(whole)


Item = TypeVar("Item", bound=np.generic)


class GrowingArray(Generic[Item]):
    """An append-only array. `items` that were handed out before never change."""

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

    def change(self, positions: npt.NDArray[np.intp], values: Any) -> None:
        if len(positions):
            self._held = self._copy(len(self._held))
            self._held[positions] = values

    def keep(self, mask: Mask) -> None:
        self._held = self.items[mask]
        self._count = len(self._held)

    def spread(
        self, kept: npt.NDArray[np.intp], positions: npt.NDArray[np.intp], count: int
    ) -> None:
        """Move the kept items to these positions of an array of `count`; the others are zero."""
        held = np.zeros((count, *self._held.shape[1:]), self._held.dtype)
        held[positions] = self.items[kept]
        self._held, self._count = held, count

    def _copy(self, capacity: int) -> npt.NDArray[Item]:
        held = np.empty((capacity, *self._held.shape[1:]), self._held.dtype)
        held[: self._count] = self.items
        return held


class VectorColumn:
    """The vectors of all rows: those of the first rows may be in the shared file."""

    def __init__(self, dim: int) -> None:
        self._shared = np.zeros((0, dim), np.int8)
        self._own = GrowingArray(np.zeros((0, dim), np.int8))

    @property
    def parts(self) -> tuple[npt.NDArray[np.int8], ...]:
        """Return the vectors in the order of the rows; arrays handed out before never change."""
        return tuple(part for part in (self._shared, self._own.items) if len(part))

    def extend(self, more: npt.NDArray[np.int8]) -> None:
        self._own.extend(more)

    def keep(self, mask: Mask) -> None:
        """Keep the vectors of these rows, none of them in the shared file."""
        count = len(self._shared)
        kept = [self._shared[mask[:count]], self._own.items[mask[count:]]]
        self._shared, self._own = self._shared[:0], GrowingArray(np.concatenate(kept))

    def share(
        self,
        vectors: npt.NDArray[np.int8],
        kept: npt.NDArray[np.intp],
        positions: npt.NDArray[np.intp],
    ) -> bool:
        """Use these vectors of the shared file for the first rows; return whether that was done.

        The kept rows move to the positions given. Nothing changes if the file has another vector
        for one of them.
        """
        count = int(np.searchsorted(positions, len(vectors)))
        for start in range(0, count, _ROWS_PER_READ):
            some = slice(start, min(start + _ROWS_PER_READ, count))
            own = np.concatenate(at_positions(self.parts, kept[some]))
            if not np.array_equal(vectors[positions[some]], own):
                return False
        later = at_positions((self._shared, self._own.items), kept[count:])
        self._shared, self._own = vectors, GrowingArray(np.concatenate(later))
        return True


def _inverse_lengths(matrix: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
    lengths: npt.NDArray[np.float32] = np.linalg.norm(matrix.astype(np.float32), axis=1)
    inverse = np.zeros_like(lengths)
    np.divide(1, lengths, out=inverse, where=lengths > 0)
    return inverse
