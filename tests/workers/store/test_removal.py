"""A removed ref disappears from the index, and content that other refs share stays."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.references import MemoryReferences
from codelode.backends.memory.symbols import MemorySymbols
from codelode.errors import Unavailable
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    RefName,
    Repository,
    RepositoryName,
    Revision,
)
from tests.worlds import HashEmbedder
from workers.parse import imports, parse
from workers.store import removal
from workers.store.removal import remove_ref
from workers.store.write import StoredFile, refs_of, write

APP = RepositoryName("acme/app")
MAIN, OLD = RefName("main"), RefName("release/1")
SHARED = {"a.py": "import b\n\ndef a():\n    return b.b()\n", "b.py": "def b():\n    return 1\n"}
OTHER = {"b.py": "def other():\n    return 2\n", "c.py": "import a\n\ndef c():\n    return a.a()\n"}


class World:
    """The stores and the ledger of a worker, in memory."""

    def __init__(self):
        self.store, self.graph = MemoryChunkStore(), MemoryGraph()
        self.symbols, self.references = MemorySymbols(), MemoryReferences()
        self.ledger, self.batches = MemoryLedger(), 0
        self.dies_after = float("inf")
        self.ledger.register(Repository(APP, "https://host.example/app", MAIN))

    @property
    def tables(self):
        return {"graph": self.graph, "symbols": self.symbols, "references": self.references}

    def index(self, ref, files):
        run = self.ledger.create(APP, ref)
        items = tuple(WorkItem(path, BlobId(path)) for path in files)
        self.ledger.plan(run.id, FileManifest(Revision("1"), items), ref=ref, fingerprint="f")
        layout = imports.read_layout([], lambda blob: b"", name=APP)
        stored = [self._file(ref, path, text, layout) for path, text in files.items()]
        self.ledger.done(run.id, write(stored, store=self.store, **self.tables))

    def _file(self, ref, path, text, layout):
        parsed = parse(text.encode(), path=path)
        links = imports.links(path, parsed, layout=layout)
        vectors = HashEmbedder().embed_documents([piece.content for piece in parsed.pieces])
        refs = refs_of(ref, default=MAIN)
        more = {"vectors": vectors, "edges": links.edges, "names": links.names}
        return StoredFile(APP, path, BlobId(path), refs, parsed, **more)

    @contextmanager
    def _writing(self):
        if self.batches == self.dies_after:
            raise Unavailable("the worker dies here")
        self.batches += 1
        yield self.store

    def remove(self, ref):
        remove_ref(APP, ref, ledger=self.ledger, writing=self._writing, **self.tables)
        self.ledger.ref_removal_finished(APP, ref)

    def content(self):
        paths = sorted({*SHARED, *OTHER})
        return {
            "chunks": {ref: set(self.store.ids(APP, ref)) for ref in (MAIN, OLD, DEFAULT_REF)},
            "edges": [self.graph.outgoing(APP, ref, paths) for ref in (MAIN, OLD, DEFAULT_REF)],
            "symbols": [self.symbols.defined_in(APP, ref, paths) for ref in (MAIN, OLD)],
            "names": [self.references.names(APP, ref, paths) for ref in (MAIN, OLD)],
        }


@pytest.fixture
def world():
    made = World()
    made.index(OLD, {**SHARED, **OTHER})
    made.index(MAIN, SHARED)
    return made


@pytest.fixture
def without():
    """Return what is stored if the ref never existed."""
    made = World()
    made.index(MAIN, SHARED)
    return made.content()


def test_removing_a_ref_leaves_the_index_as_if_it_had_never_existed(world, without):
    assert world.content() != without
    assert world.ledger.remove_ref(APP, OLD)
    world.remove(OLD)
    assert world.content() == without
    assert list(world.ledger.all(APP, OLD)) == []
    assert world.ledger.refs_being_removed() == frozenset()


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_an_interrupted_removal_is_continued(world, without, batches, monkeypatch):
    monkeypatch.setattr(removal, "FILES_AT_ONCE", 1)
    world.ledger.remove_ref(APP, OLD)
    world.dies_after = batches
    with pytest.raises(Unavailable):
        world.remove(OLD)
    assert world.ledger.refs_being_removed() == {(APP, OLD)}
    world.dies_after = float("inf")
    world.remove(OLD)
    assert world.content() == without


def test_removing_the_ref_of_a_detached_commit_keeps_the_default_ref(world):
    before = world.content()
    world.index(DEFAULT_REF, {})
    world.ledger.remove_ref(APP, DEFAULT_REF)
    world.remove(DEFAULT_REF)
    assert world.content() == before
