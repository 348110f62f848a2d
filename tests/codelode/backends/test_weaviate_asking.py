"""What is asked of the server, and scores out of what it explains of a hybrid query."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest
from weaviate.proto.v1 import base_pb2, base_search_pb2, search_get_pb2

from codelode.backends.weaviate.asking import TenantObjects
from codelode.errors import Corrupt

ONES = np.ones(4, np.float32)
ID = UUID("eb33b527-fafe-584b-908d-f7b4a98252f0")
WORDS = f"Hybrid (Result Set keyword,bm25) Document {ID}: original score 15.78351, normalized"
NEAR = f"Hybrid (Result Set vector,hybridVector) Document {ID}: original score -1.5e-07, normalized"


class Server:
    """Finds one object, and explains it so."""

    def __init__(self, prose, **scores):
        metadata = search_get_pb2.MetadataResult(
            id_as_bytes=ID.bytes, explain_score=prose, **scores
        )
        found = search_get_pb2.SearchResult(metadata=metadata)
        self._reply = search_get_pb2.SearchReply(results=[found])
        self.asked = []

    async def grpc_search(self, request):
        self.asked.append(request)
        return self._reply

    async def best(self, terms="retry", vector=ONES):
        objects = TenantObjects(SimpleNamespace(_connection=self), collection="C", tenant="t")
        where = base_pb2.Filters()
        return await objects.best(terms, ["terms"], vector, alpha=0.3, where=where, limit=9)


async def test_words_and_vector_are_one_query():
    server = Server(WORDS)

    await server.best()

    (request,) = server.asked
    asked = request.hybrid_search
    assert (request.limit, asked.query, list(asked.properties)) == (9, "retry", ["terms"])
    assert asked.alpha == pytest.approx(0.3)
    assert asked.fusion_type == base_search_pb2.Hybrid.FUSION_TYPE_RELATIVE_SCORE
    assert np.frombuffer(asked.vectors[0].vector_bytes, "<f4").tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("terms", "vector", "asked", "scores"),
    [
        ("retry", None, ["bm25_search"], (2.5, None)),
        ("", ONES, ["near_vector"], (None, 0.75)),
        ("", None, [], None),
    ],
)
async def test_a_side_without_anything_to_look_for_is_not_asked(terms, vector, asked, scores):
    server = Server("", score=2.5, distance=0.25)

    found = await server.best(terms, vector)

    kinds = ("bm25_search", "near_vector", "hybrid_search")
    assert [kind for one in server.asked for kind in kinds if one.HasField(kind)] == asked
    assert [(hit.keyword_score, hit.similarity) for hit in found] == ([scores] if scores else [])


@pytest.mark.parametrize(
    ("prose", "keyword_score", "similarity"),
    [
        (f"\n{WORDS} score: 0.46 - \n{NEAR} score: 0.37", 15.78351, -1.5e-07),
        (f"\n{WORDS} score: 0.46", 15.78351, None),
        (f"\n{NEAR} score: 0", None, -1.5e-07),
    ],
)
async def test_each_side_that_found_it_tells_its_score(prose, keyword_score, similarity):
    (found,) = await Server(prose).best()

    assert found.id == ID.bytes
    assert (found.keyword_score, found.similarity) == (keyword_score, similarity)


@pytest.mark.parametrize(
    "prose",
    ["", "fused of keyword 15.8 and vector 0.3", WORDS.replace("15.78351,", "15.78351;")],
)
async def test_an_explanation_that_tells_no_scores_is_refused_with_the_remedy(prose):
    with pytest.raises(Corrupt, match=r"run the one in docker-compose\.yml"):
        await Server(prose).best()
