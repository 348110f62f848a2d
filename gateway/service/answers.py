"""Cache answers by their exact query, then by the meaning of the query.

Level 1 stores an answer under a hash of everything that shaped it. Level 2, the semantic query
cache, finds the answer to another query with nearly the same vector. Both queries must have the
same filters, visibility, options, index generation, and words except function words (`how`, `the`).
Degraded answers and answers from an incomplete index are not cached.

The generation counts changes of all repositories, so a change of one that the principal may not see
also invalidates cached answers. Only `cached` and `took_ms` reveal that.

Answers are stored as JSON, which pydantic validates into the types of `results`. The format does
not depend on a face, and a damaged entry is a cache miss and cannot execute code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from codelode.ports import Embedder, QueryCache, SemanticQueryCache
from codelode.vectors import Vector
from gateway import pipeline
from gateway.retrieve import embed
from gateway.service.results import ContextAnswer, SearchAnswer
from gateway.state import SearchQuery

#: Maximum number of decoded answers that are cached, so that the answer to a frequent query is
#: decoded once.
MAX_DECODED = 64

T = TypeVar("T")
Answer = TypeVar("Answer", SearchAnswer, ContextAnswer)

_SEARCH, _CONTEXT = TypeAdapter(SearchAnswer), TypeAdapter(ContextAnswer)


@dataclass(frozen=True, slots=True)
class NewAnswer(Generic[T]):
    """A new answer, and whether it may be cached: a degraded one may not."""

    answer: T
    is_cacheable: bool


@dataclass(frozen=True, slots=True)
class _SemanticKey:
    """The bucket and the vector by which level 2 finds a query."""

    bucket: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """Both levels of the cache.

    `min_similarity`: the minimum cosine of two queries that share an answer; 1 disables level 2.
    """

    cache: QueryCache
    semantic_cache: SemanticQueryCache
    store: str
    embedder: Embedder
    ttl_s: int
    min_similarity: float

    async def search(
        self,
        query: SearchQuery,
        generation: int,
        *,
        explain: bool,
        facets: bool = False,
        compute: Callable[[], Awaitable[NewAnswer[SearchAnswer]]],
    ) -> SearchAnswer:
        """Return the cached answer, the cached answer to a similar query, or a new one."""
        shape = replace(self._shape(generation, explain=explain), facets=facets)
        key = pipeline.cache_key(query, shape)
        stored = await self._stored_search(key)
        if stored is not None:
            return stored
        semantic = await self._semantic_key(query, pipeline.semantic_key(query, shape))
        similar = await self._similar_answer(semantic) if semantic else None
        if similar is not None:
            return similar
        made = await compute()
        if made.is_cacheable:
            await self.cache.put(key, _SEARCH.dump_json(made.answer), ttl_s=self.ttl_s)
            if semantic is not None:
                await self.semantic_cache.remember(
                    semantic.bucket, semantic.vector, key, ttl_s=self.ttl_s
                )
        return made.answer

    async def context(
        self,
        query: SearchQuery,
        generation: int,
        *,
        explain: bool,
        compute: Callable[[], Awaitable[NewAnswer[ContextAnswer]]],
    ) -> ContextAnswer:
        """Return the cached context or a new one."""
        shape = self._shape(generation, explain=explain)
        key = pipeline.cache_key(query, shape, call="context")
        raw = await self.cache.get(key)
        stored = None if raw is None else _decoded_context(raw)
        if stored is not None:
            return replace(stored, search=replace(stored.search, cached=True))
        made = await compute()
        if made.is_cacheable:
            await self.cache.put(key, _CONTEXT.dump_json(made.answer), ttl_s=self.ttl_s)
        return made.answer

    def _shape(self, generation: int, *, explain: bool) -> pipeline.Shape:
        return pipeline.Shape(self.store, self.embedder.identity, generation, explain)

    async def _stored_search(self, key: str) -> SearchAnswer | None:
        raw = await self.cache.get(key)
        stored = None if raw is None else _decoded_search(raw)
        return None if stored is None else replace(stored, cached=True)

    async def _semantic_key(self, query: SearchQuery, bucket: str | None) -> _SemanticKey | None:
        if bucket is None or self.min_similarity >= 1:
            return None
        vector, _ = await embed(query.text, self.embedder)
        return None if vector is None else _SemanticKey(bucket, vector)

    async def _similar_answer(self, key: _SemanticKey) -> SearchAnswer | None:
        """Return the answer to the most similar query, if it is similar enough and still stored."""
        nearest = await self.semantic_cache.nearest(key.bucket, key.vector)
        if nearest is None or nearest[1] < self.min_similarity:
            return None
        stored = await self._stored_search(nearest[0])
        if stored is None:
            return None
        notice = (
            f"this is the cached answer to a query with the same meaning (cosine {nearest[1]:.2f})"
        )
        return replace(stored, notices=(*stored.notices, notice))


@lru_cache(maxsize=MAX_DECODED)
def _decoded_search(raw: bytes) -> SearchAnswer | None:
    return _decoded(_SEARCH, raw)


@lru_cache(maxsize=MAX_DECODED)
def _decoded_context(raw: bytes) -> ContextAnswer | None:
    return _decoded(_CONTEXT, raw)


def _decoded(of: TypeAdapter[Answer], raw: bytes) -> Answer | None:
    try:
        return of.validate_json(raw)
    except ValidationError:
        return None
