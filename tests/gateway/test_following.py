"""A gateway switches to a new index together with its embedder, and never mixes both."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from codelode.access import EVERYTHING
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.errors import SchemaMismatch, Superseded
from codelode.model import FileChunks, Repository, RepositoryName
from codelode.v1 import index_pb2, index_pb2_grpc, search_pb2, search_pb2_grpc
from gateway.app import Gateway
from gateway.service.published import Published


class Superseding:
    """An index that is replaced by another one between two calls."""

    def __init__(self, chunks):
        self._chunks = chunks
        self.error = None

    async def hybrid(self, query):
        self._check()
        return await self._chunks.hybrid(query)

    async def count(self, visible):
        self._check()
        return await self._chunks.count(visible)

    async def close(self):
        pass

    def _check(self):
        if self.error is not None:
            raise self.error


class Other:
    """An embedder of the same dimension with incompatible vectors."""

    identity = "other-64"

    def __init__(self, embedder):
        self._embedder = embedder
        self.dim = embedder.dim
        self.queries = []

    def embed_documents(self, texts):
        return -self._embedder.embed_documents(texts)

    def embed_query(self, text):
        self.queries.append(text)
        return -self._embedder.embed_query(text)


class Indexes:
    """The old and the new index, of which one is published."""

    def __init__(self, backends, embedder):
        self.old = replace(backends, chunks=Superseding(backends.chunks))
        self.embedder = Other(embedder)
        self.chunks = MemoryChunkStore()
        self.new = replace(self.old, chunks=self.chunks, embedder=self.embedder)
        self.is_swapped = False
        self.looks = 0

    def look(self, before):
        self.looks += 1
        return self.new if self.is_swapped and before is self.old else None

    def swap(self):
        self.is_swapped = True
        self.old.chunks.error = Superseded("another index has taken its place")


class Refusing:
    """An embedder whose model is not the one that made the index."""

    identity = "hash-64"

    def embed_query(self, _):
        raise SchemaMismatch("this is another embedder")


@pytest.fixture
def indexes(backends, embedder, make_chunk, index, ledger):
    ledger.register(Repository(RepositoryName("acme/http"), "https://example.org/x"))
    made = Indexes(backends, embedder)
    chunk = make_chunk("a.py", "def retry(): pause()")
    index(chunk)
    vectors = made.embedder.embed_documents([chunk.content])
    made.chunks.replace([FileChunks(chunk.repository, "a.py", chunk.refs, (chunk,), vectors)])
    return made


def following(dependencies, indexes):
    return replace(dependencies, published=Published(indexes.old, indexes.look))


@pytest.fixture
async def channel(dependencies, indexes):
    gateway = Gateway(following(dependencies, indexes))
    await gateway.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as opened:
        yield opened
    await gateway.stop(grace_s=0)


async def asked(channel):
    request = search_pb2.SearchRequest(query="retry with a pause", skip_cache=True)
    response = await search_pb2_grpc.SearchServiceStub(channel).Search(request)
    status = await index_pb2_grpc.IndexServiceStub(channel).GetStatus(index_pb2.GetStatusRequest())
    return response, status


async def test_the_call_that_meets_the_swap_is_answered_from_the_new_index(channel, indexes):
    before, status = await asked(channel)
    assert (before.hits[0].match, status.embedder) == ("both", "hash-64")
    indexes.swap()

    after, status = await asked(channel)

    # Were the query's vector still the old one, its cosine would be below zero.
    assert (after.hits[0].match, status.embedder) == ("both", "other-64")
    assert indexes.embedder.queries


async def test_an_error_of_an_index_that_was_not_replaced_is_returned(channel, indexes):
    await asked(channel)
    indexes.old.chunks.error = SchemaMismatch("written with another embedder")
    with pytest.raises(grpc.aio.AioRpcError, match="written with another embedder"):
        await asked(channel)
    assert indexes.looks


async def test_a_gateway_that_starts_after_the_swap_follows_to_the_new_index(dependencies, indexes):
    indexes.swap()
    gateway = Gateway(following(dependencies, indexes))
    await gateway.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as opened:
        _, status = await asked(opened)
    await gateway.stop(grace_s=0)
    assert status.embedder == "other-64"


async def test_a_model_that_does_not_match_the_index_makes_the_gateway_look_for_another(
    dependencies, indexes
):
    indexes.old = replace(indexes.old, embedder=Refusing())
    gateway = Gateway(following(dependencies, indexes))
    await gateway.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as opened:
        with pytest.raises(grpc.aio.AioRpcError, match="this is another embedder"):
            await asked(opened)
        indexes.is_swapped = True
        after, _ = await asked(opened)
    await gateway.stop(grace_s=0)
    assert after.hits[0].match == "both"


async def counted(backends, calls, *, fails_after):
    """Yield items of an index; if it was superseded, fail after so many."""
    calls.append(backends)
    for number in range(3):
        if number == fails_after:
            await backends.chunks.count(EVERYTHING)
        yield number, backends.embedder.identity


async def test_a_stream_starts_again_only_until_it_has_yielded(indexes):
    indexes.swap()
    for fails_after, expected in ((0, [(n, "other-64") for n in range(3)]), (1, None)):
        published, calls = Published(indexes.old, indexes.look), []

        def read(backends, calls=calls, fails_after=fails_after):
            return counted(backends, calls, fails_after=fails_after)

        if expected is None:
            with pytest.raises(Superseded):
                [item async for item in published.stream(read)]
        else:
            assert [item async for item in published.stream(read)] == expected
        await published.close()
        assert [one is indexes.old for one in calls] == [True, False][: 1 + (fails_after == 0)]
