"""The read side of the clustered chunk store.

Two queries at once, words and vector, instead of the server's own hybrid query: that fuses both
sides to one list and cuts it, but ranking here wants the best of each side with its own score. On
20,000 chunks, of the 100 best of each side the hybrid query brought .54 with a limit of 100 (30 ms
at the median), .91 with 200 (42 ms; .77 in the worst of 30 queries), all with 400 (79 ms); the two
queries bring them in 38 ms. Scores also come as numbers, not inside an explanation in prose.

Where no glob has to be looked at, both bring ids alone: chunks read before are kept, and only the
others are fetched, in a third query. On 43,716 chunks the two take 9.6 ms, with the chunks
themselves 16.7 ms, for the server then makes whole objects of what words found; fetching a hundred
takes 6.8 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from weaviate import WeaviateAsyncClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.query import Filter, MetadataQuery
from weaviate.collections import CollectionAsync
from weaviate.collections.classes.filters import FilterReturn

from codelode.backends import words
from codelode.backends.weaviate import versions
from codelode.backends.weaviate.connection import Address, connect_async, ready
from codelode.backends.weaviate.failures import LOST, is_lost, translated
from codelode.backends.weaviate.index import VECTOR, Place, Version
from codelode.backends.weaviate.objects import SHOWN, Chunks, unpack
from codelode.backends.weaviate.patience import Patience
from codelode.backends.weaviate.predicate import (
    FilePlace,
    admission,
    condition,
    has_globs,
    in_files,
)
from codelode.errors import Corrupt, SchemaMismatch, Unavailable
from codelode.fusion import shortlist
from codelode.model import Candidate, Chunk, ChunkId, HybridQuery, RefName, Vector

#: The searched properties, each with the weight of its score.
FIELDS = [
    f"name_terms^{words.NAME_WEIGHT}",
    "terms",
    f"summary_terms^{words.SUMMARY_WEIGHT}",
]

#: How long the collection behind the alias is taken for the current one, seconds.
FOLLOW_S = 5.0

#: Longest wait to be told of another one, seconds.
LOOK_S = 0.5

#: A glob that the server knows only roughly costs hits: then this many times as many are asked
#: for, up to the server's own bound.
WIDER = 8
MOST_ASKED = 10_000

T = TypeVar("T")
_Objects: TypeAlias = CollectionAsync[Any, Any]


class _Hit(NamedTuple):
    """What one side brought, best first."""

    id: UUID
    score: float
    vector: Vector | None
    properties: Mapping[str, Any]  # those asked for


class _Found(NamedTuple):
    """A hit whose chunk was read."""

    chunk: Chunk
    score: float
    vector: Vector | None


#: Limit, properties → hits.
_Side: TypeAlias = Callable[[int, list[str]], Awaitable[list[_Hit]]]


class WeaviateChunkSearch:
    """Implements the port ChunkSearch for one event loop; connects at the first call.

    The index may come into being after this object. Raises SchemaMismatch when it was written by
    another schema or embedder.
    """

    def __init__(self, address: Address, place: Place, *, dim: int, identity: str) -> None:
        self._address = address
        self._place = place
        self._version = Version(identity, dim)
        self._client: WeaviateAsyncClient | None = None
        self._opening = asyncio.Lock()
        self._patience = Patience(lambda: ready(address))
        self._current: _Objects | None = None
        self._looked_at = float("-inf")
        self._was_there = False
        self._chunks = Chunks()

    async def hybrid(self, query: HybridQuery) -> Sequence[Candidate]:
        where = condition(query.filters)
        if where is None or query.limit <= 0:
            return []
        self._require_dim(query)

        async def both(objects: _Objects) -> Sequence[Candidate]:
            sides = (_keyword(objects, query, where), _near(objects, query, where))
            found = None
            if not has_globs(query.filters):
                found = await self._by_id(objects, sides, query.limit)
            if found is None:
                admits = admission(query.filters)
                found = await asyncio.gather(
                    *(self._best(side, query.limit, admits) for side in sides)
                )
            return _union(query, *found)

        return await self._ask(both, empty=[])

    async def files(
        self, places: Sequence[FilePlace], ref: RefName
    ) -> Mapping[FilePlace, tuple[Chunk, ...]]:
        async def fetched(objects: _Objects) -> Sequence[Chunk]:
            where = in_files(places, ref)
            answer = await objects.query.fetch_objects(
                filters=where, limit=MOST_ASKED, return_properties=SHOWN
            )
            return [unpack(one.properties) for one in answer.objects]

        held: dict[FilePlace, list[Chunk]] = {place: [] for place in places}
        found: Sequence[Chunk] = await self._ask(fetched, empty=()) if places else ()
        for chunk in found:
            held[chunk.repository, chunk.path].append(chunk)
        return {place: tuple(sorted(chunks, key=_lines)) for place, chunks in held.items()}

    async def count(self) -> int:
        async def total(objects: _Objects) -> int:
            return (await objects.aggregate.over_all(total_count=True)).total_count or 0

        return await self._ask(total, empty=0)

    async def close(self) -> None:
        client, self._client = self._client, None
        self._current = None
        if client is not None:
            await client.close()

    async def _by_id(
        self, objects: _Objects, sides: Sequence[_Side], limit: int
    ) -> list[list[_Found]] | None:
        """What each side finds, its chunks fetched after the ids.

        None: one of them went in between, for its file was replaced; the new ones would be missed.
        """
        hits = await asyncio.gather(*(side(limit, []) for side in sides))
        chunks = self._chunks.known(hit.id for side in hits for hit in side)
        missing = [id for id, chunk in chunks.items() if chunk is None]
        if missing:
            where = Filter.by_id().contains_any(missing)
            fetched = await objects.query.fetch_objects(
                filters=where, limit=len(missing), return_properties=SHOWN
            )
            if len(fetched.objects) < len(missing):
                return None
            chunks |= {
                one.uuid: self._chunks.of(one.uuid, one.properties) for one in fetched.objects
            }
        return [
            [_Found(chunk, hit.score, hit.vector) for hit in side if (chunk := chunks[hit.id])]
            for side in hits
        ]

    async def _best(self, side: _Side, limit: int, admits: Callable[[Chunk], bool]) -> list[_Found]:
        """The best hits of a side that are inside the globs, at most `limit`."""
        asked = limit
        while True:
            hits = await side(asked, SHOWN)
            read = (
                _Found(self._chunks.of(hit.id, hit.properties), hit.score, hit.vector)
                for hit in hits
            )
            inside = [one for one in read if admits(one.chunk)]
            if len(inside) >= limit or len(hits) < asked or asked >= MOST_ASKED:
                return inside[:limit]
            asked = min(WIDER * asked, MOST_ASKED)

    async def _ask(self, call: Callable[[_Objects], Awaitable[T]], *, empty: T) -> T:
        """What the call makes of the index; `empty` while there is none."""
        try:
            return await self._ask_once(call, empty)
        except Corrupt as exc:
            if not is_lost(exc):
                raise
            self._current = None  # another index may have taken its place, the old one is gone
        return await self._ask_once(call, empty)

    async def _ask_once(self, call: Callable[[_Objects], Awaitable[T]], empty: T) -> T:
        objects = await self._patience(self._objects())
        return empty if objects is None else await self._patience(call(objects))

    async def _objects(self) -> _Objects | None:
        """The tenant's objects in the collection that is current now.

        The alias is the leader's to tell, of several nodes: while they elect one, which takes
        ten seconds, the collection known so far cannot be replaced and goes on answering. A server
        that fails to tell it may do so for the same reason; one that is gone fails the search.
        """
        async with self._opening:
            if self._current is None:
                self._current = await self._open()
                self._looked_at = time.monotonic()
            elif time.monotonic() - self._looked_at > FOLLOW_S:
                with suppress(TimeoutError, Unavailable):
                    async with asyncio.timeout(LOOK_S):
                        with translated():
                            self._current = await self._open()
                self._looked_at = time.monotonic()
            return self._current

    async def _open(self) -> _Objects | None:
        if self._client is None:
            self._client = await connect_async(self._address)
        known = None if self._current is None else self._current.name
        name = await versions.find(self._client, self._place, self._version, known=known)
        if name is None:
            if self._was_there:
                raise Corrupt(LOST)
            return None
        self._was_there = True
        objects = self._client.collections.use(name).with_tenant(self._place.tenant)
        return objects.with_consistency_level(ConsistencyLevel.QUORUM)

    def _require_dim(self, query: HybridQuery) -> None:
        if query.vector is not None and query.vector.shape != (self._version.dim,):
            raise SchemaMismatch(
                f"the query's vector is {query.vector.shape}, {self._place.alias} has "
                f"{self._version.dim} dimensions: set CODELODE_EMBEDDER to the one that indexed"
            )


def _keyword(objects: _Objects, query: HybridQuery, where: FilterReturn) -> _Side:
    terms = " ".join(words.query_terms(query.text))

    async def ask(limit: int, properties: list[str]) -> list[_Hit]:
        if not terms:
            return []
        answer = await objects.query.bm25(
            terms,
            query_properties=FIELDS,
            limit=limit,
            filters=where,
            return_metadata=MetadataQuery(score=True),
            return_properties=properties,
            include_vector=query.with_vectors,
        )
        return [
            _Hit(one.uuid, one.metadata.score or 0.0, _vector(one.vector), one.properties)
            for one in answer.objects
        ]

    return ask


def _near(objects: _Objects, query: HybridQuery, where: FilterReturn) -> _Side:
    vector = query.vector

    async def ask(limit: int, properties: list[str]) -> list[_Hit]:
        if vector is None or not vector.any():
            return []
        answer = await objects.query.near_vector(
            vector.tolist(),
            target_vector=VECTOR,
            limit=limit,
            filters=where,
            return_metadata=MetadataQuery(distance=True),
            return_properties=properties,
            include_vector=query.with_vectors,
        )
        return [
            _Hit(
                one.uuid, 1.0 - (one.metadata.distance or 0.0), _vector(one.vector), one.properties
            )
            for one in answer.objects
        ]

    return ask


def _union(
    query: HybridQuery, keyword: Sequence[_Found], near: Sequence[_Found]
) -> list[Candidate]:
    """What is worth ranking of both sides."""
    found = {one.chunk.id: one for one in (*near, *keyword)}
    scores, similarities = _by_id(keyword), _by_id(near)
    best = shortlist(
        [[one.chunk.id for one in side] for side in (keyword, near)],
        query.most,
        is_secondary=lambda id: found[id].chunk.category in query.secondary,
    )
    return [
        Candidate(found[id].chunk, scores.get(id), similarities.get(id), found[id].vector)
        for id in best
    ]


def _by_id(found: Sequence[_Found]) -> Mapping[ChunkId, float]:
    return {one.chunk.id: one.score for one in reversed(found)}  # of two makings, the better


def _vector(stored: Mapping[str, Any]) -> Vector | None:
    """None when it was not asked for, or there is none."""
    return np.array(stored[VECTOR], np.float32) if VECTOR in stored else None


def _lines(chunk: Chunk) -> tuple[int, int]:
    return chunk.start_line, chunk.end_line
