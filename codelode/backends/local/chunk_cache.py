"""Chunks as they are shown, kept for the next search: reading 200 takes half of one."""

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

#: Chunks kept, 4 kB each; then the older half goes. Of 614 unlike queries to 60,000 chunks 42 % of
#: the candidates were there, with 4,096 kept 13 %.
MAX_CHUNKS = 16_384

_PLACE = ("repositories", "paths", "refs", "languages", "categories", "kinds")


class Shown(NamedTuple):
    chunk: Chunk
    names: Names
    refs: str  # as stored
    vector: bytes  # 16 bits a number


class ChunkCache:
    """Chunks by row, for any number of threads: of a row all but its refs never changes."""

    def __init__(self) -> None:
        self._held: dict[int, Shown] = {}

    def take(
        self, connection: sqlite3.Connection, columns: ColumnTable, positions: Sequence[int]
    ) -> dict[int, Shown]:
        """The chunk at each of the positions, under the refs that it has in this state."""
        rows = columns.rows[positions].tolist()
        at = dict(zip(rows, positions, strict=True))
        held = self._held
        known = {row: held[row] for row in rows if row in held}
        texts = tables.texts(connection, [row for row in rows if row not in known])
        fresh = dict(_decoded(columns, texts, [at[text.row] for text in texts]))
        if len(held) + len(fresh) > MAX_CHUNKS:
            held = self._held = dict(islice(held.copy().items(), len(held) // 2, None))
        held.update(fresh)
        known |= fresh
        refs = columns.texts_at("refs", positions)
        return {p: _under(known[row], r) for row, p, r in zip(rows, positions, refs, strict=True)}


def _decoded(
    columns: ColumnTable, texts: Sequence[Text], positions: Sequence[int]
) -> Iterator[tuple[int, Shown]]:
    places = zip(*(columns.texts_at(name, positions) for name in _PLACE), strict=True)
    for text, place in zip(texts, places, strict=True):
        names = Names(text.spelling, text.defined, text.terms)
        yield text.row, Shown(tables.chunk(text, *place), names, place[2], text.vector)


def _under(shown: Shown, refs: str) -> Shown:
    """The same under these refs; all else of a row never changes."""
    if refs == shown.refs:
        return shown
    return shown._replace(chunk=shown.chunk._replace(refs=tables.refs_from(refs)), refs=refs)
