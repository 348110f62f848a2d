"""Interfaces to a whole index, for opening it, rebuilding it, and backing it up.

Jobs and searches use the narrower ports (`codelode.ports`). Each chunk store implements
`StoreEngine`; its record in `codelode.backends.registry` makes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from codelode.ports import ChunkSearch, ChunkStore, Inventory


class VectorSpace(NamedTuple):
    """The embedder that made the vectors of an index, and their dimensions."""

    identity: str
    dim: int

    def __str__(self) -> str:
        return f"embedder {self.identity}, dim {self.dim}"


class PublishedIndex(NamedTuple):
    """The index that a store publishes."""

    name: str  # in the store; empty: there is none yet
    #: Settings that name its embedder; empty: it is the embedder of each process's own settings.
    choice: Mapping[str, object]
    space: VectorSpace | None  # None: it holds no vectors yet


class StoreEngine(Protocol):
    """A chunk store, opened for reading, writing, and operating on the whole index."""

    def published(self) -> PublishedIndex:
        """Return the published index. Raises Unavailable when the store does not answer."""

    def writer(self, space: VectorSpace) -> ChunkStore:
        """Open the published index for writing."""

    def reader(self, space: VectorSpace) -> ChunkSearch:
        """Open the published index for searching."""

    def check(self, space: VectorSpace) -> None:
        """Raise SchemaMismatch when the published index has another schema or embedder.

        Raises Unavailable when the store does not answer.
        """

    def inventory(self) -> Inventory:
        """Open the published index for counting, whatever its embedder is."""

    def shadow_index(self, space: VectorSpace, choice: Mapping[str, object]) -> ShadowIndex:
        """Return the shadow index of the embedder that the settings in `choice` name."""

    def backup(self) -> IndexBackup:
        """Return the object that saves and restores the published index."""


class ShadowIndex(Protocol):
    """A new index of this store that is built while the published one stays in use.

    Every step can be repeated if a process died during it.
    """

    @property
    def name(self) -> str:
        """The name of the new index in the store: the same for the same schema and embedder."""

    @property
    def readers_follow_s(self) -> float:
        """The time after `publish` for which readers may still use the old index, seconds."""

    def is_published(self) -> bool:
        """Return whether the published index already has this schema and embedder."""

    def replaces(self) -> str:
        """Return the embedder identity of the published index. Raises NotIndexed without one."""

    def exists(self) -> bool:
        """Return whether a part of the new index has been built."""

    def open(self) -> ChunkStore:
        """Open the new index for writing; create it if necessary.

        Raises Unavailable if there is no room for it.
        """

    def publish(self) -> None:
        """Make it the published index, with the settings of its embedder, atomically."""

    def others(self) -> list[str]:
        """Return the unpublished indexes of this store: leftovers, or half-built ones."""

    def drop(self, name: str) -> None:
        """Remove one of `others`, if it exists."""

    def close(self) -> None:
        """Release connections."""


class IndexBackup(Protocol):
    """Saves the published index to a folder, and restores it."""

    def begin(self) -> dict[str, Any]:
        """Choose the present state as the one to save; return the facts to store with the backup.

        These are `schema`, `embedder`, `dim`, `choice` (see `PublishedIndex`), and whatever else
        `restore` needs. Raises NotIndexed if there is no index.
        """

    def save(self, folder: Path) -> None:
        """Write the index to the folder. May take long."""

    def chunks(self) -> int:
        """Return the number of chunks in the published index."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise SchemaMismatch, InvalidSettings, or NotFound if it cannot be restored here."""

    def restore(self, folder: Path, facts: Mapping[str, Any]) -> None:
        """Publish the saved index in place of any other."""

    def close(self) -> None:
        """Release files and connections."""
