"""The read side of the clustered chunk store.

A search with words and a vector is one hybrid query of the server: filters come before either side
ranks, both find their best, the best of both together come back, with the scores that each side
gave them. What two queries instead, of which nothing is cut off, would find and take is in
`docs/ranking.md`.

Where no glob has to be looked at, ids alone are brought, which tell what is worth ranking; where
chunks are asked for, the server makes whole objects of all that either side found, which takes
3 ms. Those worth ranking that were not read before are fetched by id, many in two halves, so that
chunks are made of one while the other is under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import attrgetter
from typing import TypeAlias, TypeVar

from weaviate import WeaviateAsyncClient
from weaviate.proto.v1 import base_pb2

from codelode.access import Visibility
from codelode.backends import words
from codelode.backends.weaviate import versions
from codelode.backends.weaviate.asking import FoundObject, TenantObjects, message
from codelode.backends.weaviate.batch import PAGE
from codelode.backends.weaviate.circuit_breaker import CircuitBreaker
from codelode.backends.weaviate.codec import SHOWN, ChunkCache, Shown, category_of, unpack
from codelode.backends.weaviate.connection import Address, connect_async, ready
from codelode.backends.weaviate.errors import LOST, is_lost, translated
from codelode.backends.weaviate.filters import (
    admission,
    among,
    condition,
    has_globs,
    in_files,
)
from codelode.backends.weaviate.schema import TenantIndex, Version
from codelode.errors import Corrupt, SchemaMismatch, Unavailable
from codelode.fusion import shortlist
from codelode.model import Candidate, Chunk, ChunkId, FileKey, Filters, HybridQuery, RefName

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

#: As many of both together are asked for at least, because as many of each side are found anyway.
AT_LEAST = 100

#: No more chunks than these are fetched in one request.
FEW = 10

#: What a side counts at least: of weight 0 the server would leave it out.
LEAST_WEIGHT = 1e-6

T = TypeVar("T")


#: Hits, given `limit` and, where they are to come with some, `properties`.
_Find: TypeAlias = Callable[..., Awaitable[list[FoundObject]]]

_SIDES = attrgetter("keyword_score"), attrgetter("similarity")


class WeaviateChunkSearch:
    """Implements the port ChunkSearch for one event loop; connects at the first call.

    The index may come into being after this object. Raises SchemaMismatch when it was written by
    another schema or embedder.
    """

    def __init__(self, address: Address, place: TenantIndex, *, dim: int, identity: str) -> None:
        self._address = address
        self._place = place
        self._version = Version(identity, dim)
        self._client: WeaviateAsyncClient | None = None
        self._opening = asyncio.Lock()
        self._patience = CircuitBreaker(lambda: ready(address))
        self._current: TenantObjects | None = None
        self._looked_at = float("-inf")
        self._was_there = False
        self._kept = ChunkCache()

    async def hybrid(self, asked: HybridQuery) -> Sequence[Candidate]:
        query = asked.bounded()
        if query is None or query.limit <= 0:
            return []
        where = _where(query.filters)
        if where is None:
            return []
        self._require_dim(query)

        async def found(tenant: TenantObjects) -> Sequence[Candidate]:
            find, wanted = _finding(tenant, query, where)
            if not has_globs(query.filters):
                candidates = await self._candidates(tenant, query, await find(limit=wanted))
                if candidates is not None:
                    return candidates
            hits = await self._inside(find, wanted, query)
            return await self._candidates(tenant, query, hits) or ()

        return await self._ask(found, empty=[])

    async def files(
        self, places: Sequence[FileKey], ref: RefName
    ) -> Mapping[FileKey, tuple[Chunk, ...]]:
        async def fetched(tenant: TenantObjects) -> Sequence[Chunk]:
            hits = await tenant.all(message(in_files(places, ref)), SHOWN)
            return [unpack(hit.properties).chunk for hit in hits]

        held: dict[FileKey, list[Chunk]] = {place: [] for place in places}
        found: Sequence[Chunk] = await self._ask(fetched, empty=()) if places else ()
        for chunk in found:
            if (place := (chunk.repository, chunk.path)) in held:  # not only spelt alike
                held[place].append(chunk)
        return {place: tuple(sorted(chunks, key=_lines)) for place, chunks in held.items()}

    async def count(self, visible: Visibility) -> int:
        named = visible.among(())
        if named == ():
            return 0
        where = None if named is None else among("repository", named)
        return await self._ask(lambda tenant: tenant.count(where), empty=0)

    async def close(self) -> None:
        client, self._client = self._client, None
        self._current = None
        if client is not None:
            await client.close()

    async def _candidates(
        self, tenant: TenantObjects, query: HybridQuery, hits: Sequence[FoundObject]
    ) -> list[Candidate] | None:
        """What is worth ranking of the hits.

        None: one that came without its chunk went before it was read, for its file was replaced;
        what took its place would be missed.
        """
        keyword, near = (_best(hits, side, query.limit) for side in _SIDES)
        best = shortlist(
            [list(keyword), list(near)],
            query.total_limit,
            is_secondary=lambda id: category_of(id) in query.secondary,
        )
        held = {hit.id: hit for hit in hits}
        shown = await self._read(tenant, [held[id] for id in best])
        if len(shown) < len(best):
            return None
        candidates: dict[ChunkId, Candidate] = {}
        for id in best:
            chunk, names = shown[id]
            candidate = Candidate(chunk, keyword.get(id), near.get(id), held[id].vector, names)
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

        async def fetch(ids: Sequence[bytes]) -> None:
            for hit in await tenant.by_id(ids, SHOWN):
                shown[hit.id] = self._kept.of(hit)

        half = len(missing) if len(missing) <= FEW else (len(missing) + 1) // 2
        halves = [ids for ids in (missing[:half], missing[half:]) if ids]
        fetching = [asyncio.ensure_future(fetch(ids)) for ids in halves]
        try:
            await asyncio.gather(*fetching)
        finally:
            for one in fetching:
                one.cancel()
        return shown

    async def _inside(self, find: _Find, wanted: int, query: HybridQuery) -> list[FoundObject]:
        """The best hits that are inside the globs, with their chunks.

        As many are looked at as it takes, up to PAGE, for the limit to be reached by both sides
        together, and a quarter of it by each side that comes back with so many.
        """
        admits, asked = admission(query.filters), wanted
        while True:
            hits = await find(limit=asked, properties=SHOWN)
            inside = [hit for hit in hits if admits(self._kept.of(hit).chunk)]
            is_enough = len(inside) >= query.limit and all(
                _count(inside, side) >= min(query.limit // 4, _count(hits, side)) for side in _SIDES
            )
            if is_enough or len(hits) < asked or asked >= PAGE:
                return inside
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


def _best(
    hits: Sequence[FoundObject], score: Callable[[FoundObject], float | None], limit: int
) -> dict[bytes, float]:
    """The best of a side with their scores, best first."""
    found = {hit.id: of_side for hit in hits if (of_side := score(hit)) is not None}
    best = sorted(found, key=found.__getitem__, reverse=True)
    return {id: found[id] for id in best[:limit]}


def _count(hits: Sequence[FoundObject], score: Callable[[FoundObject], float | None]) -> int:
    """How many of them a side found."""
    return sum(score(hit) is not None for hit in hits)


def _finding(
    tenant: TenantObjects, query: HybridQuery, where: base_pb2.Filters
) -> tuple[_Find, int]:
    """The query as the server takes it, and how many hits are wanted of it."""
    terms = " ".join(words.query_terms(query.text))
    vector = query.vector if query.vector is not None and query.vector.any() else None
    alpha = min(max(query.alpha, LEAST_WEIGHT), 1 - LEAST_WEIGHT)

    find = partial(
        tenant.best,
        terms,
        FIELDS,
        vector,
        alpha=alpha,
        where=where,
        with_vectors=query.with_vectors,
    )
    has_both = bool(terms) and vector is not None
    return find, max(query.limit, AT_LEAST) if has_both else query.limit


@lru_cache(maxsize=16)
def _where(filters: Filters) -> base_pb2.Filters | None:
    """The condition as the server takes it. Most searches have one of a few; of thousands of
    globs it takes megabytes.
    """
    where = condition(filters)
    return None if where is None else message(where)


def _lines(chunk: Chunk) -> tuple[int, int]:
    return chunk.start_line, chunk.end_line
