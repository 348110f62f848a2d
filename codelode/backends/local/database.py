"""The SQLite database: the source of truth for every chunk, its file, and its refs.

A stored chunk never changes except for its refs; a chunk with any other change gets a new row, and
row numbers are never reused. So a reader stays up to date with two queries: the rows above the last
one it knows, and the rows in the change log.

The columns that readers keep in memory are in one table, the texts in another, so that a reader
starts without reading all texts. Vectors are stored with 8 bits for scanning and with 16 for exact
comparison.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "chunks.db"

#: Longest wait for another process's transaction, seconds. Transactions take milliseconds, a
#: checkpoint as long as the disk needs.
BUSY_TIMEOUT_S = 10.0

#: Longest wait of a checkpoint for readers, milliseconds; readers hold a lock for one search.
CHECKPOINT_WAIT_MS = 200

#: Size of the pages of a new database, bytes. A row of `texts` takes about 2.5 kB, so a third of
#: pages of 4 kB was unused: the database took 2.49 times the source text, and takes 1.99 times with
#: 16 kB. Larger pages save less and take longer to read.
PAGE_BYTES = 16_384

#: Maximum number of bytes of the database that a reader maps into memory; SQLite's own limit is
#: slightly higher. Without the mapping, reading a chunk copies its page of 16 kB, and grep took a
#: tenth longer. The operating system shares the mapped pages between readers, and frees them when
#: memory is short.
MAPPED_BYTES = 2_000_000_000

#: FULL: writes survive a power failure. It costs one more disk flush per write; the keyword index
#: needs about ten.
_WRITER_PRAGMAS = ("PRAGMA synchronous = FULL", "PRAGMA cache_size = -16000")
_READER_PRAGMAS = (
    "PRAGMA query_only = ON",
    "PRAGMA cache_size = -4000",
    f"PRAGMA mmap_size = {MAPPED_BYTES}",
)

_TABLES = """
CREATE TABLE files (
    file INTEGER PRIMARY KEY, repository TEXT NOT NULL, path TEXT NOT NULL,
    UNIQUE (repository, path)
);
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY, file INTEGER NOT NULL, refs TEXT NOT NULL, language TEXT NOT NULL,
    category TEXT NOT NULL, kind TEXT NOT NULL, names TEXT NOT NULL, vector BLOB NOT NULL
);
CREATE INDEX chunks_by_file ON chunks (file);
CREATE TABLE texts (
    row INTEGER PRIMARY KEY, id BLOB NOT NULL, digest BLOB NOT NULL, symbol TEXT NOT NULL,
    symbols TEXT NOT NULL, header TEXT NOT NULL, start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL, spelling TEXT NOT NULL, defined TEXT NOT NULL, terms TEXT NOT NULL,
    summary TEXT NOT NULL, vector BLOB NOT NULL, overlap TEXT NOT NULL,
    file_summary TEXT NOT NULL, definitions TEXT NOT NULL, part INTEGER NOT NULL,
    content TEXT NOT NULL
);
CREATE TABLE changes (seq INTEGER PRIMARY KEY, row INTEGER NOT NULL, is_gone INTEGER NOT NULL);
CREATE TABLE state (
    version INTEGER NOT NULL, next_row INTEGER NOT NULL, next_file INTEGER NOT NULL,
    last_change INTEGER NOT NULL, first_change INTEGER NOT NULL, folded INTEGER NOT NULL,
    keywords INTEGER NOT NULL, keywords_stamp INTEGER NOT NULL
);
INSERT INTO state VALUES (0, 1, 1, 0, 1, 0, 0, 0);
"""


@dataclass(frozen=True, slots=True)
class State:
    """State of the index: one row, rewritten by every transaction."""

    version: int
    next_row: int
    next_file: int
    last_change: int  # newest entry of the change log
    first_change: int  # oldest entry of the change log; earlier ones were dropped
    folded: int  # rows deleted up to this change are deleted from the keyword index as well
    keywords: int  # number of the keyword index's folder
    keywords_stamp: int  # the keyword index's last commit that belongs to this state


def create(folder: Path) -> None:
    """Create the empty tables, replacing what an unfinished attempt left."""
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (folder / name).unlink(missing_ok=True)
    connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")  # fixes the size
    connection.executescript(f"BEGIN; {_TABLES} COMMIT;")
    connection.close()


def connect(folder: Path, *, is_writer: bool) -> sqlite3.Connection:
    """Return a connection in autocommit mode, to be used by one thread at a time."""
    uri = f"{(folder / FILE_NAME).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    for pragma in _WRITER_PRAGMAS if is_writer else _READER_PRAGMAS:
        connection.execute(pragma)
    return connection


def file_number(folder: Path) -> int | None:
    """Return the file's inode, which changes when the index is recreated; None: no file."""
    try:
        return (folder / FILE_NAME).stat().st_ino
    except FileNotFoundError:
        return None


def checkpoint(connection: sqlite3.Connection) -> None:
    """Fold the write-ahead log into the file, unless readers block this for too long."""
    connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_MS}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1_000:.0f}")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return whether there is no chunk."""
    return connection.execute("SELECT 1 FROM chunks LIMIT 1").fetchone() is None


def state(connection: sqlite3.Connection) -> State:
    return State(*connection.execute("SELECT * FROM state").fetchone())


def save_state(connection: sqlite3.Connection, state: State) -> None:
    connection.execute(
        "UPDATE state SET version = ?, next_row = ?, next_file = ?, last_change = ?, "
        "first_change = ?, folded = ?, keywords = ?, keywords_stamp = ?",
        (
            state.version,
            state.next_row,
            state.next_file,
            state.last_change,
            state.first_change,
            state.folded,
            state.keywords,
            state.keywords_stamp,
        ),
    )
