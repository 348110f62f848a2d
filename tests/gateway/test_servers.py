"""The status says whether the store and the models answer, and does not depend on it."""

import asyncio
import threading
from dataclasses import replace

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.errors import Unavailable
from codelode.reports import Server
from codelode.settings import Settings
from gateway import service
from gateway.caching_embedder import CachingEmbedder
from gateway.service import servers
from gateway.service.servers import KnownServers
from tests.worlds import HashEmbedder, World

ADMIN = Principal("ann", Role.ADMIN, EVERYTHING)


class ServedEmbedder(HashEmbedder):
    """An embedder behind a server, which can be away or silent."""

    def __init__(self):
        super().__init__()
        self.problem = ""
        self.checks = 0
        self.answers = threading.Event()
        self.answers.set()

    def check(self):
        self.checks += 1
        self.answers.wait()
        if self.problem:
            raise Unavailable(self.problem)


class AwayStore(MemoryChunkStore):
    """A store whose server is away."""

    async def count(self, visible):
        raise Unavailable("the store does not answer")


@pytest.fixture
def world(tmp_path):
    made = World(Settings(data=tmp_path))
    made.index("acme/app", {"a.py": "def a(): ...\n"})
    return made


def given(world, **backends):
    now = [0.0]
    dependencies = replace(world.dependencies, known_servers=KnownServers(lambda: now[0]))
    published = dependencies.published
    published.backends = replace(published.backends, **backends)
    return dependencies, now


async def states(dependencies):
    found = await service.status(dependencies, ADMIN)
    return {one.role: one.problem for one in found.servers}


async def test_the_status_names_the_servers_that_answer(world):
    found = await service.status(world.dependencies, ADMIN)

    assert found.servers == (Server("store", "local", ""), Server("embedder", "hash-64", ""))
    assert (found.store, found.embedder, found.chunks) == ("local", "hash-64", 1)


async def test_the_status_without_an_answer_of_the_store_has_everything_else(world):
    dependencies, _ = given(world, chunks=AwayStore())

    found = await service.status(dependencies, ADMIN)

    assert found.servers[0] == Server("store", "local", "the store does not answer")
    assert found.chunks == servers.UNKNOWN
    assert [one.name for one in found.repositories] == ["acme/app"]


async def test_a_model_is_asked_again_only_when_its_last_answer_is_old(world):
    embedder = ServedEmbedder()
    dependencies, now = given(world, embedder=CachingEmbedder(embedder))
    embedder.problem = "the model server does not answer"

    assert (await states(dependencies))["embedder"] == embedder.problem
    embedder.problem = ""
    assert (await states(dependencies))["embedder"] != ""
    now[0] += servers.FRESH_S + 1
    assert (await states(dependencies))["embedder"] == ""
    assert embedder.checks == 2


async def test_only_admins_who_see_everything_read_why_a_model_does_not_answer(world):
    embedder = ServedEmbedder()
    dependencies, _ = given(world, embedder=CachingEmbedder(embedder))
    embedder.problem = "the model server at http://10.0.3.7:8000 does not answer"

    assert (await states(dependencies))["embedder"] == embedder.problem
    for reader in (
        replace(ADMIN, role=Role.READER),
        replace(ADMIN, visible=Visibility.of(["a/b"])),
    ):
        found = await service.status(dependencies, reader)
        assert {one.role: one.problem for one in found.servers} == {
            "store": "",
            "embedder": "does not answer",
        }


async def test_the_status_does_not_wait_for_a_silent_model(world, monkeypatch):
    monkeypatch.setattr(servers, "WAIT_S", 0.01)
    embedder = ServedEmbedder()
    dependencies, now = given(world, language_model=embedder)
    embedder.answers.clear()
    try:
        assert "has not answered" in (await states(dependencies))["language model"]
        now[0] += servers.FRESH_S + 1
        assert "has not answered for 11 s" in (await states(dependencies))["language model"]
        assert embedder.checks == 1
    finally:
        embedder.answers.set()
    while (await states(dependencies))["language model"]:
        await asyncio.sleep(0)
