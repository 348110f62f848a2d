"""A shadow index: a new index, built while the published one is in use, then swapped in."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from codelode.backends.local import published, shared_vectors, signature
from codelode.backends.local.database import FILE_NAME
from codelode.backends.local.errors import translated
from codelode.backends.local.store import LocalChunkStore
from codelode.errors import NotIndexed, Unavailable
from codelode.files import make_private
from codelode.ports import ChunkStore

#: Name of a data folder's first index, which is in the index folder itself.
FIRST = "first"

#: Required disk space as a multiple of the published index: the new index, and what merging the
#: segments of its keyword index needs temporarily.
REQUIRED_SPACE = 1.2


class LocalShadowIndex:
    """Implements `engine.ShadowIndex` in a folder inside the index folder `root`.

    `dim` and `identity` describe the embedder, `choice` has the settings that select it.
    """

    readers_follow_s = 0.0  # readers look up the published folder before each search

    def __init__(
        self, root: Path, *, dim: int, identity: str, choice: Mapping[str, object]
    ) -> None:
        self._root = root
        self._dim = dim
        self._identity = identity
        self._choice = choice
        self._folder = published.folder_for(root, f"{signature.SCHEMA_VERSION} {identity} {dim}")

    @property
    def name(self) -> str:
        return self._folder.name

    def is_published(self) -> bool:
        current = published.read(self._root).folder
        return signature.is_signed(current, dim=self._dim, identity=self._identity)

    def replaces(self) -> str:
        current = published.read(self._root).folder
        found = signature.read(current)
        if found is None:
            raise NotIndexed(f"there is no index at {current} yet: set CODELODE_EMBEDDER instead")
        return str(found.get("embedder", ""))

    def exists(self) -> bool:
        return (self._folder / signature.IDENTITY_FILE).exists()

    def open(self) -> ChunkStore:
        with translated(self._root):
            self._require_space()
            make_private(self._folder)
            (self._folder / published.BUILDING).touch()
        return LocalChunkStore(self._folder, dim=self._dim, identity=self._identity)

    def publish(self) -> None:
        with translated(self._root):
            (self._folder / published.BUILDING).unlink(missing_ok=True)
            published.point(self._root, self._folder, self._choice)

    def others(self) -> list[str]:
        current = published.read(self._root).folder
        found = [path.name for path in published.folders(self._root) if path != current]
        if current != self._root and (self._root / FILE_NAME).exists():
            found.append(FIRST)
        return found

    def drop(self, name: str) -> None:
        if name not in self.others():
            return
        with translated(self._root):
            if name == FIRST:
                _empty(self._root)
            else:
                shutil.rmtree(self._root / name)

    def close(self) -> None:
        """Do nothing, because no connection stays open."""

    def _require_space(self) -> None:
        """Raise Unavailable if the disk would be full before the index is complete."""
        current = published.read(self._root).folder
        growth = self._dim / int(str((signature.read(current) or {}).get("dim", self._dim)))
        required = REQUIRED_SPACE * _size(current) * max(1.0, growth)
        missing = required - _size(self._folder) - shutil.disk_usage(self._root).free
        if missing > 0:
            raise Unavailable(
                f"the disk of {self._root} lacks about {missing / 1e6:,.0f} MB for a second index: "
                "free this much space and run the command again"
            )


def _size(folder: Path) -> int:
    """Return the bytes of the index in a folder, without the other indexes in folders inside it."""
    inside = set(published.folders(folder))
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and inside.isdisjoint(path.parents)
    )


def _empty(root: Path) -> None:
    """Remove the first index from the index folder.

    The database is removed last, because `others` finds the index by it after an interruption.
    """
    _remove(root, lambda path: path.is_dir() and path.name.startswith("keywords-"))
    _remove(root, lambda path: path.name == signature.IDENTITY_FILE)
    shared_vectors.remove(root)
    _remove(root, lambda path: path.is_file() and path.name.startswith(FILE_NAME))


def _remove(root: Path, is_wanted: Callable[[Path], bool]) -> None:
    # In reverse order, the write-ahead log of a database is removed before the database.
    for path in sorted(root.iterdir(), reverse=True):
        if is_wanted(path):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
