"""The read side of the embedded chunk store.

Each search looks for a newer version of the table first (0.3 ms) and then works on that one
version to its end, so that it never sees half of a replacement. The two sides bring row ids and
scores; rows are read once, for the union.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
from lancedb.query import MatchQuery

from codelode.backends import words
from codelode.backends.lance import table as layout
from codelode.backends.lance.predicate import predicate
from codelode.errors import SchemaMismatch
from codelode.model import Candidate, HybridQuery, Vector

#: Partitions of the vector index that are searched: all of them up to 260,000 chunks.
PROBES = 64

#: Each field brings this many times the limit to the sum of both, so that a chunk that is good
#: in both is not lost for being just outside of one.
FIELD_DEPTH = 2

#: Vectors found in 8 bits are compared again in 16; this many times the limit are.
REFINE = 1.1

#: Rows kept while the table does not change, 4 kB each: reading 200 takes a third of a search.
MAX_ROWS_HELD = 4_096

_INDEX_CACHE_BYTES = 128 << 20

_match: Any = MatchQuery  # its types ask for every default

_Scores = dict[int, float]  # by row id


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """One version of the table, with the rows that were read of it so far."""

    version: int
    table: Any
    rows: dict[int, layout.Packed] = field(default_factory=dict)


class LanceChunkSearch:
    """Implements the port ChunkSearch. The index may come into being after this object.

    Raises SchemaMismatch when the folder was written by another schema or embedder.
    """

    def __init__(self, folder: Path, *, dim: int, identity: str) -> None:
        self._folder = folder
        self._dim = dim
        self._identity = identity
        layout.check(folder, dim=dim, identity=identity)
        self._connection: Any = None
        self._probe: Any = None  # follows the newest version; never searched
        self._current: _Snapshot | None = None

    async def hybrid(self, query: HybridQuery) -> Sequence[Candidate]:
        with layout.translated(self._folder):
            newest = await self._newest()
            if newest is None or query.limit <= 0:
                return []
            return await self._candidates(newest, query)

    async def count(self) -> int:
        with layout.translated(self._folder):
            newest = await self._newest()
            return 0 if newest is None else int(await newest.table.count_rows())

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._probe = self._current = None

    async def _newest(self) -> _Snapshot | None:
        """The newest version, or None while there is no index."""
        if self._probe is None and not await self._connect():
            return None
        await self._probe.checkout_latest()
        current = self._current
        if current is None or current.version != await self._probe.version():
            table = await self._connection.open_table(layout.TABLE)
            current = self._current = _Snapshot(await table.version(), table)
        return current

    async def _connect(self) -> bool:
        if not layout.check(self._folder, dim=self._dim, identity=self._identity):
            return False
        session = layout.session(_INDEX_CACHE_BYTES)
        self._connection = await lancedb.connect_async(self._folder, session=session)
        self._probe = await self._connection.open_table(layout.TABLE)
        return True

    async def _candidates(self, snapshot: _Snapshot, query: HybridQuery) -> list[Candidate]:
        where = predicate(query.filters)
        keyword, near = await asyncio.gather(
            _keyword(snapshot.table, query, where), self._near(snapshot.table, query, where)
        )
        rows = await self._read(snapshot, keyword.keys() | near)
        similarity = _similarities({row: rows[row].vector for row in near}, query)
        return [
            Candidate(rows[row].chunk, keyword.get(row), similarity.get(row))
            for row in keyword.keys() | similarity.keys()
        ]

    async def _near(self, table: Any, query: HybridQuery, where: str) -> Set[int]:
        """Row ids near the query vector, somewhat more than asked for, roughly compared."""
        if query.vector is None or not query.vector.any():
            return frozenset()
        self._require_dim(query.vector)
        search = table.query().nearest_to(query.vector).distance_type("cosine").nprobes(PROBES)
        found = await _top(search, where, math.ceil(query.limit * REFINE), "_distance")
        return found.keys()

    async def _read(self, snapshot: _Snapshot, rows: Set[int]) -> Mapping[int, layout.Packed]:
        known = {row: snapshot.rows[row] for row in rows & snapshot.rows.keys()}
        unknown = sorted(rows - known.keys())
        if not unknown:
            return known
        search = snapshot.table.take_row_ids(unknown).select(["packed"]).with_row_id()
        found = await search.to_arrow()
        values = (layout.unpack(value, self._dim) for value in found["packed"].to_pylist())
        fresh = dict(zip(found["_rowid"].to_pylist(), values, strict=True))
        if len(snapshot.rows) + len(fresh) > MAX_ROWS_HELD:
            snapshot.rows.clear()
        snapshot.rows.update(fresh)
        return known | fresh

    def _require_dim(self, vector: Vector) -> None:
        if vector.shape != (self._dim,):
            raise SchemaMismatch(
                f"the query's vector is {vector.shape}, {self._folder} has {self._dim} dimensions: "
                "set CODELODE_EMBEDDER to the one that indexed"
            )


def _similarities(near: Mapping[int, Vector], query: HybridQuery) -> _Scores:
    """The cosine of each vector and the query's; the best `limit` of them."""
    if query.vector is None or not near:
        return {}
    vectors = np.stack(list(near.values()))
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query.vector)
    return _best(
        dict(zip(near, (vectors @ query.vector / lengths).tolist(), strict=True)), query.limit
    )


async def _keyword(table: Any, query: HybridQuery, where: str) -> _Scores:
    """BM25 of the two fields, summed: the library's own sum takes 20 ms, both fields alone 3."""
    terms = " ".join(words.query_terms(query.text))
    if not terms:
        return {}
    depth = query.limit * FIELD_DEPTH
    fields = [
        _top(table.query().nearest_to_text(_match(terms, column)), where, depth, "_score")
        for column in ("name_terms", "terms")
    ]
    names, contents = await asyncio.gather(*fields)
    scores = {
        row: words.NAME_WEIGHT * names.get(row, 0.0) + contents.get(row, 0.0)
        for row in names.keys() | contents.keys()
    }
    return _best(scores, query.limit)


async def _top(search: Any, where: str, limit: int, score: str) -> _Scores:
    found = await search.where(where).limit(limit).with_row_id().select([score]).to_arrow()
    return dict(zip(found["_rowid"].to_pylist(), found[score].to_pylist(), strict=True))


def _best(scores: _Scores, limit: int) -> _Scores:
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit])
