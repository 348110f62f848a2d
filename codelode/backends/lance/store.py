"""The write side of the embedded chunk store.

A call of `replace` commits at most twice: once to bring new chunks in and change the refs of
those that stay, once to take out what leaves. A process that dies in between leaves both; the
repeated call finds the same chunks leaving and takes them out.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa

from codelode.backends.lance import indexes
from codelode.backends.lance import table as layout
from codelode.backends.lance.plan import Change, Rows, Stored, plan
from codelode.backends.lance.predicate import among, contains
from codelode.backends.replacing import require_distinct, require_vectors
from codelode.model import ChunkId, FileChunks, RefName, RepositoryName

#: Ids in one SQL list.
_IDS_PER_STATEMENT = 2_000

_INDEX_CACHE_BYTES = 16 << 20


class LanceChunkStore:
    """Implements the port ChunkStore; the writes of several processes queue at a file lock.

    Raises SchemaMismatch when the folder was written by another schema or embedder.
    """

    def __init__(self, folder: Path, *, dim: int, identity: str) -> None:
        self._folder = folder
        self._dim = dim
        folder.mkdir(parents=True, exist_ok=True)
        with self._exclusive():
            is_there = layout.check(folder, dim=dim, identity=identity)
            self._connection = lancedb.connect(folder, session=layout.session(_INDEX_CACHE_BYTES))
            self._table: Any = self._open() if is_there else self._create()
            if not is_there:
                layout.sign(folder, dim=dim, identity=identity)

    def replace(self, files: Sequence[FileChunks]) -> None:
        require_distinct(files)
        require_vectors(files, dim=self._dim)
        if not files:
            return
        with self._exclusive():
            self._table.checkout_latest()
            change = plan(files, self._stored(files))
            self._bring_in(change)
            self._take_out(change.leaving)

    def remove_repository(self, repository: RepositoryName) -> None:
        with self._exclusive():
            self._table.checkout_latest()
            self._table.delete(among("repository", (repository,)))

    def ids(self, repository: RepositoryName, ref: RefName) -> Iterator[ChunkId]:
        where = f"{among('repository', (repository,))} AND {contains('refs', ref)}"
        with layout.translated(self._folder):
            self._table.checkout_latest()
            found = self._read(where, ["id"])
        return map(ChunkId, found["id"].to_pylist())

    def maintain(self) -> None:
        with self._exclusive():
            self._table.checkout_latest()
            indexes.maintain(self._table, layout.table_path(self._folder))

    def close(self) -> None:
        """Nothing is held: each call opens what it reads and writes."""

    def _open(self) -> Any:
        return self._connection.open_table(layout.TABLE)

    def _create(self) -> Any:
        with suppress(FileNotFoundError):  # a table without identity was never written to
            shutil.rmtree(layout.table_path(self._folder))
        table = self._connection.create_table(
            layout.TABLE,
            schema=layout.schema(self._dim),
            storage_options={"new_table_enable_stable_row_ids": "true"},
        )
        indexes.build_full_text(table)
        return table

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with (self._folder / "writer.lock").open("w") as lock, layout.translated(self._folder):
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _stored(self, files: Sequence[FileChunks]) -> dict[ChunkId, Stored]:
        places = {(file.repository, file.path) for file in files}
        repositories, paths = zip(*places, strict=True)
        where = f"{among('repository', set(repositories))} AND {among('path', set(paths))}"
        found = self._read(where, ["id", "repository", "path", "refs", "digest"])
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        return {
            ChunkId(id): Stored(repository, path, frozenset(refs), digest)
            for id, repository, path, refs, digest in rows
            if (repository, path) in places
        }

    def _bring_in(self, change: Change) -> None:
        if change.keeps:
            merge = self._table.merge_insert("id")
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.concat_tables(self._kept_and_fresh(change)))
        elif change.fresh.chunks:
            self._table.add(self._rows(change.fresh))

    def _kept_and_fresh(self, change: Change) -> Iterator[pa.Table]:
        yield self._rows(change.fresh)
        yield self._rows(change.rewritten)
        for some in _batches(change.reduced):
            found = self._read(among("id", some), layout.schema(self._dim).names)
            refs = [change.reduced[ChunkId(id)] for id in found["id"].to_pylist()]
            yield layout.with_refs(found, refs)

    def _take_out(self, leaving: Iterable[ChunkId]) -> None:
        for some in _batches(leaving):
            self._table.delete(among("id", some))

    def _read(self, where: str, columns: Sequence[str]) -> pa.Table:
        return self._table.search().where(where).select(list(columns)).to_arrow()

    def _rows(self, rows: Rows) -> pa.Table:
        return layout.rows(rows.chunks, rows.matrix(self._dim), rows.digests)


def _batches(ids: Iterable[ChunkId]) -> Iterator[tuple[ChunkId, ...]]:
    remaining = iter(ids)
    while some := tuple(islice(remaining, _IDS_PER_STATEMENT)):
        yield some
