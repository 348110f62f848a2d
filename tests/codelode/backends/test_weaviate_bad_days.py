"""The clustered chunk store with a real server that is killed, frozen, and restarted."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from codelode.access import EVERYTHING
from codelode.backends.weaviate import batch
from codelode.backends.weaviate.connection import connect
from codelode.backends.weaviate.schema import Version
from codelode.errors import Corrupt, InvalidSettings, Unavailable
from tests.pausing import paused

#: Longest time until a missing server is reported, seconds.
SOON_S = 3.0

#: The server's limit per read and delete request, lowered to reach it with few chunks.
BOUND = 100
KEY = "the-right-key"


@pytest.fixture(scope="module")
def server(make_weaviate):
    return make_weaviate(
        AUTHENTICATION_APIKEY_ENABLED="true",
        AUTHENTICATION_APIKEY_ALLOWED_KEYS=KEY,
        AUTHENTICATION_APIKEY_USERS="codelode",
    )


@pytest.fixture
def sides(server, open_weaviate):
    return open_weaviate(server.address(KEY))


@pytest.fixture
def files_of(chunk_of, file_of):
    """`files_of(text)` returns thirty files of ten chunks."""

    def make(text="shared"):
        return [
            file_of(*(chunk_of(f"{path}.py", f"{text} {line}", line=line) for line in range(10)))
            for path in range(30)
        ]

    return make


async def test_reads_and_writes_continue_after_the_server_was_killed_and_restarted(
    server, sides, chunk_of, file_of
):
    sides.store.replace([file_of(chunk_of("a.py"))])
    assert len(await sides.found()) == 1
    server.signal(signal.SIGKILL)
    server.start()

    assert [hit.chunk.path for hit in await patiently(sides.found)] == ["a.py"]
    sides.store.replace([file_of(chunk_of("b.py"))])
    assert len(await sides.found()) == 2


@pytest.mark.parametrize(
    ("arrived", "restarted"), [(0, "at once"), (150, "at once"), (40, "later")]
)
async def test_a_replacement_interrupted_by_the_server_is_complete_when_repeated(
    server, sides, files_of, arrived, restarted
):
    """Keywords and vectors must both be complete, because a killed server keeps parts of a write.

    A server that restarts at once gets the library's retries; later, the library has given up.
    """
    sides.store.replace(files_of("shared old"))
    files = files_of("shared new")
    writing = asyncio.create_task(asyncio.to_thread(outcome_of, sides.store.replace, files))
    await wait_until(partial(sides.search.count, EVERYTHING), lambda count: count > 300 + arrived)
    server.signal(signal.SIGKILL)
    if restarted == "later":
        await writing
    server.start()
    await writing
    sides.store.replace(files)

    expected = {chunk.id for file in files for chunk in file.chunks}
    assert sides.ids() == expected
    hits = await sides.found(limit=1_000)
    assert {hit.chunk.id for hit in hits if hit.similarity is not None} == expected
    assert {hit.chunk.id for hit in hits if hit.keyword_score is not None} == expected
    assert await sides.search.count(EVERYTHING) == 300


async def test_acknowledged_chunks_are_found_by_vector_after_the_server_was_killed(
    server, sides, chunk_of, file_of
):
    """The server buffers its vector log: the last vectors of a request need another request."""
    rng = np.random.default_rng(1)
    files = []
    for path in range(100):
        chunks = [chunk_of(f"{path}.py", f"shared {line}", line=line) for line in range(10)]
        vectors = rng.normal(size=(10, 4)).astype(np.float32)
        files.append(replace(file_of(*chunks), vectors=vectors))
    sides.store.replace(files)
    server.signal(signal.SIGKILL)
    server.start()

    hits = await patiently(lambda: sides.found("", limit=2_000))
    assert len(hits) == 1_000


async def test_a_removal_interrupted_by_the_server_is_complete_when_repeated(
    server, sides, files_of
):
    sides.store.replace(files_of())
    removing = asyncio.create_task(
        asyncio.to_thread(outcome_of, sides.store.remove_repository, "acme/app")
    )
    await wait_until(partial(sides.search.count, EVERYTHING), lambda count: count < 300)
    server.signal(signal.SIGKILL)
    server.start()
    await removing
    sides.store.remove_repository("acme/app")

    assert await patiently(sides.found) == []
    assert await sides.search.count(EVERYTHING) == 0


async def test_a_missing_server_is_reported_soon_and_found_again(server, sides, chunk_of, file_of):
    sides.store.replace([file_of(chunk_of())])
    await sides.found()
    server.signal(signal.SIGKILL)

    assert await seconds_to_fail(sides.found) < SOON_S
    assert await seconds_to_fail(sides.found) < 0.1  # the circuit is open: the server is not called
    with pytest.raises(Unavailable, match="is it running"):
        sides.store.replace([file_of(chunk_of("b.py"))])
    server.start()
    assert len(await patiently(sides.found)) == 1


async def test_a_hanging_server_is_reported_soon_and_found_again(server, sides, chunk_of, file_of):
    sides.store.replace([file_of(chunk_of())])
    await sides.found()
    with paused([server.pid()]):
        assert await seconds_to_fail(sides.found) < SOON_S

    assert len(await patiently(sides.found)) == 1


async def test_a_wrong_key_is_named(server, open_weaviate, chunk_of, file_of):
    sides = open_weaviate(server.address("wrong"))

    with pytest.raises(InvalidSettings, match="CODELODE_WEAVIATE_API_KEY"):
        sides.store.replace([file_of(chunk_of())])
    with pytest.raises(InvalidSettings, match="CODELODE_WEAVIATE_API_KEY"):
        await sides.found()


async def test_an_index_that_was_removed_is_reported(server, sides, chunk_of, file_of):
    sides.store.replace([file_of(chunk_of())])
    await sides.found()
    with connect(server.address(KEY)) as client:
        client.collections.delete(Version("test", 4).collection(sides.place.alias))

    for _ in range(2):
        with pytest.raises(Corrupt, match="was removed from Weaviate: `codelode doctor"):
            await sides.found()
        with pytest.raises(Corrupt, match="was removed from Weaviate: `codelode doctor"):
            sides.store.replace([file_of(chunk_of("b.py"))])


async def test_more_chunks_than_fit_into_one_request_are_read_and_removed(
    make_weaviate, open_weaviate, files_of, monkeypatch
):
    monkeypatch.setattr(batch, "PAGE", BOUND)
    sides = open_weaviate(make_weaviate(QUERY_MAXIMUM_RESULTS=str(BOUND)).address())
    files = files_of()
    sides.store.replace(files)

    assert sides.ids() == {chunk.id for file in files for chunk in file.chunks}
    sides.store.replace(files)
    assert await sides.search.count(EVERYTHING) == 300
    sides.store.remove_repository("acme/app")
    assert sides.ids() == set()
    assert await sides.search.count(EVERYTHING) == 0


def outcome_of(call, *given):
    try:
        return call(*given)
    except Unavailable as exc:
        return exc


async def seconds_to_fail(call):
    start = time.monotonic()
    with pytest.raises(Unavailable):
        await call()
    return time.monotonic() - start


async def patiently(call, *, timeout_s=15.0):
    """Return what the call returns once the server is found again."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return await call()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


async def wait_until(call, is_reached, *, timeout_s=15.0):
    async with asyncio.timeout(timeout_s):
        while not is_reached(await call()):
            await asyncio.sleep(0)
