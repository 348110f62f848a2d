"""A worker caches the published index, and opens it again if it was opened wrongly."""

from __future__ import annotations

import contextlib
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from codelode.model import (
    DEFAULT_REF,
    FileChunks,
    RepositoryName,
)
from codelode.settings import Settings
from tests.chunks import chunk
from workers import services

APP = RepositoryName("acme/app")
CONTENT = "def retry(): pause()"
CHUNK = chunk("a.py", CONTENT, repository=APP, refs=(DEFAULT_REF,))


@pytest.fixture
def own(tmp_path, model_server, monkeypatch):
    """Services of a worker that checks the published index at each access."""
    monkeypatch.setattr(services, "FOLLOW_S", 0.0)
    settings = Settings(
        data=tmp_path, embedder="ollama", embedding_model="embed", ollama_url=model_server.url
    )
    with contextlib.closing(services.Services(settings)) as own:
        yield own


def answer_with_another_dimension(model_server):
    row = [1.0] * (model_server.DIM + 1)
    model_server.always = model_server.json({"embeddings": [row]})


def test_a_model_with_an_apparently_wrong_dimension_is_asked_again_later(
    own, model_server, monkeypatch
):
    answer_with_another_dimension(model_server)
    misled = own.index
    assert misled.embedder.dim == model_server.DIM + 1
    model_server.always = None
    monkeypatch.setattr(services, "FOLLOW_S", math.inf)
    own.invalidate(misled)
    assert own.index is misled

    monkeypatch.setattr(services, "FOLLOW_S", 0.0)
    own.invalidate(misled)
    again = own.index
    own.invalidate(misled)

    assert own.index is again
    assert again.embedder.dim == model_server.DIM


def test_an_empty_index_opened_with_a_wrong_dimension_accepts_the_first_chunks(own, model_server):
    answer_with_another_dimension(model_server)
    misled = own.index
    misled.store.replace([FileChunks(APP, "skipped.bin", (DEFAULT_REF,))])
    misled.store.maintain()
    model_server.always = None

    own.invalidate(misled)
    index = own.index
    vectors = index.embedder.embed_documents([CONTENT])
    index.store.replace([FileChunks(APP, "a.py", CHUNK.refs, (CHUNK,), vectors)])

    assert list(index.store.ids(APP, DEFAULT_REF)) == [CHUNK.id]


@pytest.mark.slow
def test_a_store_can_be_maintained_while_files_are_written(tmp_path):
    settings = Settings(data=tmp_path)
    with contextlib.closing(services.Services(settings)) as own, ThreadPoolExecutor(3) as pool:
        index = own.index
        vectors = index.embedder.embed_documents([CONTENT])

        def write(number):
            path = f"{number}.py"
            one = chunk(path, CONTENT, repository=APP, refs=(DEFAULT_REF,))
            index.store.replace([FileChunks(APP, path, one.refs, (one,), vectors)])

        def maintain(_):
            index.store.maintain()

        for future in [pool.submit(work, n) for n in range(30) for work in (write, maintain)]:
            future.result(60)
        assert len(list(index.store.ids(APP, DEFAULT_REF))) == 30
