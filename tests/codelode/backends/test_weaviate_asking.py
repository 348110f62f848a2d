"""Scores out of what the server explains of a hybrid query."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest
from weaviate.proto.v1 import base_pb2, search_get_pb2

from codelode.backends.weaviate.asking import TenantObjects
from codelode.errors import SchemaMismatch

ID = UUID("eb33b527-fafe-584b-908d-f7b4a98252f0")
WORDS = f"Hybrid (Result Set keyword,bm25) Document {ID}: original score 15.78351, normalized"
NEAR = f"Hybrid (Result Set vector,hybridVector) Document {ID}: original score -1.5e-07, normalized"


def explaining(prose):
    """The objects of a server that found one and explains it so."""
    metadata = search_get_pb2.MetadataResult(id_as_bytes=ID.bytes, explain_score=prose)
    reply = search_get_pb2.SearchReply(results=[search_get_pb2.SearchResult(metadata=metadata)])

    async def grpc_search(request):
        return reply

    client = SimpleNamespace(_connection=SimpleNamespace(grpc_search=grpc_search))
    return TenantObjects(client, collection="C", tenant="t")


def by_both(objects):
    vector, where = np.ones(4, np.float32), base_pb2.Filters()
    return objects.by_both("retry", ["terms"], vector, alpha=0.5, where=where, limit=9)


@pytest.mark.parametrize(
    ("prose", "keyword_score", "similarity"),
    [
        (f"\n{WORDS} score: 0.46 - \n{NEAR} score: 0.37", 15.78351, -1.5e-07),
        (f"\n{WORDS} score: 0.46", 15.78351, None),
        (f"\n{NEAR} score: 0", None, -1.5e-07),
    ],
)
async def test_each_side_that_found_it_tells_its_score(prose, keyword_score, similarity):
    (found,) = await by_both(explaining(prose))

    assert (found.id, found.keyword_score, found.similarity) == (
        ID.bytes,
        keyword_score,
        similarity,
    )


@pytest.mark.parametrize("prose", ["", "fused of keyword 15.8 and vector 0.3"])
async def test_an_explanation_that_tells_no_scores_is_refused_with_the_remedy(prose):
    with pytest.raises(SchemaMismatch, match=r"run the one in docker-compose\.yml"):
        await by_both(explaining(prose))
