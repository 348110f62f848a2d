"""The read side of the embedded chunk store."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from codelode import deadline
from codelode.access import Visibility
from codelode.backends.chunk_stores import by_file, require_dim
from codelode.backends.local import database, retrieval, signature, tables
from codelode.backends.local.chunk_cache import ChunkCache
from codelode.backends.local.column_table import ColumnTable
from codelode.backends.local.dictionary import Mask
from codelode.backends.local.errors import translated
from codelode.backends.local.snapshots import NotLoaded, Snapshot, Snapshots
from codelode.fusion import shortlist
from codelode.grams import NOTHING, Grams
from codelode.model import (
    Candidate,
    Chunk,
    FileKey,
    FileQuery,
    FileText,
    HybridQuery,
    RefName,
)
from codelode.vectors import Vector

#: Number of threads that compare vectors for all searches; each looks up words in its own thread.
THREADS = 8

#: A query of at most so many characters for at most so many candidates of each kind, in an index of
#: at most so many chunks, takes about 5 ms. It runs in the thread of the event loop: a gateway with
#: four callers answers 14 % more searches, because threads wait for the interpreter's lock.
MAX_CHARS_AT_ONCE = 300
MAX_LIMIT_AT_ONCE = 400
MAX_AT_ONCE = 250_000


class _Index(NamedTuple):
    """The open database file with its chunk cache."""

    snapshots: Snapshots
    cache: ChunkCache


class LocalChunkSearch:
    """Implements the port ChunkSearch. The index may be created after this object.

    Raises SchemaMismatch when the folder was written with another schema or embedder.
    """

    def __init__(self, folder: Path, *, dim: int, identity: str) -> None:
        self._folder = folder
        self._dim = dim
        self._identity = identity
        self._lock = threading.Lock()
        self._opened: _Index | None = None
        self._is_small = False  # as far as known: of the snapshot that was read last
        self._beside = ThreadPoolExecutor(THREADS, thread_name_prefix="vectors")
        signature.check(folder, dim=dim, identity=identity)

    async def hybrid(self, asked: HybridQuery) -> Sequence[Candidate]:
        try:
            if self._is_small and _is_quick(asked):
                return self._hybrid(asked, at_once=True)
        except NotLoaded:
            pass
        return await asyncio.to_thread(self._hybrid, asked)

    async def holding(self, asked: FileQuery) -> Sequence[FileKey]:
        return await asyncio.to_thread(self._holding, asked)

    async def files(
        self, places: Sequence[FileKey], ref: RefName
    ) -> Mapping[FileKey, tuple[Chunk, ...]]:
        return await asyncio.to_thread(self._files, places, ref)

    async def texts(
        self, places: Sequence[FileKey], ref: RefName, needed: Grams = NOTHING
    ) -> Mapping[FileKey, FileText]:
        return await asyncio.to_thread(self._texts, places, ref, needed)

    async def count(self, visible: Visibility) -> int:
        return await asyncio.to_thread(self._count, visible)

    async def close(self) -> None:
        with self._lock:
            self._close()

    def _hybrid(self, query: HybridQuery, *, at_once: bool = False) -> list[Candidate]:
        """Return the candidates. Raises NotLoaded if `at_once` and the index has to be loaded."""
        with translated(self._folder):
            index = self._index(opens=not at_once)
            if index is None or query.limit <= 0:
                return []
            with index.snapshots.reading(loads=not at_once) as (connection, snapshot):
                self._is_small = len(snapshot.columns.rows) <= MAX_AT_ONCE
                return self._candidates(connection, snapshot, index.cache, query)

    def _holding(self, asked: FileQuery) -> list[FileKey]:
        query = asked.bounded()
        with translated(self._folder):
            index = self._index()
            if index is None or query is None:
                return []
            with index.snapshots.reading() as (_, snapshot):
                return retrieval.files(snapshot, query)

    def _files(self, places: Sequence[FileKey], ref: RefName) -> dict[FileKey, tuple[Chunk, ...]]:
        chunks: list[Chunk] = []
        with translated(self._folder):
            index = self._index()
            if index is not None and places:
                with index.snapshots.reading() as (connection, snapshot):
                    rows = np.array(
                        tables.of_files(connection, list(dict.fromkeys(places)), ref), np.int64
                    )
                    positions = snapshot.columns.positions(rows).tolist()
                    found = index.cache.take(connection, snapshot.columns, positions)
                chunks = [found[at].chunk for at in positions]
        return by_file(places, chunks)

    def _texts(
        self, places: Sequence[FileKey], ref: RefName, needed: Grams
    ) -> dict[FileKey, FileText]:
        with translated(self._folder):
            index = self._index()
            if index is None or not places:
                return {}
            with index.snapshots.reading() as (connection, snapshot):
                distinct = list(dict.fromkeys(places))
                return retrieval.texts(connection, snapshot, distinct, ref, needed)

    def _count(self, visible: Visibility) -> int:
        with translated(self._folder):
            index = self._index()
            if index is None:
                return 0
            with index.snapshots.reading() as (_, snapshot):
                return snapshot.columns.count(visible)

    def _index(self, *, opens: bool = True) -> _Index | None:
        """Return the open index, reopened if the file was replaced; None: there is no index.

        Raises NotLoaded if `opens` is false and the index is not open.
        """
        number, opened = database.file_number(self._folder), self._opened
        if opened is not None and number is not None and opened.snapshots.number == number:
            return opened
        if not opens:
            raise NotLoaded
        if not signature.check(self._folder, dim=self._dim, identity=self._identity):
            return None
        with self._lock:
            if self._opened is None or self._opened.snapshots.number != number:
                self._close()
                self._opened = _Index(Snapshots(self._folder, dim=self._dim), ChunkCache())
            return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.snapshots.close()
        self._opened = None

    def _candidates(
        self,
        connection: sqlite3.Connection,
        snapshot: Snapshot,
        cache: ChunkCache,
        query: HybridQuery,
    ) -> list[Candidate]:
        columns = snapshot.columns
        mask = columns.inside(query.filters, query.visible)
        deadline.check()
        # Vectors and words are searched in parallel, because both release the interpreter's lock.
        vectors = self._beside.submit(copy_context().run, self._near, columns, query, mask)
        keyword = retrieval.keyword(snapshot, query, mask)
        near = vectors.result()
        deadline.check()
        worth_reading = _worth_reading(columns, query, list(keyword), near)
        shown = cache.take(connection, columns, sorted(worth_reading))
        similarity = retrieval.similarities(
            {at: shown[at].vector for at in near if at in shown}, query
        )
        return [
            Candidate(
                shown[at].chunk,
                keyword.get(at),
                similarity.get(at),
                _vector(shown[at].vector) if query.with_vectors else None,
                shown[at].names,
            )
            for at in shown.keys() & (keyword.keys() | similarity.keys())
        ]

    def _near(self, columns: ColumnTable, query: HybridQuery, mask: Mask) -> list[int]:
        """Return positions near the query vector by 8-bit cosine, a few more than the limit."""
        if query.vector is None or not query.vector.any():
            return []
        require_dim(query.vector, self._dim, index=self._folder)
        return retrieval.nearest(
            columns, query.vector, mask, math.ceil(query.limit * retrieval.REFINE)
        )


def _is_quick(query: HybridQuery) -> bool:
    filters = query.filters
    is_globbed = filters.paths or filters.within or filters.not_paths or filters.symbols
    is_short = len(query.text) <= MAX_CHARS_AT_ONCE and query.limit <= MAX_LIMIT_AT_ONCE
    return is_short and not is_globbed


def _worth_reading(
    columns: ColumnTable, query: HybridQuery, keyword: Sequence[int], near: Sequence[int]
) -> list[int]:
    """Return the positions worth reading among the keyword and vector results."""
    codes = set(columns.dictionaries.categories.codes(query.secondary))
    categories = columns.codes["categories"]
    return shortlist(
        [keyword, near], query.total_limit, is_secondary=lambda at: categories[at] in codes
    )


def _vector(stored: bytes) -> Vector | None:
    """Decode a vector; None for zeros, which mean that there is none."""
    return np.frombuffer(stored, "<f2").astype(np.float32) if any(stored) else None
