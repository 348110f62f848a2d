"""The query cache around an answer: by all of its parameters, then by the meaning of its words.

Level 1 holds an answer under everything that shaped it. Level 2 finds the answer of another query
whose vector is nearly the same, among those that share filters, visibility, options and
index generation, and all words but those that only make a sentence. An answer that was degraded or
is of an incomplete index is not kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from codelode.model import Vector
from codelode.ports import Embedder, QueryCache, SemanticQueryCache
from codelode.v1 import search_pb2
from gateway import pipeline
from gateway.retrieve import embed
from gateway.state import SearchQuery

Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Made(Generic[Response]):
    """A new answer, and whether it may be given again: not one that was degraded."""

    response: Response
    may_be_kept: bool


@dataclass(frozen=True, slots=True)
class Near:
    """Where level 2 looks for a query, and with what."""

    bucket: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class Answers:
    """Both levels of the cache. `least`: the cosine from which on two queries are one; 1: off."""

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
        answer: Callable[[], Awaitable[Made[search_pb2.SearchResponse]]],
    ) -> search_pb2.SearchResponse:
        """The stored answer, that of a query of the same meaning, or a new one."""
        shape = self._shape(generation, explain=explain)
        key = pipeline.cache_key(query, shape)
        stored = await self.cache.get(key)
        if stored is not None:
            return _marked(search_pb2.SearchResponse.FromString(stored))
        near = await self._near(query, pipeline.near_key(query, shape))
        alike = await self._alike(near) if near else None
        if alike is not None:
            return alike
        made = await answer()
        if made.may_be_kept:
            await self.cache.put(key, made.response.SerializeToString(), ttl_s=self.ttl_s)
            if near is not None:
                await self.near.remember(near.bucket, near.vector, key, ttl_s=self.ttl_s)
        return made.response

    async def context(
        self,
        query: SearchQuery,
        generation: int,
        *,
        explain: bool,
        answer: Callable[[], Awaitable[Made[search_pb2.ContextResponse]]],
    ) -> search_pb2.ContextResponse:
        """The stored context or a new one."""
        shape = self._shape(generation, explain=explain)
        key = pipeline.cache_key(query, shape, call="context")
        stored = await self.cache.get(key)
        if stored is not None:
            found = search_pb2.ContextResponse.FromString(stored)
            found.search.cached = True
            return found
        made = await answer()
        if made.may_be_kept:
            await self.cache.put(key, made.response.SerializeToString(), ttl_s=self.ttl_s)
        return made.response

    def _shape(self, generation: int, *, explain: bool) -> pipeline.Shape:
        return pipeline.Shape(self.store, self.embedder.identity, generation, explain)

    async def _near(self, query: SearchQuery, bucket: str | None) -> Near | None:
        if bucket is None or self.least >= 1:
            return None
        vector, _ = await embed(query.text, self.embedder)
        return None if vector is None else Near(bucket, vector)

    async def _alike(self, near: Near) -> search_pb2.SearchResponse | None:
        """The answer of the nearest query, when it is near enough and still there."""
        nearest = await self.near.nearest(near.bucket, near.vector)
        if nearest is None or nearest[1] < self.least:
            return None
        stored = await self.cache.get(nearest[0])
        if stored is None:
            return None
        response = _marked(search_pb2.SearchResponse.FromString(stored))
        response.notices.append(f"the answer of a query of the same meaning ({nearest[1]:.2f})")
        return response


def _marked(response: search_pb2.SearchResponse) -> search_pb2.SearchResponse:
    response.cached = True
    return response
