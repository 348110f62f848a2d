"""Count what is stored in an embedded index, with a read-only connection to the database."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from codelode.backends.local import database, published, tables
from codelode.backends.local.errors import translated
from codelode.disk_use import taken_by
from codelode.model import RefName, RepositoryName

_REPOSITORIES = "SELECT DISTINCT repository FROM files"
_COUNTS = (
    "SELECT path, refs, count(*) FROM files JOIN chunks USING (file) WHERE repository = ? "
    "AND (? IS NULL OR path IN (SELECT value FROM json_each(?))) GROUP BY file, refs"
)
#: Each chunk has a vector with 8 bits a dimension, and one with 16.
_VECTOR_BYTES = (
    "SELECT coalesce((SELECT count(*) FROM chunks) * "
    "(SELECT 3 * length(vector) FROM chunks LIMIT 1), 0)"
)


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

    def sizes(self) -> Mapping[str, int] | None:
        """Return the bytes of vectors, keyword index, and texts, and of unpublished indexes.

        Vectors are rows of the database, so their bytes are counted from their number.
        """
        with self._reading() as connection:
            vectors = connection.execute(_VECTOR_BYTES).fetchone()[0] if connection else 0
        database_bytes = sum(map(taken_by, self._folder.glob(f"{database.FILE_NAME}*")))
        keywords = sum(map(taken_by, self._folder.glob("keywords-*")))
        others = {folder for folder in published.folders(self._root) if folder != self._folder}
        found = {
            "vectors": min(vectors, database_bytes),
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
