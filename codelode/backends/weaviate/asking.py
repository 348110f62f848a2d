"""Searches as messages of the server's gRPC interface, and hits straight from its replies.

The library brings these messages along, sends them and knows what to do when nobody answers. But
it makes several objects of each hit and looks at each argument of a request: a query for each side
and fifty chunks took 4.0 ms of processor time in it, and half of that here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
from weaviate import WeaviateAsyncClient
from weaviate.collections.classes.filters import FilterReturn
from weaviate.collections.filters import _FilterToGRPC
from weaviate.proto.v1 import base_pb2, base_search_pb2, search_get_pb2

from codelode.backends.weaviate.batch import PAGE
from codelode.backends.weaviate.schema import VECTOR
from codelode.errors import Corrupt
from codelode.model import Vector

#: BM25 and cosine; None: that side of the search did not find it, or was not asked.
_Scores: TypeAlias = tuple[float | None, float | None]

#: What the server's explanation of a fused score says of each side that found the object.
_OF_SIDE = re.compile(r"Result Set (keyword|vector)\S* Document \S+ original score ([-+.\w]+),")

#: So much of an explanation that tells no scores is shown.
_SHOWN_CHARS = 80

_TARGETS = base_search_pb2.Targets(target_vectors=[VECTOR])


class FoundObject(NamedTuple):
    """An object that was found; higher scores are better."""

    id: bytes  # of its UUID, which take a fifth of the time to make and to look up
    keyword_score: float | None  # BM25; None: not found by words
    similarity: float | None  # cosine; None: not found by vector
    vector: Vector | None  # None when it was not asked for, or there is none
    result: search_get_pb2.SearchResult  # as it came

    @property
    def has_properties(self) -> bool:
        return bool(self.result.properties.non_ref_props.fields)

    @property
    def properties(self) -> Mapping[str, str]:
        """Those that were asked for, all of them texts: made when they are looked at."""
        fields = self.result.properties.non_ref_props.fields
        return {name: value.text_value for name, value in fields.items()}


class TenantObjects:
    """The objects of one tenant of one collection, read at QUORUM.

    `where` is the condition as `message` makes it, `properties` are those to bring. Raises what the
    library raises, and Corrupt where a server of another version tells no scores of both sides.
    """

    def __init__(self, client: WeaviateAsyncClient, *, collection: str, tenant: str) -> None:
        self._client = client
        self._tenant = tenant
        self.collection = collection

    async def best(
        self,
        terms: str,
        fields: Sequence[str],
        vector: Vector | None,
        *,
        alpha: float,
        where: base_pb2.Filters,
        limit: int,
        properties: Sequence[str] = (),
        with_vectors: bool = False,
    ) -> list[FoundObject]:
        """The best by BM25 of the terms in the fields, which have weights (`terms^2`), the nearest
        to the vector, or the best of both together; without terms and vector none.

        Of both, each side finds its best `limit`, and at least 100. Their scores, each side's best
        at 1 and its last at 0, count with `alpha` by vector and the rest by words.
        """
        search: dict[str, Any]
        if vector is None:
            if not terms:
                return []
            wanted, scores = {"score": True}, _by_words
            search = {"bm25_search": base_search_pb2.BM25(query=terms, properties=fields)}
        elif not terms:
            wanted, scores = {"distance": True}, _by_vector
            near = base_search_pb2.NearVector(targets=_TARGETS, vectors=[_packed(vector)])
            search = {"near_vector": near}
        else:
            wanted, scores = {"explain_score": True}, _explained
            search = {
                "hybrid_search": base_search_pb2.Hybrid(
                    query=terms,
                    properties=fields,
                    vectors=[_packed(vector)],
                    targets=_TARGETS,
                    alpha=alpha,
                    fusion_type=base_search_pb2.Hybrid.FUSION_TYPE_RELATIVE_SCORE,
                )
            }
        return await self._search(
            properties,
            _metadata(with_vectors=with_vectors, **wanted),
            scores,
            filters=where,
            limit=limit,
            **search,
        )

    async def by_id(self, ids: Sequence[bytes], properties: Sequence[str]) -> list[FoundObject]:
        """Those that are there, in any order."""
        where = base_pb2.Filters(
            operator=base_pb2.Filters.OPERATOR_CONTAINS_ANY,
            target=base_pb2.FilterTarget(property="_id"),
            value_text_array=base_pb2.TextArray(values=[str(UUID(bytes=id)) for id in ids]),
        )
        return await self._search(properties, _metadata(), filters=where, limit=len(ids))

    async def all(self, where: base_pb2.Filters, properties: Sequence[str]) -> list[FoundObject]:
        """Those that meet the condition, at most PAGE, in any order."""
        return await self._search(properties, _metadata(), filters=where, limit=PAGE)

    async def count(self, where: FilterReturn | None) -> int:
        """How many objects meet the condition; None admits all."""
        objects = self._client.collections.use(self.collection).with_tenant(self._tenant)
        found = await objects.aggregate.over_all(filters=where, total_count=True)
        return found.total_count or 0

    async def _search(
        self,
        properties: Sequence[str],
        metadata: search_get_pb2.MetadataRequest,
        scores: Callable[[search_get_pb2.MetadataResult], _Scores] = lambda _: (None, None),
        **search: Any,
    ) -> list[FoundObject]:
        request = search_get_pb2.SearchRequest(
            uses_123_api=True,
            uses_125_api=True,
            uses_127_api=True,
            collection=self.collection,
            tenant=self._tenant,
            consistency_level=base_pb2.CONSISTENCY_LEVEL_QUORUM,
            properties=search_get_pb2.PropertiesRequest(non_ref_properties=properties),
            metadata=metadata,
            **search,
        )
        # Not public, like what converts filters: the version of the library is bounded for that.
        reply = await self._client._connection.grpc_search(request)
        # A part of a message is made when it is looked at: only what was asked for is.
        with_vectors = bool(metadata.vectors)
        return [
            FoundObject(
                about.id_as_bytes,
                *scores(about),
                _vector(about) if with_vectors else None,
                one,
            )
            for one, about in ((one, one.metadata) for one in reply.results)
        ]


def message(condition: FilterReturn) -> base_pb2.Filters:
    """The condition as the server takes it."""
    made: base_pb2.Filters = _FilterToGRPC.convert(condition)
    return made


def _metadata(*, with_vectors: bool = False, **wanted: bool) -> search_get_pb2.MetadataRequest:
    vectors = [VECTOR] if with_vectors else []
    return search_get_pb2.MetadataRequest(uuid=True, vectors=vectors, **wanted)


def _packed(vector: Vector) -> base_pb2.Vectors:
    return base_pb2.Vectors(
        name=VECTOR,
        vector_bytes=vector.astype("<f4").tobytes(),
        type=base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32,
    )


def _by_words(metadata: search_get_pb2.MetadataResult) -> _Scores:
    return metadata.score, None


def _by_vector(metadata: search_get_pb2.MetadataResult) -> _Scores:
    return None, 1.0 - metadata.distance


def _explained(metadata: search_get_pb2.MetadataResult) -> _Scores:
    """The scores of both sides, which a hybrid query tells in its explanation alone."""
    found = dict(_OF_SIDE.findall(metadata.explain_score))
    if not found:
        raise Corrupt(
            "this version of Weaviate tells the scores of a hybrid query in another way "
            f"({metadata.explain_score[:_SHOWN_CHARS]!r}): run the one in docker-compose.yml"
        )
    scores = {side: float(score) for side, score in found.items()}
    return scores.get("keyword"), scores.get("vector")


def _vector(metadata: search_get_pb2.MetadataResult) -> Vector | None:
    vectors = metadata.vectors
    return np.frombuffer(vectors[0].vector_bytes, "<f4") if vectors else None
