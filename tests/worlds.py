"""Small repositories, indexed in memory as the workers do it, and a gateway over them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from codelode import tokens
from codelode.backends.documents import WebDocuments
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.backends.local.inventory import LocalInventory
from codelode.backends.memory.api_keys import MemoryApiKeys
from codelode.backends.memory.cache import MemoryCache
from codelode.backends.memory.chunk_maps import MemoryChunkMaps
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.memory.disk_use import MemoryDiskUse
from codelode.backends.memory.expiring_values import MemoryExpiringValues
from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.packages import MemoryPackageIndex
from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.backends.memory.references import MemoryReferences
from codelode.backends.memory.regrouping import MemoryRegroupingStates
from codelode.backends.memory.semantic_cache import MemorySemanticQueryCache
from codelode.backends.memory.sources import MemorySourceStates
from codelode.backends.memory.symbols import MemorySymbols
from codelode.chunk_map import MapState, Progress
from codelode.errors import Unavailable
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    FileChunks,
    FileRecord,
    FileState,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    Run,
    SourceFile,
    embedding_text,
    locate,
)
from codelode.ports import PublishedPackages
from codelode.reports import Queue
from codelode.settings import Settings
from gateway.service.coverage import CoverageReader
from gateway.service.dependencies import Dependencies
from gateway.service.published import Published
from gateway.sessions import sessions
from gateway.state import Backends
from workers import mapping
from workers.parse import imports, parse

DIM = 64
parsed = cache(parse)


class HashEmbedder:
    """Embeds a text as a bag of hashed terms, so texts that share words are close."""

    identity = "hash-64"
    dim = DIM

    def embed_documents(self, texts):
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text):
        return _embedded(text)


@cache  # many worlds have the same files
def _embedded(text):
    vector = np.zeros(DIM, np.float32)
    for term in tokens.terms(text):
        vector[int(hashlib.sha256(term.encode()).hexdigest(), 16) % DIM] += 1
    vector /= max(float(np.linalg.norm(vector)), 1e-9)
    vector.flags.writeable = False
    return vector


class ListedJobs:
    """The jobs port; records the jobs that are sent."""

    def __init__(self):
        self.sent = []
        self.is_away = False

    def pull(self, run):
        self._answer()
        self.sent.append(("pull", run.id))

    def remove(self, repository):
        self._answer()
        self.sent.append(("remove", repository))

    def remove_ref(self, repository, ref):
        self._answer()
        self.sent.append(("remove", repository, ref))

    def read_permissions(self, connection):
        self._answer()
        self.sent.append(("permissions", connection))

    def read_source(self, connection):
        self._answer()
        self.sent.append(("source", connection))

    def make_map(self, repositories):
        self._answer()
        self.sent.append(("map", tuple(repositories)))

    def queues(self):
        self._answer()
        return (Queue("pull", len(self.sent), 1),)

    def close(self):
        self.sent.append(("close",))

    def _answer(self):
        if self.is_away:
            raise Unavailable("the job broker does not answer")


def sessions_in_memory(settings):
    return sessions(settings, MemoryExpiringValues(), WebDocuments())


def blob(text):
    return BlobId(hashlib.sha1(text.encode()).hexdigest())


class World:
    """In-memory backends, and the dependencies of a gateway that uses them."""

    #: Runs by the number of their repository, if a test stores them.
    runs: Mapping[int, Run]

    def __init__(self, settings, *, index=None):
        """Keep chunks in memory, or in the embedded store in the folder `index`."""
        self.embedder = HashEmbedder()
        stores: tuple[Any, Any, Any] = (MemoryChunkStore(),) * 3
        if index is not None:
            store = {"dim": DIM, "identity": HashEmbedder.identity}
            written = LocalChunkStore(index, **store)
            stores = LocalChunkSearch(index, **store), written, LocalInventory(index)
        self.chunks, self._writer, self._inventory = stores
        self.graph, self.references = MemoryGraph(), MemoryReferences()
        self.symbols, self.packages = MemorySymbols(), MemoryPackageIndex()
        self.ledger, self.jobs = MemoryLedger(), ListedJobs()
        coverage = CoverageReader(self.ledger)
        backends = Backends(
            self.chunks,
            self.embedder,
            self.graph,
            self.symbols,
            references=self.references,
            packages=self.packages,
            history=coverage,
        )
        self.dependencies = Dependencies(
            published=Published(backends),
            ledger=self.ledger,
            cache=MemoryCache(entries=100),
            semantic_cache=MemorySemanticQueryCache(entries=100),
            jobs=self.jobs,
            settings=settings,
            coverage=coverage,
            keys=MemoryApiKeys(),
            permissions=MemoryPermissionStates(),
            regrouping=MemoryRegroupingStates(),
            disk_use=MemoryDiskUse(),
            sources=MemorySourceStates(),
            maps=MemoryChunkMaps(),
            sessions=sessions_in_memory(settings),
            deliveries=MemoryExpiringValues(),
        )

    def index(self, name, files, *, ref="main", failed=None, skipped=None):
        """Index the files, path → text; `failed` and `skipped`: path → reason. Returns the run."""
        name, url = RepositoryName(name), f"https://host.example/{name}"
        self.ledger.register(Repository(name, url))
        run = self.ledger.create(name, DEFAULT_REF)
        self.jobs.pull(run)
        items = [WorkItem(path, blob(path)) for path in (*files, *(failed or {}))]
        left_out = [
            FileRecord(path, blob(path), FileState.SKIPPED, reason)
            for path, reason in (skipped or {}).items()
        ]
        manifest = FileManifest(Revision(blob(name)), tuple(items), tuple(left_out))
        self.ledger.plan(run.id, manifest, ref=RefName(ref), fingerprint="1")
        contents = {blob(text): text.encode() for text in files.values()}
        listing = [SourceFile(path, blob(text), len(text)) for path, text in files.items()]
        layout = imports.read_layout(listing, contents.__getitem__, name=name)
        refs = (DEFAULT_REF, RefName(ref))
        packages = PublishedPackages(imports.published(layout), layout.fingerprints())
        self.packages.publish(name, refs, packages)
        stored, records = [], []
        for path, text in files.items():
            records.append(self._store(name, path, text, ref, layout, stored))
        self._writer.replace(stored)
        self.ledger.done(run.id, records)
        for path, reason in (failed or {}).items():
            self.ledger.done(run.id, [FileRecord(path, blob(path), FileState.FAILED, reason)])
        return self.ledger.run(run.id)

    def map(self, *names):
        """Make the map of the repositories at once, as a worker does, with at most ten chunks."""
        repositories = tuple(map(RepositoryName, sorted(names)))
        maps = self.dependencies.maps
        maps.begin(MapState(repositories, Progress.WAITING, time.time()))
        mapping.make(repositories, self._inventory, self.ledger, maps, most=10)

    def _store(self, name, path, text, ref, layout, stored):
        file, refs = parsed(text.encode(), path=path), (DEFAULT_REF, RefName(ref))
        chunks = locate(file, repository=name, path=path, refs=refs)
        if chunks:
            vectors = self.embedder.embed_documents([embedding_text(chunk) for chunk in chunks])
            stored.append(FileChunks(name, path, refs, chunks, vectors))
        links = imports.links(path, file, layout=layout)
        self.graph.replace(name, refs, {path: links.edges})
        self.references.replace(name, refs, {path: links.names})
        self.symbols.replace(name, refs, {path: file.symbols})
        return FileRecord(
            path,
            blob(path),
            FileState.INDEXED,
            file.health.detail,
            language=file.language,
            health=file.health.status,
            chunks=len(chunks),
        )


def indexed(folder, files, *, name="acme/app"):
    """Return a world with its data in the folder, in which a repository has the files."""
    made = World(Settings(data=folder))
    made.index(name, files)
    return made
