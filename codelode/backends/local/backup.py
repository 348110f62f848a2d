"""Back up the database of an embedded index and its signature, and restore them.

The copy is the state at the moment of `begin`, however long copying takes and whatever is written
meanwhile. The keyword index is rebuilt from the database.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from codelode.backends.local import database, keyword_index, published, signature
from codelode.backends.local.errors import translated
from codelode.backends.local.store import LocalChunkStore
from codelode.errors import NotIndexed, SchemaMismatch
from codelode.files import make_private


class LocalBackup:
    """Implements `engine.IndexBackup`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._source: sqlite3.Connection | None = None
        self._published = published.Pointer(root)

    def begin(self) -> dict[str, Any]:
        with translated(self._root):
            self._published = published.read(self._root)
            facts = signature.read(self._published.folder)
            if facts is None:
                raise NotIndexed(f"there is no index at {self._root} yet")
            self._source = database.connect(self._published.folder, is_writer=False)
            self._source.execute("BEGIN")
            database.state(self._source)  # the first read fixes the transaction's snapshot
        return {**facts, "choice": dict(self._published.choice)}

    def save(self, folder: Path) -> None:
        assert self._source is not None, "call `begin` first"
        with translated(self._root):
            with closing(sqlite3.connect(folder / database.FILE_NAME)) as target:
                self._source.backup(target)
            self.close()
            shutil.copyfile(
                self._published.folder / signature.IDENTITY_FILE, folder / signature.IDENTITY_FILE
            )

    def chunks(self) -> int:
        folder = published.read(self._root).folder
        if database.file_number(folder) is None:
            return 0
        with (
            translated(folder),
            closing(database.connect(folder, is_writer=False)) as connection,
        ):
            return int(connection.execute("SELECT count(*) FROM chunks").fetchone()[0])

    def check(self, facts: Mapping[str, Any]) -> None:
        if facts["schema"] != signature.SCHEMA_VERSION:
            raise SchemaMismatch(
                f"the backup has an embedded index of schema {facts['schema']}, this version has "
                f"{signature.SCHEMA_VERSION}: restore it with the version that made it"
            )

    def restore(self, folder: Path, facts: Mapping[str, Any]) -> None:
        """Build the index in another folder; replace the old one when it is complete."""
        restoring = self._root.with_name(f"{self._root.name}.restoring")
        replaced = self._root.with_name(f"{self._root.name}.replaced")
        with translated(self._root):
            shutil.rmtree(restoring, ignore_errors=True)
            shutil.rmtree(replaced, ignore_errors=True)
            identity, dim = str(facts["embedder"]), int(facts["dim"])
            made = published.folder_for(restoring, f"{facts['schema']} {identity} {dim}")
            make_private(made)
            for name in (database.FILE_NAME, signature.IDENTITY_FILE):
                shutil.copyfile(folder / name, made / name)
            _complete(made)
            published.point(restoring, made, facts["choice"])
            LocalChunkStore(made, dim=dim, identity=identity).close()  # fills the keyword index
            if self._root.exists():
                self._root.rename(replaced)
            restoring.rename(self._root)
            shutil.rmtree(replaced, ignore_errors=True)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None


def _complete(folder: Path) -> None:
    """Give the copy of a database its journal mode, and an empty keyword index."""
    with closing(sqlite3.connect(folder / database.FILE_NAME)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        number = database.state(connection).keywords
        keyword_index.create(keyword_index.folder_of(folder, number))
