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
        """Return what saves and restores the published index."""


class ShadowIndex(Protocol):
    """A new index of this store that is built beside the published one.

    Every step may be repeated after a process that died in it.
    """

    @property
    def name(self) -> str:
        """Of the new index in the store: equal for equal schema and embedder."""

    @property
    def readers_follow_s(self) -> float:
        """How long after `publish` readers may go on with the old index, seconds."""

    def is_published(self) -> bool:
        """Whether the published index is of this schema and embedder already."""

    def replaces(self) -> str:
        """The identity of the published index's embedder. Raises NotIndexed when there is none."""

    def exists(self) -> bool:
        """Whether something was built before."""

    def open(self) -> ChunkStore:
        """The write side of the new index, made when it is not there.

        Raises Unavailable when there is no room for it.
        """

    def publish(self) -> None:
        """Make it the published index, with the settings of its embedder, in one step."""

    def others(self) -> list[str]:
        """The indexes of this store that are not published: left over, or half built."""

    def drop(self, name: str) -> None:
        """Remove one of the others; not an error when it is none."""

    def close(self) -> None:
        """Release connections."""


class IndexBackup(Protocol):
    """The published index, saved to a folder and back."""

    def begin(self) -> dict[str, Any]:
        """Fix what is saved: the state of this moment. Returns facts to keep beside it.

        `schema`, `embedder`, `dim`, `choice` (see `Published`), and what else `restore` needs.
        Raises NotIndexed when there is no index.
        """

    def save(self, folder: Path) -> None:
        """Write it. May take long."""

    def chunks(self) -> int:
        """How many chunks are in the published index."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise SchemaMismatch, InvalidSettings or NotFound when it cannot be restored here."""

    def restore(self, folder: Path, facts: Mapping[str, Any]) -> None:
        """Make it the published index, in the place of any other."""

    def close(self) -> None:
        """Release files and connections."""
