"""States of the index as readers see them: tables, columns and keyword index of one moment.

A reader works in one read transaction and on the columns of exactly the state that it sees, so
it never meets half of a replacement, and every row it finds can be read. The transaction ends
with the search: nothing keeps the log of the database from being folded in between.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from tantivy import Index, Searcher

from codelode.backends.local import database, keyword_index, published, repair
from codelode.backends.local.column_loader import ColumnLoader
from codelode.backends.local.column_table import ColumnTable
from codelode.backends.local.database import State
from codelode.backends.local.errors import Damaged, damage_reported

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of both the database and the keyword index."""

    columns: ColumnTable
    searcher: Searcher


class Snapshots:
    """Follows one database file. Any number of threads read at a time."""

    def __init__(self, folder: Path, *, dim: int) -> None:
        self._folder = folder
        self._dim = dim
        self.number = database.file_number(folder)
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._follower = ColumnLoader(dim)
        self._newest: Snapshot | None = None
        self._index: tuple[int, Index] | None = None  # number of its folder
        self._is_behind = False  # the keyword index is older than the columns

    def close(self) -> None:
        """Close what no thread is using; what one is using closes with its search."""
        with self._lock:
            self.number = None
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, Snapshot]]:
        """A connection inside a transaction, and what it sees. Raises Superseded."""
        published.require_current(self._folder)
        connection = self._take()
        try:
            with self._lock:
                snapshot = self._seen(connection)
            yield connection, snapshot
            connection.execute("ROLLBACK")
        except BaseException:
            connection.close()
            raise
        self._give(connection)

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

    def _seen(self, connection: sqlite3.Connection) -> Snapshot:
        """The state that a transaction sees which begins here and stays open."""
        connection.execute("BEGIN")
        state = database.state(connection)
        if self._is_behind:
            self._newest = None
        while self._newest is None or self._newest.columns.state.version != state.version:
            columns, failure = self._follow(connection, state), None
            try:
                self._newest = Snapshot(columns, self._searcher(state.keywords))
            except Damaged as exc:  # or replaced and removed since the state was read
                failure = exc
            # The keyword index is not part of the transaction: it may have moved on to a state
            # that lacks rows of this one. If the database did not, it has them all.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
            state = database.state(connection)
            if failure is not None and state.version == columns.state.version:
                raise failure
        return self._newest

    def _follow(self, connection: sqlite3.Connection, state: State) -> ColumnTable:
        try:
            return self._follower.follow(connection, state)
        except BaseException:
            self._follower = ColumnLoader(self._dim)  # it may have read half of what it wanted
            raise

    def _searcher(self, number: int) -> Searcher:
        """The newest commit of the keyword index, or the last one that could be read.

        The engine takes a lock to read, which a disk that has become read-only does not give.
        """
        with damage_reported():
            if self._index is None or self._index[0] != number:
                folder = repair.folder_of(self._folder, number)
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
