"""The read side of the clustered chunk store.

Two queries at once, words and vector, instead of the server's own hybrid query: that fuses both
sides to one list and cuts it, but ranking here wants the best of each side with its own score. On
43,716 chunks, of the 72 chunks worth ranking the hybrid query brought .78 with a limit of 100, .90
with 150 and .94 with 200. Scores also come as numbers, not inside an explanation in prose, where
fusing by ranks leaves them out. What it would cost in the gateway is in
`tests/bench/results/2026-11-23-one-query.txt`: at equal quality, a quarter more time.

Where no glob has to be looked at, the vector side brings its chunks along: on 506,956 chunks it is
through 2.4 ms before the other one, and they cost it 1.3 ms. Words bring ids alone, for where
chunks are asked for the server makes whole objects of all that words found, which takes 3.4 ms.
Those worth ranking that were neither brought nor read before, about 25, are fetched in 2.4 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TypeAlias, TypeVar

from weaviate import WeaviateAsyncClient
from weaviate.proto.v1 import base_pb2

from codelode.backends import words
from codelode.backends.weaviate import versions
from codelode.backends.weaviate.asking import FoundObject, TenantObjects, message
from codelode.backends.weaviate.bulk import PAGE
from codelode.backends.weaviate.connection import Address, connect_async, ready
from codelode.backends.weaviate.failures import LOST, is_lost, translated
from codelode.backends.weaviate.index import Place, Version
from codelode.backends.weaviate.objects import SHOWN, Kept, Shown, category_of, unpack
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
from codelode.model import Candidate, Chunk, ChunkId, Filters, HybridQuery, RefName

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

T = TypeVar("T")


#: Limit, properties → hits, best first.
_Side: TypeAlias = Callable[[int, Sequence[str]], Awaitable[list[FoundObject]]]


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
        self._current: TenantObjects | None = None
        self._looked_at = float("-inf")
        self._was_there = False
        self._kept = Kept()

    async def hybrid(self, query: HybridQuery) -> Sequence[Candidate]:
        where = _where(query.filters)
        if where is None or query.limit <= 0:
            return []
        self._require_dim(query)

        async def both(tenant: TenantObjects) -> Sequence[Candidate]:
            keyword, near = _keyword(tenant, query, where), _near(tenant, query, where)
            if not has_globs(query.filters):
                hits = await _both(keyword(query.limit, ()), self._shown(near, query))
                found = await self._union(tenant, query, *hits)
                if found is not None:
                    return found
            admits = admission(query.filters)
            sides = (self._best(side, query.limit, admits) for side in (keyword, near))
            return await self._union(tenant, query, *await _both(*sides)) or ()

        return await self._ask(both, empty=[])

    async def files(
        self, places: Sequence[FilePlace], ref: RefName
    ) -> Mapping[FilePlace, tuple[Chunk, ...]]:
        async def fetched(tenant: TenantObjects) -> Sequence[Chunk]:
            hits = await tenant.all(message(in_files(places, ref)), SHOWN)
            return [unpack(hit.properties).chunk for hit in hits]

        held: dict[FilePlace, list[Chunk]] = {place: [] for place in places}
        found: Sequence[Chunk] = await self._ask(fetched, empty=()) if places else ()
        for chunk in found:
            if (place := (chunk.repository, chunk.path)) in held:  # not only spelt alike
                held[place].append(chunk)
        return {place: tuple(sorted(chunks, key=_lines)) for place, chunks in held.items()}

    async def count(self) -> int:
        return await self._ask(TenantObjects.count, empty=0)

    async def close(self) -> None:
        client, self._client = self._client, None
        self._current = None
        if client is not None:
            await client.close()

    async def _shown(self, side: _Side, query: HybridQuery) -> list[FoundObject]:
        """The hits of a side with their chunks.

        Chunks are made of those that are worth ranking whatever the other side brings, but for a
        few, as soon as they are here: that one is still under way.
        """
        hits = await side(query.limit, SHOWN)
        for hit in hits if query.most is None else hits[: query.most // 2]:
            if category_of(hit.id) not in query.secondary:
                self._kept.of(hit)
        return hits

    async def _union(
        self,
        tenant: TenantObjects,
        query: HybridQuery,
        keyword: Sequence[FoundObject],
        near: Sequence[FoundObject],
    ) -> list[Candidate] | None:
        """What is worth ranking of both sides.

        None: one that words alone found went before it was read, for its file was replaced; what
        took its place would be missed. What came with its chunk is shown as it was found.
        """
        best = shortlist(
            [[hit.id for hit in side] for side in (keyword, near)],
            query.most,
            is_secondary=lambda id: category_of(id) in query.secondary,
        )
        words_found, near_found = ({hit.id: hit for hit in side} for side in (keyword, near))
        hits = words_found | near_found
        shown = await self._read(tenant, [hits[id] for id in best])
        if len(shown) < len(best):
            return None
        candidates: dict[ChunkId, Candidate] = {}
        for id in best:
            chunk, names = shown[id]
            of_words, of_vector = words_found.get(id), near_found.get(id)
            candidate = Candidate(
                chunk,
                of_words and of_words.score,
                of_vector and of_vector.score,
                hits[id].vector,
                names,
            )
            candidates.setdefault(chunk.id, candidate)  # while it is replaced there are two of it
        return list(candidates.values())

    async def _read(
        self, tenant: TenantObjects, hits: Sequence[FoundObject]
    ) -> Mapping[bytes, Shown]:
        """The chunks of hits; those that came without are fetched, unless they are kept."""
        shown = self._kept.known(hit.id for hit in hits)
        missing = []
        for hit in hits:
            if hit.id in shown:
                continue
            if hit.has_properties:
                shown[hit.id] = self._kept.of(hit)
            else:
                missing.append(hit.id)
        if missing:
            fetched = await tenant.by_id(missing, SHOWN)
            shown |= {hit.id: self._kept.of(hit) for hit in fetched}
        return shown

    async def _best(
        self, side: _Side, limit: int, admits: Callable[[Chunk], bool]
    ) -> list[FoundObject]:
        """The best hits of a side that are inside the globs, at most `limit`, with their chunks."""
        asked = limit
        while True:
            hits = await side(asked, SHOWN)
            inside = [hit for hit in hits if admits(self._kept.of(hit).chunk)]
            if len(inside) >= limit or len(hits) < asked or asked >= PAGE:
                return inside[:limit]
            asked = min(WIDER * asked, PAGE)

    async def _ask(self, call: Callable[[TenantObjects], Awaitable[T]], *, empty: T) -> T:
        """What the call makes of the index; `empty` while there is none."""
        try:
            return await self._ask_once(call, empty)
        except Corrupt as exc:
            if not is_lost(exc):
                raise
            self._current = None  # another index may have taken its place, the old one is gone
        return await self._ask_once(call, empty)

    async def _ask_once(self, call: Callable[[TenantObjects], Awaitable[T]], empty: T) -> T:
        tenant = self._known()
        if tenant is None:
            tenant = await self._patience(self._tenant())
        return empty if tenant is None else await self._patience(call(tenant))

    def _known(self) -> TenantObjects | None:
        """The tenant's objects where they were looked for lately."""
        is_fresh = time.monotonic() - self._looked_at <= FOLLOW_S
        return self._current if is_fresh else None

    async def _tenant(self) -> TenantObjects | None:
        """The tenant's objects in the collection that is current now.

        The alias is the leader's to tell, of several nodes: while they elect one, which takes
        ten seconds, the collection known so far cannot be replaced and goes on answering. A server
        that fails to tell it may do so for the same reason; one that is gone fails the search.
        """
        async with self._opening:
            if self._current is None:
                self._current = await self._open()
                self._looked_at = time.monotonic()
            elif self._known() is None:
                with suppress(TimeoutError, Unavailable):
                    async with asyncio.timeout(LOOK_S):
                        with translated():
                            self._current = await self._open()
                self._looked_at = time.monotonic()
            return self._current

    async def _open(self) -> TenantObjects | None:
        if self._client is None:
            self._client = await connect_async(self._address)
        known = None if self._current is None else self._current.collection
        name = await versions.find(self._client, self._place, self._version, known=known)
        if name is None:
            if self._was_there:
                raise Corrupt(LOST)
            return None
        self._was_there = True
        return TenantObjects(self._client, collection=name, tenant=self._place.tenant)

    def _require_dim(self, query: HybridQuery) -> None:
        if query.vector is not None and query.vector.shape != (self._version.dim,):
            raise SchemaMismatch(
                f"the query's vector is {query.vector.shape}, {self._place.alias} has "
                f"{self._version.dim} dimensions: set CODELODE_EMBEDDER to the one that indexed"
            )


