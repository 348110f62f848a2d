"""The derived-value cache in one SQLite file, shared by the processes of one machine.

Its size is the number of bytes in used pages. When it exceeds the maximum, the oldest sixteenth of
the rows is deleted and their pages are reused, so the file grows only slightly beyond the maximum.
All values can be computed again: a damaged file is deleted, and a write that has to wait for
another process gives up after a short time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import structlog

from codelode.files import make_private
from codelode.ports import DerivationKey

#: Timeout of the wait for another writer, seconds; writing 500 vectors takes 5 ms.
BUSY_TIMEOUT_S = 2.0

#: Keys per statement; old releases of SQLite allow 999 parameters.
BATCH = 500

#: Above the maximum size, the oldest 1 / EVICTED_PART of the rows is evicted.
EVICTED_PART = 16

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY,  -- in the order of insertion

    key BLOB NOT NULL UNIQUE,
    value BLOB NOT NULL
)
"""

_log = structlog.get_logger(__name__)


class SqliteDerivations:
    """Implements the port Derivations. Safe to share between threads, not across a fork."""

    def __init__(self, file: Path, *, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._has_failed = False

    def get(self, keys: Sequence[DerivationKey]) -> tuple[bytes | None, ...]:
        found: dict[bytes, bytes] = {}
        with self._guarded():
            for batch in _batches(keys):
                marks = ",".join("?" * len(batch))
                query = f"SELECT key, value FROM entries WHERE key IN ({marks})"
                found.update(self._open().execute(query, batch))
        return tuple(map(found.get, keys))

    def put(self, values: Mapping[DerivationKey, bytes]) -> None:
        if not values:
            return
        with self._guarded():
            connection = self._open()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(
                    "INSERT OR REPLACE INTO entries (key, value) VALUES (?, ?)", values.items()
                )
                self._evict(connection)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _evict(self, connection: sqlite3.Connection) -> None:
        while _used_bytes(connection) > self._max_bytes:
            first, last = connection.execute("SELECT min(id), max(id) FROM entries").fetchone()
            if first is None:
                return
            limit = first + (last - first) // EVICTED_PART
            connection.execute("DELETE FROM entries WHERE id <= ?", (limit,))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Hold the connection. A failure is ignored, and logged the first time."""
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError) as exc:
                self._failed(exc)

    def _failed(self, exc: Exception) -> None:
        if not self._has_failed:
            _log.warning("derivations_unavailable", file=str(self._file), error=str(exc))
        self._has_failed = True
        is_damaged = isinstance(exc, sqlite3.DatabaseError) and not isinstance(
            exc, (sqlite3.OperationalError, sqlite3.IntegrityError)
        )
        self._close()
        if is_damaged:
            for ending in ("", "-wal", "-shm"):
                with suppress(OSError):
                    Path(f"{self._file}{ending}").unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            make_private(self._file.parent)
            connection = sqlite3.connect(
                self._file, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._connection = connection
            connection.execute("PRAGMA journal_mode = WAL")
            # A crash of the machine may lose the last writes, but does not damage the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_SCHEMA)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _used_bytes(connection: sqlite3.Connection) -> int:
    """Return the number of bytes in used pages."""

    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    return (pragma("page_count") - pragma("freelist_count")) * pragma("page_size")


def _batches(keys: Sequence[DerivationKey]) -> Iterator[list[DerivationKey]]:
    rest = iter(dict.fromkeys(keys))
    while batch := list(islice(rest, BATCH)):
        yield batch
