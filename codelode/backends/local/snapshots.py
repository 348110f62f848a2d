"""Consistent snapshots of tables, columns, and keyword index for readers.

A reader works in one read transaction and on the columns of exactly the state that it sees, so it
never sees half of a replacement, and every row it finds can be read. The transaction ends with the
search, so the write-ahead log can be folded between searches.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from tantivy import Index, Searcher

from codelode.backends.local import database, keyword_index, published
from codelode.backends.local.column_loader import ColumnLoader
from codelode.backends.local.column_table import ByFile, ColumnTable, Rows, cached
from codelode.backends.local.database import State
from codelode.backends.local.errors import Damaged, damage_reported
from codelode.grams import NOTHING, Grams
from codelode.model import RepositoryName

#: Maximum number of chunk searches whose results are cached per snapshot, at 16 bytes per chunk.
MAX_FOUND = 16

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of both the database and the keyword index."""

    columns: ColumnTable
    searcher: Searcher
    _found: dict[tuple[Grams, tuple[RepositoryName, ...]], ByFile] = field(
        default_factory=dict, init=False
    )

    def chunks_holding(self, needed: Grams, repositories: tuple[RepositoryName, ...]) -> ByFile:
        """Return the chunks of the repositories that have the trigrams; cached."""
        found = self._found.get((needed, repositories))
        if found is None:
            rows = keyword_index.chunks_holding(self.searcher, needed, repositories)
            found = self._kept(needed, repositories, rows)
        return found

    def sharing_lines(self) -> ByFile:
        """Return the first chunks of the files in which a line may be in several chunks; cached."""
        found = self._found.get((NOTHING, ()))
        if found is None:
            found = self._kept(NOTHING, (), keyword_index.sharing_lines(self.searcher))
        return found

    def _kept(self, needed: Grams, repositories: tuple[RepositoryName, ...], rows: Rows) -> ByFile:
        by_file = self.columns.by_file(rows)
        return cached(self._found, (needed, repositories), by_file, most=MAX_FOUND)


class NotLoaded(Exception):
    """The present state of the index has to be loaded before it can be read."""


class Snapshots:
    """Snapshots of one database file, for any number of threads."""

    def __init__(self, folder: Path, *, dim: int) -> None:
        self._folder = folder
        self._dim = dim
        self.number = database.file_number(folder)
        self._loading = threading.Lock()
        self._lock = threading.Lock()  # of the idle connections
        self._idle: list[sqlite3.Connection] = []
        self._loader = ColumnLoader(folder, dim=dim)
        self._newest: Snapshot | None = None
        self._index: tuple[int, Index] | None = None  # with the number of its folder
        self._is_behind = False  # the keyword index is older than the columns

    def close(self) -> None:
        """Close idle connections; those in use are closed at the end of their search."""
        with self._lock:
            self.number = None
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def reading(self, *, loads: bool = True) -> Iterator[tuple[sqlite3.Connection, Snapshot]]:
        """Open a transaction and return its connection and snapshot. Raises Superseded.

        Raises NotLoaded if `loads` is false and the snapshot is not in memory.
        """
        published.require_current(self._folder)
        connection = self._take()
        try:
            snapshot = self._loaded(connection)
            if snapshot is None and loads:
                with self._loading:
                    snapshot = self._seen(connection)
            if snapshot is not None:
                yield connection, snapshot
            connection.execute("ROLLBACK")
        except BaseException:
            connection.close()
            raise
        self._give(connection)
        if snapshot is None:
            raise NotLoaded

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return database.connect(self._folder, is_writer=False)

    def _give(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if self.number is not None:
                self._idle.append(connection)
                return
        connection.close()

    def _loaded(self, connection: sqlite3.Connection) -> Snapshot | None:
        """Begin a transaction, which stays open; return the snapshot that it sees, if loaded."""
        connection.execute("BEGIN")
        newest, is_behind = self._newest, self._is_behind
        if newest is None or is_behind:
            return None
        is_newest = newest.columns.state.version == database.state(connection).version
        return newest if is_newest else None

    def _seen(self, connection: sqlite3.Connection) -> Snapshot:
        """Begin another transaction, which stays open, and return the snapshot that it sees."""
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        state = database.state(connection)
        if self._is_behind:
            self._newest = None
        while self._newest is None or self._newest.columns.state.version != state.version:
            columns, failure = self._load(connection, state), None
            try:
                self._newest = Snapshot(columns, self._searcher(state.keywords))
            except Damaged as exc:  # or replaced by a rebuilt one since the state was read
                failure = exc
            # The keyword index is not part of the transaction: it may show a later state that lacks
            # rows of this one. If the database's state has not changed since, it has them all.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
            state = database.state(connection)
            if failure is not None and state.version == columns.state.version:
                raise failure
        return self._newest

    def _load(self, connection: sqlite3.Connection, state: State) -> ColumnTable:
        try:
            return self._loader.load(connection, state)
        except BaseException:
            # It may have loaded half of the changes.
            self._loader = ColumnLoader(self._folder, dim=self._dim)
            raise

    def _searcher(self, number: int) -> Searcher:
        """Return a searcher of the newest commit, or of the last one that could be read.

        The engine needs a file lock to reload, which fails on a disk that became read-only.
        """
        with damage_reported():
            if self._index is None or self._index[0] != number:
                folder = keyword_index.folder_of(self._folder, number)
                self._index = number, keyword_index.open_index(folder)
        index = self._index[1]
        try:
            with damage_reported():
                index.reload()
            self._is_behind = False
        except OSError as exc:
            if not self._is_behind:
                _log.warning("keyword_index_behind", folder=str(self._folder), reason=str(exc))
            self._is_behind = True
        return index.searcher()
