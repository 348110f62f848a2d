"""Read the summaries of the published index, so that a rebuild does not lose them.

The derived-value cache has most of them, but an entry may be evicted at any time, and its key needs
the identity of the language model that wrote it, which may be unavailable or replaced. The
published index has all summaries, unless it has an older schema and cannot be read any more.

The port is asynchronous because the gateway needs it so; this module runs an event loop for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from codelode.errors import SchemaMismatch, Superseded
from codelode.model import Chunk, FileKey, RefName, RepositoryName
from codelode.ports import ChunkSearch

#: Files per request: one answer has all of their chunks, and a server allows 10,000 of them.
FILES = 8

log = structlog.get_logger("workers")


class StoredSummaries:
    """Reads summaries from the index that `open` returns on first use; None: there is none."""

    def __init__(self, open: Callable[[], ChunkSearch | None]) -> None:
        self._open = open
        self._search: ChunkSearch | None = None
        self._is_readable = True  # until reading fails
        self._loop = asyncio.Runner()

    def of(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> dict[str, tuple[Chunk, ...]]:
        """Return the stored chunks by path; empty when the index cannot be read.

        Raises Unavailable, and Superseded when another index was published.
        """
        places = [(repository, path) for path in paths]
        try:
            return {
                path: chunks
                for start in range(0, len(places), FILES)
                for path, chunks in self._chunks(places[start : start + FILES], ref)
            }
        except Superseded:
            raise
        except SchemaMismatch as exc:
            if self._is_readable:
                log.warning("old_index_unreadable", reason=str(exc))
            self._is_readable = False
            return {}

    def close(self) -> None:
        if self._search is not None:
            self._loop.run(self._search.close())
        self._search = None
        self._loop.close()

    def _chunks(
        self, places: Sequence[FileKey], ref: RefName
    ) -> list[tuple[str, tuple[Chunk, ...]]]:
        """Return the path and chunks of each file."""
        if self._search is None:
            self._search = self._open()
        if self._search is None:
            return []
        found = self._loop.run(self._search.files(places, ref))
        return [(path, chunks) for (_, path), chunks in found.items()]
