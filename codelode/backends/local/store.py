"""The write side of the embedded chunk store.

A call commits first to the keyword index and then to the database, which makes it visible to
readers: all of it or nothing. If a process dies in between, its rows are in the keyword index only;
the next writer detects that by the stamp and repairs the index.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from codelode.backends.chunk_stores import by_first, require_distinct, require_vectors
from codelode.backends.local import (
    database,
    keyword_index,
    published,
    shared_vectors,
    signature,
    tables,
    updates,
)
from codelode.backends.local.database import State
from codelode.backends.local.errors import Damaged, translated
from codelode.backends.local.replacement import Change, plan
from codelode.files import make_private
from codelode.model import Chunk, ChunkId, FileChunks, RefName, RepositoryName

#: Maximum number of deleted rows that stay in the keyword index until `maintain`: deleting them
#: there rewrites a part of each segment.
MAX_UNFOLDED = 5_000

#: Entries kept in the change log; a reader that missed more reloads everything.
KEPT_CHANGES = 10_000

_log = structlog.get_logger(__name__)


class LocalChunkStore:
    """Implements the port ChunkStore. A file lock serialises the writes of several processes.

    Raises SchemaMismatch when the folder has chunks of another schema or embedder, and Superseded
    when another folder was published in its place.
    """

    def __init__(self, folder: Path, *, dim: int, identity: str) -> None:
        self._folder = folder
        self._dim = dim
        self._identity = identity
        self._connection: sqlite3.Connection | None = None
        self._number: int | None = None  # of the open file
        make_private(folder)
        with self._exclusive():
            self._repairing(self._settle)

    def replace(self, files: Sequence[FileChunks]) -> None:
        require_distinct(files)
        require_vectors(files, dim=self._dim)
        if not files:
            return
        with self._exclusive():
            self._repairing(lambda: self._replace(files))

    def remove_repository(self, repository: RepositoryName) -> None:
        with self._exclusive(), self._transaction() as state:
            self._save(updates.remove_repository(self._database, state, repository))

    def ids(self, repository: RepositoryName, ref: RefName) -> Iterator[ChunkId]:
        with (
            translated(self._folder),
            closing(database.connect(self._folder, is_writer=False)) as connection,
        ):
            return iter(tables.ids(connection, repository, ref))

    def maintain(self) -> None:
        with self._exclusive():
            self._repairing(self._settle)
            self._repairing(self._fold)
            self._drop_old_changes()
            self._share_vectors()
            database.checkpoint(self._database)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._number = None

    @property
    def _database(self) -> sqlite3.Connection:
        assert self._connection is not None, "use only inside `_exclusive`"
        return self._connection

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the writers' lock, with the files open; replaced files are reopened."""
        with translated(self._folder), (self._folder / "writer.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            published.require_current(self._folder)
            if self._number is None or self._number != database.file_number(self._folder):
                self._open()
            yield

    def _open(self) -> None:
        self.close()
        if not signature.check(self._folder, dim=self._dim, identity=self._identity):
            signature.withdraw(self._folder)
            shared_vectors.remove(self._folder)
            database.create(self._folder)
            keyword_index.create(keyword_index.folder_of(self._folder, 0))
            signature.sign(self._folder, dim=self._dim, identity=self._identity)
        self._connection = database.connect(self._folder, is_writer=True)
        self._number = database.file_number(self._folder)

    @contextmanager
    def _transaction(self) -> Iterator[State]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield database.state(self._database)
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise

    def _save(self, state: State) -> None:
        database.save_state(self._database, replace(state, version=state.version + 1))

    def _replace(self, files: Sequence[FileChunks]) -> None:
        change = plan(files, updates.stored(self._database, files))
        if change.chunks:
            held = by_first(files)
            with self._keywords() as index, self._transaction() as state:
                self._write(index, state, change, held)
        elif change:
            with self._transaction() as state:
                self._save(updates.apply(self._database, state, change))
        # else: everything is stored already

    def _write(
        self,
        index: keyword_index.Writer,
        state: State,
        change: Change,
        held: Mapping[ChunkId, Sequence[Chunk]],
    ) -> None:
        """Write the change; the keyword index commits right before the database does.

        `held`: the chunks of files, by the ids of the first ones.
        """
        first = state.next_row
        rows = dict(enumerate(change.chunks, first))
        of_rows = {row: held[chunk.id] for row, chunk in rows.items() if chunk.id in held}
        index.add(rows.items(), of_rows)
        unfolded = updates.unfolded(self._database, state)
        if len(unfolded) > MAX_UNFOLDED:
            state = self._folded(index, state, unfolded)
        state = updates.apply(self._database, state, change)
        self._save(replace(state, keywords_stamp=index.commit()))

    # The keyword index

    @contextmanager
    def _keywords(self) -> Iterator[keyword_index.Writer]:
        """Open a writer of the keyword index; first make the index match the database."""
        state = database.state(self._database)
        with closing(
            keyword_index.Writer(keyword_index.folder_of(self._folder, state.keywords))
        ) as index:
            if index.stamp != state.keywords_stamp:
                index.match(self._database)
                with self._transaction() as state:
                    self._save(replace(state, keywords_stamp=index.commit()))
            yield index

    def _settle(self) -> None:
        """Make the keyword index match the database. Raises Damaged if files are missing."""
        keyword_index.check(
            keyword_index.folder_of(self._folder, database.state(self._database).keywords)
        )
        with self._keywords():
            pass

    def _repairing(self, work: Callable[[], object]) -> None:
        """Do the work; if the keyword index is damaged, rebuild it and repeat the work."""
        try:
            work()
        except Damaged as exc:
            _log.warning("keyword_index_damaged", folder=str(self._folder), reason=str(exc))
            self._rebuild()
            work()

    def _rebuild(self) -> None:
        number = database.state(self._database).keywords + 1
        folder = keyword_index.folder_of(self._folder, number)
        keyword_index.create(folder)
        with closing(keyword_index.Writer(folder)) as index:
            index.match(self._database)
            with self._transaction() as state:
                stamp = index.commit()
                folded = state.last_change
                self._save(replace(state, keywords=number, keywords_stamp=stamp, folded=folded))
        keyword_index.remove_others(self._folder, number)

    def _folded(self, index: keyword_index.Writer, state: State, unfolded: Sequence[int]) -> State:
        index.delete(unfolded)
        return replace(state, folded=state.last_change)

    def _fold(self) -> None:
        state = database.state(self._database)
        if not (unfolded := updates.unfolded(self._database, state)):
            return
        with self._keywords() as index, self._transaction() as state:
            state = self._folded(index, state, unfolded)
            self._save(replace(state, keywords_stamp=index.commit()))

    def _drop_old_changes(self) -> None:
        state = database.state(self._database)
        first = min(state.last_change - KEPT_CHANGES, state.folded) + 1
        if first > state.first_change:
            with self._transaction() as state:
                self._save(updates.drop_changes(self._database, state, first))

    def _share_vectors(self) -> None:
        """Write the vectors that readers share, if many have changed; readers work without them."""
        try:
            is_new = shared_vectors.renew(self._folder, self._database, dim=self._dim)
        except OSError as exc:
            _log.warning("vectors_not_shared", folder=str(self._folder), reason=str(exc))
            return
        if is_new:
            with self._transaction() as state:
                self._save(state)  # readers look for the file when the state has changed
