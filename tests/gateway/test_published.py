"""A gateway opens the published index at startup, even if the model server is unreachable."""

from __future__ import annotations

import contextlib
from uuid import uuid4

import numpy as np
import pytest

from codelode.access import EVERYTHING
from codelode.backends import registry
from codelode.errors import InvalidSettings, SchemaMismatch, Unavailable
from codelode.model import FileChunks, Filters, HybridQuery
from codelode.settings import Settings
from gateway import app


@pytest.fixture(params=["local", pytest.param("weaviate", marks=pytest.mark.server)])
def placed(request, tmp_path):
    """Return settings of a store without an index, and of a model on the test's own server."""
    places = {"data": tmp_path}
    if request.param == "weaviate":
        address = request.getfixturevalue("weaviate_address")
        places |= {
            "store": "weaviate",
            "weaviate_url": address.url,
            "weaviate_grpc_port": address.grpc_port,
            "weaviate_api_key": address.api_key,
            "weaviate_collection": f"{request.getfixturevalue('weaviate_alias')}{uuid4().hex[:6]}",
        }
    return places


@pytest.fixture
def served(placed, model_server):
    return Settings(
        **placed, embedder="ollama", embedding_model="embed", ollama_url=model_server.url
    )


@pytest.fixture
def write(make_chunk):
    """`write(settings)` makes an index of one chunk with the model; returns its identity."""

    def written(settings):
        chunk = make_chunk("a.py", "def retry(): pause()")
        model = registry.embedder(settings)
        vectors = model.embed_documents([chunk.content])
        with contextlib.closing(registry.chunk_store(settings)) as store:
            store.replace([FileChunks(chunk.repository, "a.py", chunk.refs, (chunk,), vectors)])
        return model.identity

    return written


def away(model_server):
    """Answers only which models there are."""
    model_server.always = lambda path, asked: None


def answer_with_others(model_server):
    row = [1.0] * (model_server.DIM + 1)
    model_server.always = model_server.json({"embeddings": [row]})


async def found(backends):
    vector = backends.embedder.embed_query("retry")
    return await backends.chunks.hybrid(
        HybridQuery("retry", vector, Filters(), 10, visible=EVERYTHING)
    )


async def test_an_index_is_opened_without_its_model(served, write, model_server):
    identity = write(served)
    away(model_server)
    model_server.calls.clear()
    dependencies = app.connected(served)
    backends = dependencies.published.backends

    assert (backends.embedder.identity, backends.embedder.dim) == (identity, model_server.DIM)
    assert await backends.chunks.count(EVERYTHING) == 1
    assert model_server.calls == []
    with pytest.raises(Unavailable):
        backends.embedder.embed_query("retry")
    model_server.always = None
    assert [hit.similarity is not None for hit in await found(backends)] == [True]
    await dependencies.close()


def test_without_an_index_the_model_says_what_it_will_be(served, model_server):
    model_server.always = model_server.json({"error": "bad key"}, 401)
    with pytest.raises(InvalidSettings, match="bad key"):
        app.connected(served)


async def test_another_model_than_that_of_the_index_is_refused(served, write, model_server):
    write(served)
    answer_with_others(model_server)
    dependencies = app.connected(served)
    with pytest.raises(SchemaMismatch, match="set CODELODE_EMBEDDER back"):
        dependencies.published.backends.embedder.embed_query("retry")
    assert not await dependencies.published.follow(dependencies.published.backends)
    await dependencies.close()


async def test_a_gateway_misled_about_its_model_follows_to_the_written_index(
    served, write, model_server
):
    answer_with_others(model_server)
    dependencies = app.connected(served)
    model_server.always = None
    write(served)
    with pytest.raises(SchemaMismatch):
        await dependencies.published.backends.chunks.count(EVERYTHING)

    assert await dependencies.published.follow(dependencies.published.backends)
    backends = dependencies.published.backends

    assert [hit.similarity is not None for hit in await found(backends)] == [True]
    assert not await dependencies.published.follow(backends)
    await dependencies.close()


async def test_the_built_in_embedder_still_counts_tokens(placed, write):
    settings = Settings(**placed)
    write(settings)
    dependencies = app.connected(settings)
    assert dependencies.published.backends.tokeniser.count_tokens("retry")
    assert np.any(dependencies.published.backends.embedder.embed_query("retry"))
    await dependencies.close()
