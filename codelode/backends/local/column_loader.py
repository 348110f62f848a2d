"""Load columns from the database incrementally: new rows, deleted rows, and changed refs.

A row has the same position in all arrays, and positions ascend with row numbers. Deleted rows keep
their positions until `_compact` removes them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import structlog

from codelode.backends.local import shared_vectors
from codelode.backends.local.column_table import ENCODED, ColumnTable, Dictionaries, Positions
from codelode.backends.local.database import State
from codelode.backends.local.growing_arrays import GrowingArray, VectorColumn

#: Maximum fraction of rows that are deleted; above it, their memory is freed.
MAX_DELETED = 1 / 3

#: Number of rows read at once: the first load must not hold all of them as Python objects.
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
    """Builds each snapshot from the previous one. Only one thread at a time may use it."""

    def __init__(self, folder: Path, *, dim: int) -> None:
        self._folder = folder
        self._dim = dim
        self.columns: ColumnTable | None = None
        self._reset()

    def load(self, connection: sqlite3.Connection, state: State) -> ColumnTable:
        """Return the snapshot of the state that the connection's open transaction sees."""
        before = self.columns
        if before is not None and before.state.version == state.version:
            return before
        if before is not None and state.first_change > before.state.last_change + 1:
            self._reset()  # the log of changes does not reach back to the previous snapshot
            before = None
        if before is not None:
            self._mark_changes(connection, before.state.last_change)
        self._read_files(connection)
        self._read_rows(connection)
        self._compact()
        self._share(state)
        self.columns = self._snapshot(state)
        return self.columns

    def _reset(self) -> None:
        self._dictionaries = Dictionaries()
        self._files = np.zeros((1, 2), np.int32)  # by file number: codes of repository and path
        self._last_row = 0
        self._rows = GrowingArray(np.zeros(0, np.int64))
        self._codes = {name: GrowingArray(np.zeros(0, np.int32)) for name in ENCODED}
        self._is_alive = GrowingArray(np.zeros(0, np.bool_))
        self._vectors = VectorColumn(self._dim)
        # The version of the shared file whose vectors were compared last.
        self._shared_version: tuple[int, int] | None = None
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
            coarse=self._vectors.coarse,
            scales=self._scales.items,
        )

    def _mark_changes(self, connection: sqlite3.Connection, after: int) -> None:
        """Mark rows that were deleted since change `after`, and read the refs of changed ones."""
        changes = connection.execute(_CHANGES, (after,)).fetchall()
        deleted = self._positions([row for row, is_gone in changes if is_gone])
        self._is_alive.change(deleted, False)
        # Later rows are read as a whole by `_read_rows`.
        changed = [row for row, is_gone in changes if not is_gone and row <= self._last_row]
        refs = connection.execute(_REFS, (json.dumps(changed),)).fetchall() if changed else []
        rows, values = zip(*refs, strict=True) if refs else ((), ())
        self._codes["refs"].change(self._positions(rows), self._dictionaries.refs.encode(values))

    def _positions(self, rows: Sequence[int]) -> Positions:
        """Return the positions of the rows that are loaded, in the order given."""
        loaded, wanted = self._rows.items, np.array(rows, np.int64)
        positions = np.searchsorted(loaded, wanted)
        is_inside = positions < len(loaded)
        positions, wanted = positions[is_inside], wanted[is_inside]
        found: Positions = positions[loaded[positions] == wanted]
        return found

    def _read_files(self, connection: sqlite3.Connection) -> None:
        found = connection.execute(_NEW_FILES, (len(self._files) - 1,)).fetchall()
        if not found:
            return
        files, repositories, paths = zip(*found, strict=True)
        added = np.zeros((files[-1] + 1 - len(self._files), 2), np.int32)
        positions = np.array(files) - len(self._files)
        added[positions, 0] = self._dictionaries.repositories.encode(repositories)
        added[positions, 1] = self._dictionaries.paths.encode(paths)
        self._files = np.concatenate([self._files, added])

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
        file_codes = self._files[np.array(files)]  # (rows, 2): of repository and path
        self._codes["repositories"].extend(file_codes[:, 0])
        self._codes["paths"].extend(file_codes[:, 1])
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
        """Remove the deleted rows if there are many."""
        is_alive = self._is_alive.items
        if np.count_nonzero(is_alive) < len(is_alive) * (1 - MAX_DELETED):
            for array in self._arrays():
                array.keep(is_alive)

    def _share(self, state: State) -> None:
        """Use the vectors of the shared file if there is a new version of it that fits this state.

        All arrays then have the rows of the file, also deleted ones, followed by later rows. The
        file does not fit if it has rows that this state does not have yet, if it lacks a row that
        is not deleted, or if too many of its rows are deleted.
        """
        version = shared_vectors.version(self._folder)
        if version is None or version == self._shared_version:
            return
        found = shared_vectors.opened(self._folder, dim=self._dim)
        if found is None or not len(found.rows) or found.rows[-1] >= state.next_row:
            return
        rows, is_alive = self._rows.items, self._is_alive.items
        is_later = rows > found.rows[-1]
        kept = np.flatnonzero(is_later | np.isin(rows, found.rows, assume_unique=True))
        all_rows = np.concatenate([found.rows, rows[is_later]])
        alive = np.count_nonzero(is_alive)
        if np.count_nonzero(is_alive[kept]) < alive or alive < len(all_rows) * (1 - MAX_DELETED):
            return
        self._shared_version = version
        positions = np.searchsorted(all_rows, rows[kept])
        if not self._vectors.share(found, kept, positions):
            _log.warning("shared_vectors_ignored", folder=str(self._folder))
            return
        others: list[GrowingArray[Any]] = [self._is_alive, self._scales, *self._codes.values()]
        for array in others:
            # Rows that only the file has get zeros, so `_is_alive` marks them as deleted.
            array.spread(kept, positions, len(all_rows))
        self._rows = GrowingArray(all_rows)


def _inverse_lengths(matrix: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
    """Return 1 / length of each row, and 0 for a zero row: (rows,)."""
    lengths: npt.NDArray[np.float32] = np.linalg.norm(matrix.astype(np.float32), axis=1)
    inverse = np.zeros_like(lengths)
    np.divide(1, lengths, out=inverse, where=lengths > 0)
    return inverse
