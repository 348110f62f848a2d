"""What is done with a whole index or ledger, beside the ports that jobs and searches use.

Rebuilding beside the published index, saving and bringing back, making sense of what was restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from codelode.ports import ChunkStore


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
