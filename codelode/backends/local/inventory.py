"""Count what is stored in an embedded index, with a read-only connection to the database."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from codelode.backends.local import database, published, shared_vectors, tables
from codelode.backends.local.errors import translated
from codelode.chunk_map import ChunkVector
from codelode.covers import Grouped
from codelode.disk_use import taken_by
from codelode.model import RefName, RepositoryName

_REPOSITORIES = "SELECT DISTINCT repository FROM files"
_COUNTS = (
    "SELECT path, refs, count(*) FROM files JOIN chunks USING (file) WHERE repository = ? "
    "AND (? IS NULL OR path IN (SELECT value FROM json_each(?))) GROUP BY file, refs"
)
#: The chunks of the repositories that have a vector.
_ROWS = (
    "SELECT id, row, refs FROM files JOIN chunks USING (file) JOIN texts USING (row) "
    "WHERE repository IN (SELECT value FROM json_each(?)) "
    "AND chunks.vector <> zeroblob(length(chunks.vector))"
)
_VECTORS = (
    "SELECT id, repository, path, start_line, end_line, language, category, texts.vector "
    "FROM texts JOIN chunks USING (row) JOIN files USING (file) "
    "WHERE row IN (SELECT value FROM json_each(?))"
)
_VECTORS_AT_ONCE = 1_000

#: Each chunk has a vector with 8 bits a dimension, and one with 16.
_VECTOR_BYTES = (
    "SELECT coalesce((SELECT count(*) FROM chunks) * "
    "(SELECT 3 * length(vector) FROM chunks LIMIT 1), 0)"
)


def _chunk_vector(row: tuple[Any, ...]) -> ChunkVector:
    id, *place, vector = row
    return ChunkVector._make((id.hex(), *place, np.frombuffer(vector, "<f2").astype(np.float32)))


class LocalInventory:
    """Implements the port Inventory. Raises Superseded when another folder was published."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def _root(self) -> Path:
        return published.root_of(self._folder)

    def repositories(self) -> frozenset[RepositoryName]:
        with self._reading() as connection:
            found = connection.execute(_REPOSITORIES) if connection else ()
            return frozenset(RepositoryName(name) for (name,) in found)

    def counts(
        self, repository: RepositoryName, paths: Collection[str] | None = None
    ) -> Mapping[str, Mapping[RefName, int]]:
        named = None if paths is None else json.dumps([tables.text(path) for path in paths])
        counts: defaultdict[str, Counter[RefName]] = defaultdict(Counter)
        with self._reading() as connection:
            values = (tables.text(repository), named, named)
            for path, refs, chunks in connection.execute(_COUNTS, values) if connection else ():
                counts[path].update(dict.fromkeys(tables.refs_from(refs), chunks))
        return counts

    def vectors(
        self, repositories: Sequence[RepositoryName], ref: RefName, *, most: int
    ) -> Iterator[ChunkVector]:
        named = json.dumps([tables.text(name) for name in repositories])
        with self._reading() as connection:
            found = connection.execute(_ROWS, (named,)) if connection else ()
            at_ref = ((id, row) for id, row, refs in found if ref in tables.refs_from(refs))
            rows = sorted(row for _, row in heapq.nsmallest(most, at_ref))
            for start in range(0, len(rows), _VECTORS_AT_ONCE):
                assert connection is not None
                some = json.dumps(rows[start : start + _VECTORS_AT_ONCE])
                yield from map(_chunk_vector, connection.execute(_VECTORS, (some,)))

    def has_others(self, repository: RepositoryName, grouped: Grouped) -> bool:
        """Return False: the store keeps no groups, because it filters by names fast."""
        return False

    def sizes(self) -> Mapping[str, int] | None:
        """Return the bytes of vectors, keyword index, and texts, and of unpublished indexes.

        Vectors are in rows of the database, so their size is computed from their number. The file
        of vectors that readers share is added.
        """
        with self._reading() as connection:
            vectors = connection.execute(_VECTOR_BYTES).fetchone()[0] if connection else 0
        database_bytes = sum(map(taken_by, self._folder.glob(f"{database.FILE_NAME}*")))
        keywords = sum(map(taken_by, self._folder.glob("keywords-*")))
        shared = sum(map(taken_by, self._folder.glob(f"{shared_vectors.FILE_NAME}*")))
        others = {folder for folder in published.folders(self._root) if folder != self._folder}
        found = {
            "vectors": min(vectors, database_bytes) + shared,
            "keyword index": keywords,
            "texts and metadata": max(0, database_bytes - vectors),
        }
        return found | ({"unpublished indexes": sum(map(taken_by, others))} if others else {})

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Open a connection; None: there is no index yet."""
        with translated(self._folder):
            published.require_current(self._folder)
            if database.file_number(self._folder) is None:
                yield None
                return
            with closing(database.connect(self._folder, is_writer=False)) as connection:
                yield connection
