"""A gateway over in-memory twins on a free loopback port, and a channel to it."""

from __future__ import annotations

import threading

import pytest
from grpc import aio

from codelode.backends.memory.api_keys import MemoryApiKeys
from codelode.backends.memory.cache import MemoryCache
from codelode.backends.memory.chunk_maps import MemoryChunkMaps
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.memory.disk_use import MemoryDiskUse
from codelode.backends.memory.expiring_values import MemoryExpiringValues
from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.backends.memory.regrouping import MemoryRegroupingStates
from codelode.backends.memory.semantic_cache import MemorySemanticQueryCache
from codelode.backends.memory.sources import MemorySourceStates
from codelode.backends.memory.symbols import MemorySymbols
from codelode.errors import Unavailable
from codelode.model import (
    FileChunks,
)
from codelode.settings import Settings
from codelode.v1 import index_pb2_grpc, search_pb2_grpc
from gateway.app import Gateway
from gateway.service.coverage import CoverageReader
from gateway.service.dependencies import Dependencies
from gateway.service.published import Published
from gateway.state import Backends
from tests.chunks import chunk
from tests.worlds import HashEmbedder, ListedJobs, sessions_in_memory


class AwayEmbedder(HashEmbedder):
    """An embedder whose server is down."""

    def embed_query(self, text):
        raise Unavailable("the embedder does not answer")


class AwayableLedger(MemoryLedger):
    """A ledger that can be made unreachable, and that counts how often it is read."""

    def __init__(self):
        super().__init__()
        self.is_away = False
        self.answers = threading.Event()  # listings wait until it is set
        self.answers.set()
        self.looked = threading.Semaphore(0)

    def generation(self):
        if self.is_away:
            raise Unavailable("Redis does not answer")
        return super().generation()

    def repositories(self):
        self.answers.wait()
        return super().repositories()

    def run(self, run):
        self.looked.release()
        return super().run(run)


@pytest.fixture
def make_chunk():
    return chunk


@pytest.fixture
def embedder():
    return HashEmbedder()


@pytest.fixture
def away_embedder():
    return AwayEmbedder()


@pytest.fixture
def ledger():
    return AwayableLedger()


@pytest.fixture
def jobs():
    return ListedJobs()


@pytest.fixture
def chunks():
    return MemoryChunkStore()


@pytest.fixture
def index(chunks, embedder):
    """Stores chunks as the workers would."""

    def store(*given):
        files = {}
        for one in given:
            files.setdefault((one.repository, one.path, one.refs), []).append(one)
        chunks.replace(
            [
                FileChunks(
                    repository,
                    path,
                    refs,
                    tuple(held),
                    embedder.embed_documents([c.content for c in held]),
                )
                for (repository, path, refs), held in files.items()
            ]
        )

    return store


class ScriptedModel:
    """A language model that answers from a list, and records the questions."""

    identity = "scripted"

    def __init__(self):
        self.answers = []  # an exception is raised; the last one stays
        self.asked = []

    def complete(self, prompt, *, max_tokens):
        self.asked.append(prompt)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(prompt) if callable(answer) else answer


@pytest.fixture
def model():
    return ScriptedModel()


@pytest.fixture
def graph():
    return MemoryGraph()


@pytest.fixture
def symbols():
    return MemorySymbols()


@pytest.fixture
def backends(chunks, embedder, graph, symbols, model):
    return Backends(chunks, embedder, graph, symbols, model)


@pytest.fixture
def dependencies(backends, ledger, jobs, settings):
    return Dependencies(
        published=Published(backends),
        ledger=ledger,
        cache=MemoryCache(entries=100),
        semantic_cache=MemorySemanticQueryCache(entries=100),
        jobs=jobs,
        settings=settings,
        coverage=CoverageReader(ledger),
        keys=MemoryApiKeys(),
        permissions=MemoryPermissionStates(),
        regrouping=MemoryRegroupingStates(),
        disk_use=MemoryDiskUse(),
        sources=MemorySourceStates(),
        maps=MemoryChunkMaps(),
        sessions=sessions_in_memory(settings),
        deliveries=MemoryExpiringValues(),
    )


@pytest.fixture(scope="session")
def default_settings():
    return Settings(listen="127.0.0.1:0")


@pytest.fixture
def settings(default_settings, tmp_path):
    """Return settings with folders of their own; reading all variables again takes 2 ms."""
    return default_settings.model_copy(update={"data": tmp_path, "local_paths": str(tmp_path)})


@pytest.fixture
async def gateway(dependencies):
    started = Gateway(dependencies)
    await started.start()
    yield started
    await started.stop(grace_s=0)
    await dependencies.close()


@pytest.fixture
async def channel(gateway):
    async with aio.insecure_channel(f"127.0.0.1:{gateway.port}") as opened:
        yield opened


@pytest.fixture
def search(channel):
    return search_pb2_grpc.SearchServiceStub(channel).Search


@pytest.fixture
def indexing(channel):
    return index_pb2_grpc.IndexServiceStub(channel)
