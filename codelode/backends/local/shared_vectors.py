"""Keep the 8-bit vectors in a file that all readers map, so that they are in memory only once.

The file is derived from the database and has the number and the vector of each row. If there are
many rows, it also has their codes (`coarse_vectors`), so that all readers find the same. Row
numbers are not reused and a stored vector never changes, so the file stays valid when rows are
deleted or added; it lacks the added ones. A reader first compares the file with what it has read
from the database, so a damaged file, or that of another database, is ignored. The writer never
changes the file but replaces it atomically, so a reader may go on using the old one.
"""

from __future__ import annotations

import mmap
import os
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from codelode.backends.local import coarse_vectors
from codelode.files import open_private

FILE_NAME = "vectors.map"
_DRAFT_NAME = f"{FILE_NAME}.draft"

#: The file is written again when more than this fraction of all rows, and more than this number,
#: were added or deleted since. Each reader holds the vectors of added rows itself.
MAX_CHANGED = 1 / 8
MIN_CHANGED = 4_096

#: Number of rows that are read and written at once.
_ROWS_PER_WRITE = 4_096

#: The header: a magic number, the number of rows, the dimensions, and the length and checksum of
#: the codes. The vectors begin at a cache line, and the row numbers and the codes follow them.
_MAGIC = b"vectors2"
_HEADER = struct.Struct("<8sQQQI")
_HEADER_BYTES = 64

_CHANGED = "SELECT count(*), coalesce(sum(row <= ?), 0) FROM chunks"
_VECTORS = "SELECT row, vector FROM chunks ORDER BY row"


class SharedVectors(NamedTuple):
    """The arrays of the file, whose parts are read from disk when they are used."""

    rows: npt.NDArray[np.int64]  # ascending
    vectors: npt.NDArray[np.int8]  # (rows, dim)
    codes: memoryview  # of the vectors, see `coarse_vectors`; empty if there are too few vectors


def version(folder: Path) -> tuple[int, int] | None:
    """Return what identifies this version of the file; None: there is no file."""
    try:
        found = os.stat(folder / FILE_NAME)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def opened(folder: Path, *, dim: int) -> SharedVectors | None:
    """Map the file into memory; None: there is none with vectors of these dimensions."""
    try:
        with (folder / FILE_NAME).open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # ValueError: it is empty
        return None
    if len(data) < _HEADER_BYTES:
        return None
    magic, count, found_dim, size, checksum = _HEADER.unpack_from(data)
    end = _HEADER_BYTES + count * (dim + 8)
    if (magic, found_dim, len(data)) != (_MAGIC, dim, end + size):
        return None
    codes = memoryview(data)[end:]
    if zlib.crc32(codes) != checksum:  # it is damaged
        return None
    vectors = np.frombuffer(data, np.int8, count * dim, _HEADER_BYTES)
    rows = np.frombuffer(data, "<i8", count, _HEADER_BYTES + count * dim)
    if not np.all(rows[1:] > rows[:-1]):  # it is damaged
        return None
    return SharedVectors(rows, vectors.reshape(count, dim), codes)


def renew(folder: Path, connection: sqlite3.Connection, *, dim: int) -> bool:
    """Write the file again if many rows have changed since, and return whether that was done.

    Only one process may call it at a time, and no other may write to the database meanwhile.
    """
    draft = folder / _DRAFT_NAME
    draft.unlink(missing_ok=True)  # a writer that was killed has left it
    known = opened(folder, dim=dim)
    rows = np.zeros(0, np.int64) if known is None else known.rows
    last = int(rows[-1]) if len(rows) else 0
    count, of_file = connection.execute(_CHANGED, (last,)).fetchone()
    changed = (count - of_file) + (len(rows) - of_file)
    is_true = of_file <= len(rows)  # more if its last row number is damaged
    if is_true and changed <= max(MIN_CHANGED, MAX_CHANGED * count):
        return False
    try:
        _write(draft, connection, count=count, dim=dim)
        draft.replace(folder / FILE_NAME)
    finally:
        draft.unlink(missing_ok=True)
    return True


def remove(folder: Path) -> None:
    """Remove the file, and a draft of it that a killed writer has left."""
    for name in (FILE_NAME, _DRAFT_NAME):
        (folder / name).unlink(missing_ok=True)


def _write(path: Path, connection: sqlite3.Connection, *, count: int, dim: int) -> None:
    rows: list[int] = []
    with open_private(path) as out:
        out.write(bytes(_HEADER_BYTES))
        cursor = connection.execute(_VECTORS)
        while found := cursor.fetchmany(_ROWS_PER_WRITE):
            rows.extend(row for row, _ in found)
            out.writelines(vector for _, vector in found)
        out.write(np.array(rows, "<i8").tobytes())
        out.flush()
        codes = coarse_vectors.made(path, offset=_HEADER_BYTES, shape=(count, dim))
        out.write(codes)
        out.seek(0)
        out.write(_HEADER.pack(_MAGIC, count, dim, len(codes), zlib.crc32(codes)))
        out.flush()
        os.fsync(out.fileno())
