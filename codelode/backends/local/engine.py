"""Open the embedded index for reading, writing, and operating on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from codelode.backends.engine import PublishedIndex, VectorSpace
from codelode.backends.local import published, signature
from codelode.backends.local.backup import LocalBackup
from codelode.backends.local.inventory import LocalInventory
from codelode.backends.local.search import LocalChunkSearch
from codelode.backends.local.shadow import LocalShadowIndex
from codelode.backends.local.store import LocalChunkStore


class LocalEngine:
    """Implements `engine.StoreEngine` for the index below the folder `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def published(self) -> PublishedIndex:
        found = published.read(self._root)
        return PublishedIndex(found.folder.name, found.choice, signature.space(found.folder))

    def writer(self, space: VectorSpace) -> LocalChunkStore:
        """One process writes at a time."""
        return LocalChunkStore(self._folder, dim=space.dim, identity=space.identity)

    def reader(self, space: VectorSpace) -> LocalChunkSearch:
        return LocalChunkSearch(self._folder, dim=space.dim, identity=space.identity)

    def check(self, space: VectorSpace) -> None:
        signature.check(self._folder, dim=space.dim, identity=space.identity)

    def inventory(self) -> LocalInventory:
        return LocalInventory(self._folder)

    def shadow_index(self, space: VectorSpace, choice: Mapping[str, object]) -> LocalShadowIndex:
        return LocalShadowIndex(self._root, dim=space.dim, identity=space.identity, choice=choice)

    def backup(self) -> LocalBackup:
        return LocalBackup(self._root)

    @property
    def _folder(self) -> Path:
        return published.read(self._root).folder
