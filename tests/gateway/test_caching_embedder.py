"""The embedder that remembers the vectors of queries."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.caching_embedder import CachingEmbedder


class Counting:
    identity = "counting"
    dim = 2

    def __init__(self):
        self.asked = []

    def embed_documents(self, texts):
        return np.ones((len(texts), 2), np.float32)

    def embed_query(self, text):
        self.asked.append(text)
        return np.array([len(text), 1], np.float32)


@pytest.fixture
def inner():
    return Counting()


def test_a_query_is_embedded_once_within_the_hour(inner):
    now = [0.0]
    embedder = CachingEmbedder(inner, clock=lambda: now[0])

    first = embedder.embed_query("retry")
    now[0] = 3_599.0
    again = embedder.embed_query("retry")
    now[0] = 3_601.0
    embedder.embed_query("retry")

    assert np.array_equal(first, again)
    assert inner.asked == ["retry", "retry"]


def test_a_cached_vector_is_read_only(inner):
    with pytest.raises(ValueError, match="read-only"):
        CachingEmbedder(inner).embed_query("retry")[0] = 5


def test_the_oldest_query_makes_room(inner):
    embedder = CachingEmbedder(inner, entries=2)
    for text in ("a", "b", "c", "b", "a"):
        embedder.embed_query(text)

    assert inner.asked == ["a", "b", "c", "a"]


class Quick(Counting):
    """An embedder that is quick only for short queries."""

    def embed_at_once(self, text):
        return self.embed_query(text) if len(text) < 10 else None


def test_vectors_of_a_quick_embedder_are_computed_at_once_and_cached():
    inner = Quick()
    embedder = CachingEmbedder(inner)

    first = embedder.embed_at_once("retry")

    assert first is embedder.embed_at_once("retry") is embedder.embed_query("retry")
    assert embedder.embed_at_once("retry with back-off") is None
    assert inner.asked == ["retry"]


def test_a_slow_embedder_answers_at_once_only_from_the_cache(inner):
    embedder = CachingEmbedder(inner)

    assert embedder.embed_at_once("retry") is None
    made = embedder.embed_query("retry")
    assert embedder.embed_at_once("retry") is made
    assert inner.asked == ["retry"]


def test_everything_else_is_passed_to_the_inner_embedder(inner):
    embedder = CachingEmbedder(inner)

    assert (embedder.identity, embedder.dim) == ("counting", 2)
    assert embedder.embed_documents(["x", "y"]).shape == (2, 2)
