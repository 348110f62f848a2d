"""Queries for the objects of one tenant, through the client library's public interface."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
from weaviate import WeaviateAsyncClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.query import Filter, FilterReturn, HybridFusion, MetadataQuery

from codelode.backends.weaviate import batch
from codelode.backends.weaviate.batch import PAGE
from codelode.backends.weaviate.schema import VECTOR
from codelode.errors import Corrupt
from codelode.vectors import Vector

#: BM25 score and cosine similarity; None: that half of the search did not find the object, or was
#: not asked.
_Scores: TypeAlias = tuple[float | None, float | None]

#: The part of the server's explanation of a fused score that gives the score of one half.
_HALF_SCORE = re.compile(r"Result Set (keyword|vector)\S* Document \S+ original score ([-+.\w]+),")

#: Length of the quotation from an explanation that has no scores, characters.
_QUOTED_CHARS = 80


class FoundObject(NamedTuple):
    """An object that a query found; higher scores are better."""

    id: bytes  # of the UUID: cheaper to hash than the UUID
    keyword_score: float | None  # BM25; None: not found by keywords
    similarity: float | None  # cosine; None: not found by vector
    vector: Vector | None  # None: not requested, or the object has none
    properties: Mapping[str, str]  # the requested ones, all of them texts


class TenantObjects:
    """The objects of one tenant of one collection, read at consistency level QUORUM.

    The methods raise the library's exceptions, and Corrupt when a server of another version does
    not report the scores of both halves of a hybrid query.
    """

    def __init__(self, client: WeaviateAsyncClient, *, collection: str, tenant: str) -> None:
        self.collection = collection
        objects = client.collections.use(collection, skip_argument_validation=True)
        self._objects = objects.with_tenant(tenant).with_consistency_level(ConsistencyLevel.QUORUM)

    async def top_k(
        self,
        terms: str,
        fields: Sequence[str],
        vector: Vector | None,
        *,
        alpha: float,
        where: FilterReturn,
        limit: int,
        properties: Sequence[str] = (),
        with_vectors: bool = False,
    ) -> list[FoundObject]:
        """Return the `limit` best objects by keywords, by vector, or by both.

        Keywords are ranked by BM25 over `fields`, which carry weights (`terms^2`). With both, each
        half finds its best `limit`, and at least 100; their scores, scaled to 0..1 within each
        half, are added with weight `alpha` for the vector and 1 - `alpha` for the keywords.
        Returns nothing when there are neither terms nor a vector.
        """
        common: dict[str, Any] = {
            "filters": where,
            "limit": limit,
            "return_properties": list(properties),
            "include_vector": [VECTOR] if with_vectors else False,
        }
        # A list: the library formats the vector into an error message that it may need, which
        # takes 2 ms for an array of 256 numbers and a tenth of that for a list.
        near = None if vector is None else vector.tolist()
        if near is None:
            if not terms:
                return []
            reply = await self._objects.query.bm25(
                terms,
                query_properties=list(fields),
                return_metadata=MetadataQuery(score=True),
                **common,
            )
            return _found(reply.objects, _keyword_scores)
        if not terms:
            reply = await self._objects.query.near_vector(
                near,
                target_vector=VECTOR,
                return_metadata=MetadataQuery(distance=True),
                **common,
            )
            return _found(reply.objects, _vector_scores)
        reply = await self._objects.query.hybrid(
            terms,
            query_properties=list(fields),
            vector={VECTOR: near},
            target_vector=VECTOR,
            alpha=alpha,
            fusion_type=HybridFusion.RELATIVE_SCORE,
            return_metadata=MetadataQuery(explain_score=True),
            **common,
        )
        return _found(reply.objects, hybrid_scores)

    async def by_id(self, ids: Sequence[bytes], properties: Sequence[str]) -> list[FoundObject]:
        """Return the objects with these ids, in any order; unknown ids are left out."""
        where = Filter.by_id().contains_any([UUID(bytes=id) for id in ids])
        return await self._fetch(where, properties, limit=len(ids))

    async def matching(self, where: FilterReturn, properties: Sequence[str]) -> list[FoundObject]:
        """Return the objects that meet the condition, at most PAGE of them, in any order."""
        return await self._fetch(where, properties, limit=PAGE)

    async def every(
        self, where: FilterReturn, properties: Sequence[str], *, prefix: str = ""
    ) -> list[FoundObject]:
        """Return all objects that meet the condition, in any order; see `batch.every`."""
        found = await self.matching(batch.inside(where, prefix), properties)
        if len(found) < PAGE:
            return found
        return [
            one
            for digit in batch.DIGITS
            for one in await self.every(where, properties, prefix=prefix + digit)
        ]

    async def count(self, where: FilterReturn | None = None) -> int:
        """Return how many objects meet the condition; without one, how many there are."""
        found = await self._objects.aggregate.over_all(total_count=True, filters=where)
        return found.total_count or 0

    async def _fetch(
        self, where: FilterReturn, properties: Sequence[str], *, limit: int
    ) -> list[FoundObject]:
        reply = await self._objects.query.fetch_objects(
            filters=where, limit=limit, return_properties=list(properties)
        )
        return _found(reply.objects, lambda _: (None, None))


def _found(objects: Iterable[Any], scores: Callable[[Any], _Scores]) -> list[FoundObject]:
    return [
        FoundObject(
            one.uuid.bytes,
            *scores(one.metadata),
            np.array(one.vector[VECTOR], np.float32) if one.vector else None,
            one.properties,
        )
        for one in objects
    ]


def _keyword_scores(metadata: Any) -> _Scores:
    return metadata.score, None


def _vector_scores(metadata: Any) -> _Scores:
    return None, 1.0 - metadata.distance


def hybrid_scores(metadata: Any) -> _Scores:
    """Read the scores of both halves, which a hybrid query reports in its explanation only."""
    found = dict(_HALF_SCORE.findall(metadata.explain_score or ""))
    if not found:
        raise Corrupt(
            "this version of Weaviate reports the scores of a hybrid query in another format "
            f"({(metadata.explain_score or '')[:_QUOTED_CHARS]!r}): run the version that "
            "docker-compose.yml names"
        )
    scores = {half: float(score) for half, score in found.items()}
    return scores.get("keyword"), scores.get("vector")
