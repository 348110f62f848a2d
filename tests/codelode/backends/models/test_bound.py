"""An embedder that is bound to an index is known without a request, and never mixes models."""

from __future__ import annotations

import numpy as np
import pytest

from codelode.backends.engine import VectorSpace
from codelode.backends.models.bound import RETRY_S, BoundEmbedder
from codelode.errors import SchemaMismatch, Unavailable

SPACE = VectorSpace("right-2", 2)


class Server:
    """A server that reports its model, once to each embedder."""

    def __init__(self):
        self.model = SPACE
        self.is_away = False
        self.embedders = 0
        self.asked = 0


class Asking:
    def __init__(self, server):
        self._server = server
        self._known = None
        server.embedders += 1

    @property
    def identity(self):
        return self._found().identity

    @property
    def dim(self):
        return self._found().dim

    def embed_documents(self, texts):
        return np.ones((len(texts), self.dim), np.float32)

    def embed_query(self, _):
        return np.ones(self.dim, np.float32)

    def _found(self):
        if self._known is None:
            self._server.asked += 1
            if self._server.is_away:
                raise Unavailable("the server does not answer")
            self._known = self._server.model
        return self._known


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def embedder(server, clock):
    return BoundEmbedder(lambda: Asking(server), SPACE, clock=lambda: clock[0])


EMBEDDING = [
    pytest.param(lambda embedder: embedder.embed_query("retry"), id="query"),
    pytest.param(lambda embedder: embedder.embed_documents(["retry"]), id="documents"),
]


def test_identity_and_dimension_come_from_the_index_without_a_model_call(embedder, server):
    assert (embedder.identity, embedder.dim) == SPACE
    assert server.asked == 0


@pytest.mark.parametrize("embed", EMBEDDING)
def test_a_restarted_server_is_used_again(embedder, server, embed):
    server.is_away = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            embed(embedder)
    server.is_away = False

    assert embed(embedder).shape[-1] == SPACE.dim
    assert server.embedders == 1  # whose circuit breaker knows of the failures


@pytest.mark.parametrize("embed", EMBEDDING)
@pytest.mark.parametrize(
    "other", [VectorSpace("other-2", 2), VectorSpace("right-2", 3)], ids=["model", "dim"]
)
def test_vectors_of_another_model_are_refused_with_the_remedy(embedder, server, embed, other):
    server.model = other
    told = f"written with {SPACE}, this is {other}: set CODELODE_EMBEDDER back"
    with pytest.raises(SchemaMismatch, match=told):
        embed(embedder)


def test_a_model_mistaken_for_another_one_is_asked_again_later(embedder, server, clock):
    server.model = VectorSpace("other-2", 2)
    with pytest.raises(SchemaMismatch):
        embedder.embed_query("retry")
    server.model = SPACE
    clock[0] = RETRY_S - 1
    for _ in range(2):
        with pytest.raises(SchemaMismatch, match="set CODELODE_EMBEDDER back"):
            embedder.embed_query("retry")
    assert server.asked == 1

    clock[0] = RETRY_S
    assert embedder.embed_query("retry").any()
    assert embedder.embed_query("retry").any()
    assert server.asked == 2
