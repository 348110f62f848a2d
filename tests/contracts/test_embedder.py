"""The contract of the port Embedder, over every implementation."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from pydantic import SecretStr

from codelode.backends.models import ollama, openai
from codelode.backends.models.static import StaticEmbedder
from codelode.ports import QuickEmbedder
from gateway.caching_embedder import CachingEmbedder

MODEL = "all-minilm"

TEXTS = [
    "src/cache.py\nclass Cache › def get\n    def get(self, key): return self._entries[key]",
    "README.md\nHow to install",
    "main.go\nfunc main() { server.ListenAndServe() }",
]


@pytest.fixture(
    params=[
        "static",
        pytest.param("ollama", marks=pytest.mark.server),
        pytest.param("openai", marks=pytest.mark.server),
    ],
    scope="module",
)
def make(request):
    """Return a function that makes equal embedders."""
    if request.param == "static":
        yield StaticEmbedder
        return
    url = request.getfixturevalue("ollama_url")
    with contextlib.ExitStack() as stack:
        if request.param == "ollama":
            server = stack.enter_context(contextlib.closing(ollama.Server(url, threads=1)))
            yield lambda: ollama.embedder(server, model=MODEL)
            return
        endpoint = openai.Endpoint(f"{url}/v1", key=SecretStr(""))
        stack.enter_context(contextlib.closing(endpoint))
        yield lambda: openai.embedder(endpoint, model=MODEL)


@pytest.fixture(scope="module")
def embedder(make):
    return make()


def test_identity_names_the_dimensions(embedder):
    assert str(embedder.dim) in embedder.identity
    assert embedder.identity.isprintable()


def test_two_instances_of_one_model_have_the_same_identity(make, embedder):
    assert make().identity == embedder.identity


def test_documents_are_unit_rows_in_order(embedder):
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    backwards = embedder.embed_documents(TEXTS[::-1])
    np.testing.assert_allclose(backwards[::-1], vectors, atol=1e-5)


def test_an_empty_list_of_documents_gives_an_empty_array(embedder):
    assert embedder.embed_documents([]).shape == (0, embedder.dim)


def test_the_other_texts_of_a_call_do_not_matter(embedder):
    together = embedder.embed_documents(TEXTS * 40)  # more than one call of a server
    alone = np.concatenate([embedder.embed_documents([text]) for text in TEXTS])
    np.testing.assert_allclose(together, np.tile(alone, (40, 1)), atol=1e-5)


def test_the_same_call_gives_the_same_bytes(embedder):
    assert embedder.embed_documents(TEXTS).tobytes() == embedder.embed_documents(TEXTS).tobytes()


def test_a_query_is_a_unit_vector_comparable_with_documents(embedder):
    query = embedder.embed_query("look up a key in the cache")
    assert query.shape == (embedder.dim,)
    assert query.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(query), 1, atol=1e-5)
    assert int((embedder.embed_documents(TEXTS) @ query).argmax()) == 0


@pytest.mark.parametrize("text", ["", " \n\t", "{}();"])
def test_a_text_without_words_gives_a_zero_row(embedder, text):
    vectors = embedder.embed_documents([text, TEXTS[0]])
    assert not vectors[0].any()
    assert vectors[1].any()
    assert not embedder.embed_query(text).any()


@pytest.mark.parametrize(
    "text",
    [
        "\x00\ufffd\ud800",
        "é" * 10_000,
        "x" * 1_000_000,
        "word " * 200_000,
        "日本語 текст",
        "👩‍👩‍👧",
    ],
    ids=["broken", "accents", "one run", "many words", "other scripts", "emoji"],
)
def test_hostile_texts_are_finite_rows(embedder, text):
    assert np.isfinite(embedder.embed_documents([text])).all()


def test_a_returned_vector_is_the_callers_own(embedder):
    first = embedder.embed_query("cache")
    copy = first.copy()
    first[:] = 0
    np.testing.assert_array_equal(embedder.embed_query("cache"), copy)


@pytest.mark.parametrize("text", ["where are retries counted", "retry " * 500, "::::"])
def test_a_vector_that_is_ready_at_once_equals_that_of_the_query(embedder, text):
    caching = CachingEmbedder(embedder)
    quick = [one for one in (embedder, caching) if isinstance(one, QuickEmbedder)]
    expected = embedder.embed_query(text)

    at_once = [one.embed_at_once(text) for one in quick]
    caching.embed_query(text)

    assert all(one is None or np.array_equal(one, expected) for one in at_once)
    np.testing.assert_allclose(caching.embed_at_once(text), expected, atol=1e-5)
