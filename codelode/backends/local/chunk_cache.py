"""Cache decoded chunks between searches: reading 200 chunks takes half the time of a search."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from codelode.backends.local import tables
from codelode.backends.local.column_table import ColumnTable
from codelode.backends.local.tables import Text
from codelode.model import Chunk
from codelode.names import Names

#: Capacity, in chunks of about 4 kB; a full cache drops its older half. For 614 different queries
#: on 60,000 chunks, 42 % of the candidates were cached; with a capacity of 4,096, 13 %.
MAX_CHUNKS = 16_384

_COLUMNS = ("repositories", "paths", "refs", "languages", "categories", "kinds")


class CachedChunk(NamedTuple):
    """A decoded chunk, and other values of its row that searches need."""

    chunk: Chunk
    names: Names
    refs: str  # as stored
    vector: bytes  # 16 bits a number


class ChunkCache:
    """Keeps chunks by row; safe to share between threads. Only the refs of a row ever change."""

    def __init__(self) -> None:
        self._chunks: dict[int, CachedChunk] = {}

    def take(
        self, connection: sqlite3.Connection, columns: ColumnTable, positions: Sequence[int]
    ) -> dict[int, CachedChunk]:
        """Return the chunk at each position, with the refs that it has in this snapshot."""
        rows = columns.rows[positions].tolist()
        at = dict(zip(rows, positions, strict=True))
        chunks = self._chunks
        known = {row: chunks[row] for row in rows if row in chunks}
        texts = tables.texts(connection, [row for row in rows if row not in known])
        fresh = dict(_decoded(columns, texts, [at[text.row] for text in texts]))
        if len(chunks) + len(fresh) > MAX_CHUNKS:
            chunks = self._chunks = dict(islice(chunks.copy().items(), len(chunks) // 2, None))
        chunks.update(fresh)
        known |= fresh
        refs = columns.texts_at("refs", positions)
        return {p: _under(known[row], r) for row, p, r in zip(rows, positions, refs, strict=True)}


def _decoded(
    columns: ColumnTable, texts: Sequence[Text], positions: Sequence[int]
) -> Iterator[tuple[int, CachedChunk]]:
    places = zip(*(columns.texts_at(name, positions) for name in _COLUMNS), strict=True)
    for text, place in zip(texts, places, strict=True):
        names = Names(text.spelling, text.defined, text.terms)
        yield text.row, CachedChunk(tables.chunk(text, *place), names, place[2], text.vector)


def _under(cached: CachedChunk, refs: str) -> CachedChunk:
    """Return the chunk with these refs in place of its own."""
    if refs == cached.refs:
        return cached
    return cached._replace(chunk=cached.chunk._replace(refs=tables.refs_from(refs)), refs=refs)
