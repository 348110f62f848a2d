"""The truth: every chunk and where it stands, in SQLite.

A stored chunk never changes but for its refs; a chunk that is made otherwise gets a new row, and
row numbers are not given twice. So a reader keeps up with two questions: which rows are above the
last one it knows, and which of those it knows are in the log of changes.

What readers hold in memory is one table, what they show of a candidate another, so that starting
a reader does not read every content. Vectors are stored in 8 bits to be scanned and in 16 to be
compared exactly.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "chunks.db"

#: Longest wait for another process's transaction. They take milliseconds; a checkpoint may take
#: as long as the disk does.
BUSY_TIMEOUT_S = 10.0

#: Longest wait of a checkpoint for readers, who hold nothing for longer than a search takes.
CHECKPOINT_WAIT_MS = 200

#: FULL: what a call wrote outlives a power cut. One more wait for the disk beside the ten or so of
#: the keyword index.
_WRITER_PRAGMAS = ("PRAGMA synchronous = FULL", "PRAGMA cache_size = -16000")
_READER_PRAGMAS = ("PRAGMA query_only = ON", "PRAGMA cache_size = -4000")

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
    file_summary TEXT NOT NULL, content TEXT NOT NULL
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
    """Where the index stands: one row, rewritten by every transaction."""

    version: int
    next_row: int
    next_file: int
    last_change: int  # in the log of changes
    first_change: int  # the log holds from here on; earlier ones were dropped
    folded: int  # the keyword index is rid of what left up to this change
    keywords: int  # which folder the keyword index is in
    keywords_stamp: int  # its last commit that belongs to this state


def create(folder: Path) -> None:
    """Make the empty tables, in place of whatever an unfinished attempt left."""
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (folder / name).unlink(missing_ok=True)
    connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(f"BEGIN; {_TABLES} COMMIT;")
    connection.close()


def connect(folder: Path, *, is_writer: bool) -> sqlite3.Connection:
    """A connection in autocommit mode; its user sees to it that one thread uses it at a time."""
    uri = f"{(folder / FILE_NAME).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    for pragma in _WRITER_PRAGMAS if is_writer else _READER_PRAGMAS:
        connection.execute(pragma)
    return connection


def file_number(folder: Path) -> int | None:
    """Which file it is, another one after the folder was made anew; None: there is none."""
    try:
        return (folder / FILE_NAME).stat().st_ino
    except FileNotFoundError:
        return None


def checkpoint(connection: sqlite3.Connection) -> None:
    """Fold the log into the file, unless readers are in the way for long; another time, then."""
    connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_MS}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1_000:.0f}")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether no chunk is stored."""
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
