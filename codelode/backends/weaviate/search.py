"""The read side of the clustered chunk store.

A search with keywords and a vector is one hybrid query: the server applies filters before either
half ranks, each half finds its best objects, and the top-k of both together come back with the
score from each half. `docs/ranking.md` compares this with two separate queries.

Without globs only ids are requested, because they suffice to decide which chunks are worth ranking;
with properties the server would build whole objects for everything that either half found, which
takes 3 ms. Chunks worth ranking that are not in the cache are then fetched by id. Many are fetched
in two requests, so that one half is decoded while the other is in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TypeAlias, TypeVar

from weaviate import WeaviateAsyncClient
from weaviate.classes.query import FilterReturn

from codelode.access import Visibility
from codelode.backends import words
from codelode.backends.chunk_stores import by_file, require_dim
from codelode.backends.weaviate import versions
from codelode.backends.weaviate.batch import PAGE
from codelode.backends.weaviate.circuit_breaker import CircuitBreaker
from codelode.backends.weaviate.codec import (
    DISPLAYED,
    ChunkCache,
    DecodedChunk,
    StoredChunk,
    category_of,
    decode,
    decode_identity,
)
from codelode.backends.weaviate.connection import Address, connect_async, ready
from codelode.backends.weaviate.errors import LOST, is_lost, translated
from codelode.backends.weaviate.filters import (
    condition,
    first_with,
    glob_matcher,
    has_globs,
    in_files,
    one_of,
    path_matcher,
)
from codelode.backends.weaviate.query import FoundObject, TenantObjects
from codelode.backends.weaviate.schema import TenantIndex, Version
from codelode.errors import Corrupt, Unavailable
from codelode.file_text import text_by_file
from codelode.fusion import shortlist
from codelode.grams import NOTHING, Grams
from codelode.model import (
    Candidate,
    Chunk,
    ChunkId,
    FileKey,
    FileQuery,
    FileText,
    HybridQuery,
    RefName,
    RepositoryName,
)

#: The searched properties, each with the weight of its score.
FIELDS = [
    f"name_terms^{words.NAME_WEIGHT}",
    "terms",
    f"summary_terms^{words.SUMMARY_WEIGHT}",
]

#: How long the target of the alias is assumed to be current, seconds.
FOLLOW_S = 5.0

#: Longest wait for the current target of the alias while an older one is known, seconds.
ALIAS_TIMEOUT_S = 0.5

#: A glob that the server cannot express loses hits. The query is then repeated with its limit
#: multiplied by this, up to the server's own limit.
WIDENING = 8

#: Minimum limit of a hybrid query: the server finds this many by each half anyway.
MIN_HYBRID_LIMIT = 100

#: Maximum number of chunks that are fetched in one request instead of two.
MAX_SINGLE_FETCH = 10

#: Minimum weight of each half: with weight 0 the server would leave its hits out.
MIN_WEIGHT = 1e-6

T = TypeVar("T")

#: A query that takes `limit`, and optionally the `properties` to read with each hit.
_Query: TypeAlias = Callable[..., Awaitable[list[FoundObject]]]

#: The score of each half of a hybrid query.
_HALVES = attrgetter("keyword_score"), attrgetter("similarity")


class WeaviateChunkSearch:
    """Implements the port ChunkSearch for one event loop; connects at the first call.

    The index may be created after this object. Raises SchemaMismatch when it was written with
    another schema or embedder.
    """

    def __init__(self, address: Address, index: TenantIndex, *, dim: int, identity: str) -> None:
        self._address = address
        self._index = index
        self._version = Version(identity, dim)
        self._client: WeaviateAsyncClient | None = None
        self._opening = asyncio.Lock()
        self._breaker = CircuitBreaker(lambda: ready(address))
        self._current: TenantObjects | None = None
        self._checked_at = float("-inf")
        self._was_there = False
        self._cache = ChunkCache()

    async def hybrid(self, asked: HybridQuery) -> Sequence[Candidate]:
        query = asked.bounded()
        if query is None or query.limit <= 0:
            return []
        require_dim(query.vector, self._version.dim, index=self._index.alias)
        is_coverable = not (asked.visible.is_everything or asked.filters.repositories)
        cover = await asyncio.to_thread(asked.visible.cover) if is_coverable else None

        async def search(tenant: TenantObjects) -> Sequence[Candidate]:
            if cover is not None:
                found = await self._top_k(tenant, query, condition(asked.filters, cover))
                if all(one.chunk.repository in asked.visible for one in found):
                    return found
                # Hits in a newer repository that the caller may not see took the place of others.
            return await self._top_k(tenant, query, condition(query.filters))

        return await self._call(search, empty=[])

    async def holding(self, asked: FileQuery) -> Sequence[FileKey]:
        query = asked.bounded()
        where = None if query is None else condition(query.filters)
        if query is None or where is None:
            return []
        matches = path_matcher(query.filters)
        wanted = where if query.defines else where & first_with(query.grams)

        async def fetch(tenant: TenantObjects) -> Sequence[StoredChunk]:
            found = await tenant.every(wanted, ["facts"])
            return [decode_identity(one.properties) for one in found]

        stored: Sequence[StoredChunk] = await self._call(fetch, empty=())
        places = ((RepositoryName(one.repository), one.path) for one in stored)
        return sorted({place for place in places if matches(place[1])})

    async def files(
        self, places: Sequence[FileKey], ref: RefName
    ) -> Mapping[FileKey, tuple[Chunk, ...]]:
        async def fetch(tenant: TenantObjects) -> Sequence[Chunk]:
            hits = await tenant.matching(in_files(places, ref), DISPLAYED)
            return [decode(hit.properties).chunk for hit in hits]

        # The condition is less strict than the paths: it marks white space.
        return by_file(places, await self._call(fetch, empty=()) if places else ())

    async def texts(
        self, places: Sequence[FileKey], ref: RefName, needed: Grams = NOTHING
    ) -> Mapping[FileKey, FileText]:
        return text_by_file(await self.files(places, ref))

    async def count(self, visible: Visibility) -> int:
        named = visible.among(())
        if named == ():
            return 0
        where = None if named is None else one_of("repository", named)
        return await self._call(lambda tenant: tenant.count(where), empty=0)

    async def close(self) -> None:
        client, self._client = self._client, None
        self._current = None
        if client is not None:
            await client.close()

    async def _top_k(
        self, tenant: TenantObjects, query: HybridQuery, where: FilterReturn | None
    ) -> Sequence[Candidate]:
        """Return the best chunks that meet the condition and match the globs."""
        if where is None:
            return ()
        top_k, limit = _top_k_query(tenant, query, where)
        if not has_globs(query.filters):
            candidates = await self._candidates(tenant, query, await top_k(limit=limit))
            if candidates is not None:
                return candidates
        hits = await self._matching_globs(top_k, limit, query)
        return await self._candidates(tenant, query, hits) or ()

    async def _candidates(
        self, tenant: TenantObjects, query: HybridQuery, hits: Sequence[FoundObject]
    ) -> list[Candidate] | None:
        """Return the hits worth ranking, with their chunks.

        None means that an object was deleted before it was fetched, because its file was replaced;
        the objects that replaced it would be missed.
        """
        keyword, near = (_ranked(hits, half, query.limit) for half in _HALVES)
        best = shortlist(
            [list(keyword), list(near)],
            query.total_limit,
            is_secondary=lambda id: category_of(id) in query.secondary,
        )
        by_id = {hit.id: hit for hit in hits}
        chunks = await self._read(tenant, [by_id[id] for id in best])
        if len(chunks) < len(best):
            return None
        candidates: dict[ChunkId, Candidate] = {}
        for id in best:
            chunk, names = chunks[id]
            candidate = Candidate(chunk, keyword.get(id), near.get(id), by_id[id].vector, names)
            candidates.setdefault(chunk.id, candidate)  # a chunk being replaced has two objects
        return list(candidates.values())

    async def _read(
        self, tenant: TenantObjects, hits: Sequence[FoundObject]
    ) -> Mapping[bytes, DecodedChunk]:
        """Return the chunks of the hits, from the cache or fetched; deleted ones are missing."""
        chunks = self._cache.known(hit.id for hit in hits)
        missing = []
        for hit in hits:
            if hit.id in chunks:
                continue
            if hit.properties:
                chunks[hit.id] = self._cache.decoded(hit)
            else:
                missing.append(hit.id)

        async def fetch(ids: Sequence[bytes]) -> None:
            for hit in await tenant.by_id(ids, DISPLAYED):
                chunks[hit.id] = self._cache.decoded(hit)

        is_single = len(missing) <= MAX_SINGLE_FETCH
        half = len(missing) if is_single else (len(missing) + 1) // 2
        fetching = [
            asyncio.ensure_future(fetch(ids)) for ids in (missing[:half], missing[half:]) if ids
        ]
        try:
            await asyncio.gather(*fetching)
        finally:
            for one in fetching:
                one.cancel()
        return chunks

    async def _matching_globs(
        self, top_k: _Query, limit: int, query: HybridQuery
    ) -> list[FoundObject]:
        """Return the best hits that match the globs, with their properties.

        The limit grows, up to PAGE, until enough hits match: `query.limit` of both halves together,
        and a quarter of `query.limit` of each half that found as many.
        """
        matches = glob_matcher(query.filters)
        while True:
            hits = await top_k(limit=limit, properties=DISPLAYED)
            inside = [hit for hit in hits if matches(self._cache.decoded(hit).chunk)]
            is_enough = len(inside) >= query.limit and all(
                _count(inside, half) >= min(query.limit // 4, _count(hits, half))
                for half in _HALVES
            )
            if is_enough or len(hits) < limit or limit >= PAGE:
                return inside
            limit = min(WIDENING * limit, PAGE)

    async def _call(self, call: Callable[[TenantObjects], Awaitable[T]], *, empty: T) -> T:
        """Call with the objects of the current index; return `empty` while there is no index."""
        try:
            return await self._call_once(call, empty)
        except Corrupt as exc:
            if not is_lost(exc):
                raise
            self._current = None  # another index may have been published, and this one removed
        return await self._call_once(call, empty)

    async def _call_once(self, call: Callable[[TenantObjects], Awaitable[T]], empty: T) -> T:
        tenant = self._fresh()
        if tenant is None:
            tenant = await self._breaker(self._tenant())
        return empty if tenant is None else await self._breaker(call(tenant))

    def _fresh(self) -> TenantObjects | None:
        """Return the current objects if the alias was checked recently."""
        is_fresh = time.monotonic() - self._checked_at <= FOLLOW_S
        return self._current if is_fresh else None

    async def _tenant(self) -> TenantObjects | None:
        """Return the tenant's objects in the collection that is current now.

        In a cluster only the leader knows the alias. While a leader is elected, which takes ten
        seconds, the known collection cannot be replaced and keeps answering. A server that fails
        to resolve the alias may do so for this reason; without a server, the search itself fails.
        """
        async with self._opening:
            if self._current is None:
                self._current = await self._open()
                self._checked_at = time.monotonic()
            elif self._fresh() is None:
                with suppress(TimeoutError, Unavailable):
                    async with asyncio.timeout(ALIAS_TIMEOUT_S):
                        with translated():
                            self._current = await self._open()
                self._checked_at = time.monotonic()
            return self._current

    async def _open(self) -> TenantObjects | None:
        if self._client is None:
            self._client = await connect_async(self._address)
        known = None if self._current is None else self._current.collection
        name = await versions.find(self._client, self._index, self._version, known=known)
        if name is None:
            if self._was_there:
                raise Corrupt(LOST)
            return None
        self._was_there = True
        return TenantObjects(self._client, collection=name, tenant=self._index.tenant)


def _ranked(
    hits: Sequence[FoundObject], score: Callable[[FoundObject], float | None], limit: int
) -> dict[bytes, float]:
    """Return the best hits of one half with their scores, best first."""
    scores = {hit.id: found for hit in hits if (found := score(hit)) is not None}
    best = sorted(scores, key=scores.__getitem__, reverse=True)
    return {id: scores[id] for id in best[:limit]}


def _count(hits: Sequence[FoundObject], score: Callable[[FoundObject], float | None]) -> int:
    """Count the hits that one half found."""
    return sum(score(hit) is not None for hit in hits)


def _top_k_query(
    tenant: TenantObjects, query: HybridQuery, where: FilterReturn
) -> tuple[_Query, int]:
    """Return the query to the server, to be called with a limit, and the first limit."""
    terms = " ".join(words.query_terms(query.text))
    vector = query.vector if query.vector is not None and query.vector.any() else None
    top_k = partial(
        tenant.top_k,
        terms,
        FIELDS,
        vector,
        alpha=min(max(query.alpha, MIN_WEIGHT), 1 - MIN_WEIGHT),
        where=where,
        with_vectors=query.with_vectors,
    )
    is_hybrid = bool(terms) and vector is not None
    return top_k, max(query.limit, MIN_HYBRID_LIMIT) if is_hybrid else query.limit
