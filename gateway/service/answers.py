"""The query cache: by everything that shapes an answer, then by the meaning of its words.

Level 1 holds an answer under everything that shaped it. Level 2 finds the answer to another query
with nearly the same vector, among queries that share filters, visibility, options and index
generation, and all words except those that only make a sentence. Degraded answers and answers from
an incomplete index are not kept.

The generation counts changes of every repository, so a change of one that the principal may not see
also turns a cached answer into a new one. Only `cached` and the time it took show that.

Answers are stored as JSON, which pydantic reads straight into the typed values of `results`: that
is independent of every face, and a damaged entry is a miss and never code that runs.
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

#: Decoded answers that are kept, so that a question that many ask is decoded once.
MAX_DECODED = 64

T = TypeVar("T")
Answer = TypeVar("Answer", SearchAnswer, ContextAnswer)

_SEARCH, _CONTEXT = TypeAdapter(SearchAnswer), TypeAdapter(ContextAnswer)


@dataclass(frozen=True, slots=True)
class Made(Generic[T]):
    """A new answer, and whether it may be cached: a degraded one may not."""

    answer: T
    may_be_kept: bool


@dataclass(frozen=True, slots=True)
class _Near:
    """The bucket and the vector with which level 2 looks for a query."""

    bucket: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """Both levels of the cache.

    `least`: the cosine from which two queries count as the same; 1 turns level 2 off.
    """

    cache: QueryCache
    near: SemanticQueryCache
    store: str
    embedder: Embedder
    ttl_s: int
    least: float

    async def search(
        self,
        query: SearchQuery,
        generation: int,
        *,
        explain: bool,
        make: Callable[[], Awaitable[Made[SearchAnswer]]],
    ) -> SearchAnswer:
        """The cached answer, that of a query of the same meaning, or a new one."""
        shape = self._shape(generation, explain=explain)
        key = pipeline.cache_key(query, shape)
        stored = await self._stored_search(key)
        if stored is not None:
            return stored
        near = await self._near(query, pipeline.near_key(query, shape))
        alike = await self._alike(near) if near else None
        if alike is not None:
            return alike
        made = await make()
        if made.may_be_kept:
            await self.cache.put(key, _SEARCH.dump_json(made.answer), ttl_s=self.ttl_s)
            if near is not None:
                await self.near.remember(near.bucket, near.vector, key, ttl_s=self.ttl_s)
        return made.answer

    async def context(
        self,
        query: SearchQuery,
        generation: int,
        *,
        explain: bool,
        make: Callable[[], Awaitable[Made[ContextAnswer]]],
    ) -> ContextAnswer:
        """The cached context or a new one."""
        shape = self._shape(generation, explain=explain)
        key = pipeline.cache_key(query, shape, call="context")
        raw = await self.cache.get(key)
        stored = None if raw is None else _decoded_context(raw)
        if stored is not None:
            return replace(stored, search=replace(stored.search, cached=True))
        made = await make()
        if made.may_be_kept:
            await self.cache.put(key, _CONTEXT.dump_json(made.answer), ttl_s=self.ttl_s)
        return made.answer

    def _shape(self, generation: int, *, explain: bool) -> pipeline.Shape:
        return pipeline.Shape(self.store, self.embedder.identity, generation, explain)

    async def _stored_search(self, key: str) -> SearchAnswer | None:
        raw = await self.cache.get(key)
        stored = None if raw is None else _decoded_search(raw)
        return None if stored is None else replace(stored, cached=True)

    async def _near(self, query: SearchQuery, bucket: str | None) -> _Near | None:
        if bucket is None or self.least >= 1:
            return None
        vector, _ = await embed(query.text, self.embedder)
        return None if vector is None else _Near(bucket, vector)

    async def _alike(self, near: _Near) -> SearchAnswer | None:
        """The answer to the nearest query, if that is near enough and still stored."""
        nearest = await self.near.nearest(near.bucket, near.vector)
        if nearest is None or nearest[1] < self.least:
            return None
        stored = await self._stored_search(nearest[0])
        if stored is None:
            return None
        notice = f"the cached answer of a query with the same meaning ({nearest[1]:.2f})"
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