def _keyword(tenant: TenantObjects, query: HybridQuery, where: base_pb2.Filters) -> _Side:
    terms = " ".join(words.query_terms(query.text))

    async def ask(limit: int, properties: Sequence[str]) -> list[FoundObject]:
        if not terms:
            return []
        return await tenant.by_words(
            terms,
            FIELDS,
            where=where,
            limit=limit,
            properties=properties,
            with_vectors=query.with_vectors,
        )

    return ask


def _near(tenant: TenantObjects, query: HybridQuery, where: base_pb2.Filters) -> _Side:
    vector = query.vector

    async def ask(limit: int, properties: Sequence[str]) -> list[FoundObject]:
        if vector is None or not vector.any():
            return []
        return await tenant.by_vector(
            vector,
            where=where,
            limit=limit,
            properties=properties,
            with_vectors=query.with_vectors,
        )

    return ask


async def _both(
    keyword: Awaitable[list[FoundObject]], near: Awaitable[list[FoundObject]]
) -> tuple[list[FoundObject], list[FoundObject]]:
    """What both sides bring; where one fails, the other one is ended."""
    tasks = [asyncio.ensure_future(side) for side in (keyword, near)]
    try:
        words_found, near_found = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return words_found, near_found


@lru_cache(maxsize=16)
def _where(filters: Filters) -> base_pb2.Filters | None:
    """The condition as the server takes it. Most searches have one of a few; of thousands of
    globs it takes megabytes.
    """
    where = condition(filters)
    return None if where is None else message(where)


def _lines(chunk: Chunk) -> tuple[int, int]:
    return chunk.start_line, chunk.end_line
