"""A rebuilt index matches the ledger, whatever happens during the rebuild."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import multiprocessing
import os
import signal
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from codelode.access import EVERYTHING
from codelode.backends.local import (
    LocalChunkSearch,
    LocalChunkStore,
    LocalShadowIndex,
    published,
    signature,
)
from codelode.backends.memory.derivations import MemoryDerivations
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.redis.index_swap import RedisIndexSwap
from codelode.errors import Busy, NotFound, Superseded, Unavailable
from codelode.languages import QUERIES_FOLDER
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    FileChunks,
    FileRecord,
    FileState,
    Filters,
    HybridQuery,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    Summaries,
    locate,
)
from tests.own_query import QUERY, ROUTED, ROUTES
from workers import derivations, wire
from workers.enrich import Enricher
from workers.parse import own_queries, parse
from workers.reindex import Build, Contents, Missing, StoredSummaries, content, finish

APP = RepositoryName("acme/app")
MAIN, DEV = RefName("main"), RefName("dev")
DIM = 8


class HashEmbedder:
    """Gives every text a vector, without a download."""

    identity, dim = "new", DIM

    def __init__(self):
        self.texts = []
        self.away = 0

    def embed_documents(self, texts):
        if self.away:
            self.away -= 1
            raise Unavailable("the embedder does not answer")
        self.texts += texts
        return np.array([self.embed_query(text) for text in texts], np.float32).reshape(-1, DIM)

    def embed_query(self, text):
        vector = np.frombuffer(hashlib.sha256(text.encode()).digest()[:DIM], np.uint8) + 1.0
        return (vector / np.linalg.norm(vector)).astype(np.float32)


class Blobs(dict):
    """Contents by id."""

    def read(self, repository, blob):
        if blob not in self:
            raise NotFound(f"the mirror of {repository} no longer has {blob}")
        return self[blob]

    def add(self, text):
        blob = BlobId(hashlib.sha1(text.encode()).hexdigest())
        self[blob] = text.encode()
        return blob


class World:
    """A ledger with files, an old index, and a build of a new one."""

    def __init__(self, root, redis):
        self.root = root / "index"
        self.ledger = MemoryLedger()
        self.swap = RedisIndexSwap(redis)
        self.blobs = Blobs()
        self.embedder = HashEmbedder()
        self.derivations = MemoryDerivations(max_bytes=1_000_000)
        self.contents = Contents(self.derivations, self.blobs, 1_000_000, timeout_s=60)
        self.shadow = LocalShadowIndex(
            self.root, dim=DIM, identity="new", choice={"embedder": "ollama"}
        )
        LocalChunkStore(self.root, dim=4, identity="old").close()
        self.stored_summaries = StoredSummaries(
            lambda: LocalChunkSearch(self.root, dim=4, identity="old")
        )
        self.ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
        self.told = []

    def index(self, files, *, ref=MAIN, repository=APP, complete=True, skipped=(), groups=()):
        """Run with these files (None: removed) at the ref; does not write the old index."""
        items = [
            WorkItem(path, BlobId("") if text is None else self.blobs.add(text))
            for path, text in files.items()
        ]
        run = self.ledger.create(repository, ref)
        left_out = [
            FileRecord(path, blob, FileState.SKIPPED, reason)
            for path, (blob, reason) in dict(skipped).items()
        ]
        manifest = FileManifest(Revision("1" * 40), tuple(items), tuple(left_out), groups=groups)
        self.ledger.plan(run.id, manifest, ref=ref, fingerprint="p, old")
        if complete:
            self.ledger.done(run.id, [_record(item) for item in items])
        return run

    def build(self, **more):
        """Return the build that `codelode reindex` makes, with a real Redis and a real store."""
        given = {"ledger": self.ledger, "swap": self.swap} | more
        return Build(
            contents=self.contents,
            stored_summaries=self.stored_summaries,
            embedder=self.embedder,
            derivations=self.derivations,
            shadow=self.shadow,
            store=self.shadow.open(),
            tell=self.told.append,
            sleep=lambda _: None,
            **given,
        )

    async def stored(self, ref=DEFAULT_REF):
        """Return path → contents in the published index at the ref."""
        return {chunk.path: chunk.content for chunk in await self.chunks(ref)}

    async def chunks(self, ref=DEFAULT_REF):
        """Return all chunks of the published index at the ref."""
        query = HybridQuery("x", np.ones(DIM, np.float32), Filters(ref=ref), 99, visible=EVERYTHING)
        return [one.chunk for one in await self._search(query)]

    async def symbols(self, ref=DEFAULT_REF):
        return {chunk.symbol for chunk in await self.chunks(ref)} - {""}

    async def _search(self, query):
        search = LocalChunkSearch(published.read(self.root).folder, dim=DIM, identity="new")
        found = await search.hybrid(query)
        await search.close()
        return found


def _record(item):
    state = FileState.INDEXED if item.blob else FileState.PENDING
    return FileRecord(item.path, item.blob, state)


@pytest.fixture
def world(tmp_path, redis):
    made = World(tmp_path, redis)
    yield made
    made.contents.close()
    made.stored_summaries.close()


async def test_every_ref_and_repository_is_built(world):
    world.index({"a.py": "def a(): 1\n", "b.py": "def b(): 2\n"})
    world.index({"a.py": "def a(): 1\n", "c.py": "def c(): 3\n"}, ref=DEV)
    other = RepositoryName("acme/other")
    world.ledger.register(Repository(other, "https://example.org/acme/other", MAIN))
    world.index({"d.py": "def d(): 4\n"}, repository=other)

    world.build()(before="old")

    assert set(await world.stored()) == {"a.py", "b.py", "d.py"}
    assert set(await world.stored(DEV)) == {"a.py", "c.py"}
    assert world.ledger.refs(APP)[0].fingerprint == "p, new"
    assert published.read(world.root).choice == {"embedder": "ollama"}
    assert (world.told[-1].done, world.told[-1].total) == (5, 5)
    assert world.swap.target() == {}
    assert len(world.embedder.texts) == 4  # what two refs share is embedded once


async def test_a_build_catches_up_with_changes_made_meanwhile(world):
    world.index({"a.py": "def a(): 1\n", "b.py": "def b(): 2\n", "c.py": "def c(): 3\n"})
    other = RepositoryName("acme/other")
    world.ledger.register(Repository(other, "https://example.org/acme/other", MAIN))
    world.index({"d.py": "def d(): 4\n"}, repository=other)
    build = world.build()
    build.look()
    world.index({"a.py": "def changed(): 1\n", "b.py": None})
    world.ledger.unregister(other)

    build(before="old")

    assert await world.stored() == {"a.py": "def changed(): 1\n", "c.py": "def c(): 3\n"}


async def test_chunks_are_built_with_the_groups_of_the_repository_at_the_swap(world):
    files = {"a.py": "def a(): 1\n", "b.py": "def b(): 2\n"}
    world.index(files, groups=("=1",))
    build = world.build()
    build.store = stored = Recorded(build.store)
    build.look()
    assert stored.groups == dict.fromkeys(files, ("=1",))
    world.ledger.unregister(APP)
    world.ledger.removal_finished(APP)
    world.ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    world.index(files, groups=("=2", "=3"))

    build(before="old")

    assert stored.groups == dict.fromkeys(files, ("=2", "=3"))
    assert await world.stored() == files


class Recorded:
    """A chunk store that records the groups of the files that it stores."""

    def __init__(self, store):
        self._store, self.groups = store, {}

    def replace(self, files):
        self.groups |= {one.path: one.groups for one in files if one.chunks}
        self._store.replace(files)

    def __getattr__(self, name):
        return getattr(self._store, name)


async def test_a_file_stored_just_before_the_swap_is_in_the_new_index(world, redis):
    world.index({"a.py": "def a(): 1\n"})

    class LastMoment:
        """A swap before which a worker stores one more file."""

        def __getattr__(self, name):
            return getattr(world.swap, name)

        @contextmanager
        def alone(self):
            world.index({"late.py": "def late(): 1\n"})
            with world.swap.alone() as hold:
                yield hold

    world.build(swap=LastMoment())(before="old")

    assert set(await world.stored()) == {"a.py", "late.py"}


async def test_a_default_ref_that_moves_takes_its_chunks_along(world):
    world.index({"both.py": "def main(): 1\n", "main.py": "def m(): 1\n"})
    world.index({"both.py": "def dev(): 2\n", "dev.py": "def d(): 1\n"}, ref=DEV)
    build = world.build()
    build.look()
    world.ledger.register(Repository(APP, "https://example.org/acme/app", DEV))

    build(before="old")

    assert await world.stored() == {"both.py": "def dev(): 2\n", "dev.py": "def d(): 1\n"}
    assert (await world.stored(MAIN))["both.py"] == "def main(): 1\n"


async def test_a_file_that_leaves_another_ref_stays_at_the_default(world):
    same = {"a.py": "def a(): 1\n"}
    world.index(same)
    world.index(same, ref=DEV)
    build = world.build()
    build.look()
    world.index({"a.py": None}, ref=DEV)

    build(before="old")

    assert await world.stored() == same
    assert await world.stored(DEV) == {}


async def test_files_of_an_active_run_are_built_in_their_new_version(world):
    world.index({"a.py": "def old(): 1\n"})
    world.index({"a.py": "def wanted(): 1\n"}, complete=False)

    world.build()(before="old")

    assert await world.stored() == {"a.py": "def wanted(): 1\n"}


async def test_a_continued_build_embeds_only_missing_texts(world):
    world.index({f"{n}.py": f"def f{n}(): 1\n" for n in range(3)})
    world.build().look()
    made = len(world.embedder.texts)
    world.index({"new.py": "def new(): 1\n"})

    world.build()(before="old")

    assert len(world.embedder.texts) == made + 1
    assert len(await world.stored()) == 4


async def test_a_build_waits_for_a_server_that_is_temporarily_away(world):
    world.index({"a.py": "def a(): 1\n"})
    world.embedder.away = 3
    world.build()(before="old")
    assert set(await world.stored()) == {"a.py"}


def test_a_server_that_stays_away_leaves_the_old_index(world):
    world.index({"a.py": "def a(): 1\n"})
    world.embedder.away = 1_000
    with pytest.raises(Unavailable, match="does not answer"):
        world.build()(before="old")
    assert published.read(world.root).folder == world.root


async def test_a_file_that_cannot_be_transferred_is_named_and_requires_an_option(world):
    world.index({"a.py": "def a(): 1\n", "lost.py": "def lost(): 1\n"})
    del world.blobs[world.blobs.add("def lost(): 1\n")]

    with pytest.raises(Missing, match=r"1 indexed file .* acme/app lost\.py: .*--skip-missing"):
        world.build()(before="old")
    assert published.read(world.root).folder == world.root

    world.build(may_lack=True)(before="old")
    assert set(await world.stored()) == {"a.py"}


async def test_the_old_index_refuses_readers_and_writers_that_hold_it(world):
    world.index({"a.py": "def a(): 1\n"})
    writer = LocalChunkStore(world.root, dim=4, identity="old")
    reader = LocalChunkSearch(world.root, dim=4, identity="old")
    query = HybridQuery("a", None, Filters(), 9, visible=EVERYTHING)
    build = world.build()
    build.look()
    assert await reader.hybrid(query) == []
    writer.remove_repository(APP)

    build(before="old")

    for _ in range(2):  # before and after the old one is removed
        with pytest.raises(Superseded):
            await reader.hybrid(query)
        with pytest.raises(Superseded):
            writer.remove_repository(APP)
        with pytest.raises(Superseded):
            LocalChunkStore(world.root, dim=4, identity="old")
        for name in world.shadow.others():
            world.shadow.drop(name)
    assert set(await world.stored()) == {"a.py"}
    assert world.shadow.others() == []
    writer.close()
    await reader.close()


class Dies(BaseException):
    """The process dies at this point."""


@pytest.mark.parametrize("step", ["restamp", "forget"])
async def test_a_rebuild_that_dies_right_after_publishing_is_finished_later(world, step):
    world.index({"a.py": "def a(): 1\n"})
    world.swap.begin({"name": world.shadow.name, "replaces": "old"})

    class Dying:
        """The ledger or the swap, whose caller dies at one call."""

        def __init__(self, whole):
            self._whole = whole

        def __getattr__(self, name):
            if name == step:
                raise Dies
            return getattr(self._whole, name)

    build = world.build(ledger=Dying(world.ledger), swap=Dying(world.swap))
    with pytest.raises(Dies):
        build(before="old")
    assert published.read(world.root).folder.name == world.shadow.name

    for _ in range(2):
        finish(world.ledger, world.swap, world.shadow, published=world.shadow.name)
        assert [ref.fingerprint for ref in world.ledger.refs(APP)] == ["p, new"]
        assert (world.swap.target(), world.swap.refs()) == ({}, set())


async def test_a_rebuild_that_is_not_published_is_not_finished(world):
    world.index({"a.py": "def a(): 1\n"})
    world.swap.begin({"name": world.shadow.name, "replaces": "old"})
    world.build().look()

    finish(world.ledger, world.swap, world.shadow, published="index")

    assert [ref.fingerprint for ref in world.ledger.refs(APP)] == ["p, old"]
    assert world.swap.target()["name"] == world.shadow.name
    assert world.swap.refs() == {(APP, MAIN)}


async def test_an_embedder_name_that_ends_with_the_old_one_is_replaced_only_once(world):
    world.index({"a.py": "def a(): 1\n"})
    world.embedder.identity = "even old"
    world.shadow = LocalShadowIndex(world.root, dim=DIM, identity="even old", choice={})
    world.swap.begin({"name": world.shadow.name, "replaces": "old"})
    world.build()(before="old")
    world.swap.begin({"name": world.shadow.name, "replaces": "old"})  # as if it had died

    finish(world.ledger, world.swap, world.shadow, published=world.shadow.name)

    assert [ref.fingerprint for ref in world.ledger.refs(APP)] == ["p, even old"]


def test_a_disk_without_room_is_noticed_before_anything_is_built(world, monkeypatch):
    (world.root / "chunks.db").write_bytes(b"x" * 50_000_000)
    usage = type("Usage", (), {"free": 1_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(Unavailable, match=r"lacks about \d+ MB"):
        world.shadow.open()


# Queries of one's own

RETURNS = "(return_statement (identifier) @name) @definition.constant\n"


async def test_queries_of_a_repository_shape_its_files_as_they_do_when_it_is_indexed(world):
    world.index({"a.py": ROUTED, QUERY: ROUTES})
    world.index({"dev.py": ROUTED, QUERY: RETURNS}, ref=DEV)
    other = RepositoryName("acme/other")
    world.ledger.register(Repository(other, "https://example.org/acme/other", MAIN))
    world.index({"b.py": ROUTED.replace("uploads", "others")}, repository=other)

    world.build()(before="old")

    assert await world.symbols(MAIN) == {"/uploads", "list_others"}
    assert await world.symbols(DEV) == {"uploads"}


async def test_the_operator_s_queries_come_after_a_repository_s(world):
    world.contents.operators = own_queries.load(
        [("python.scm", ROUTES.encode()), ("ruby.scm", b"(no_such_node) @name")]
    )
    world.index({"a.py": ROUTED})
    world.index({"dev.py": ROUTED, QUERY: RETURNS}, ref=DEV)

    world.build()(before="old")

    assert await world.symbols() == {"/uploads"}
    assert await world.symbols(DEV) == {"uploads"}


async def test_a_query_that_changes_meanwhile_reaches_the_files_built_before(world):
    world.index({"a.py": ROUTED, QUERY: ROUTES})
    build = world.build()
    build.look()
    world.index({"a.py": ROUTED, QUERY: None})
    build.look()
    world.index({"a.py": ROUTED, QUERY: RETURNS})

    build(before="old")

    assert await world.symbols() == {"uploads"}


async def test_a_build_reuses_what_a_worker_parsed_with_the_same_queries(world):
    own = own_queries.load([("python.scm", ROUTES.encode())], origin=QUERIES_FOLDER)
    parsed = parse(ROUTED.encode(), path="a.py", own=own)
    world.index({"a.py": ROUTED, QUERY: ROUTES})
    blob = world.blobs.add(ROUTED)
    key = derivations.of_parse(blob, "a.py", version=wire.parsed_by(own))
    world.derivations.put({key: wire.dump_parsed(parsed, max_file_bytes=1_000_000)})
    del world.blobs[blob]

    world.build()(before="old")

    assert await world.symbols() == {"/uploads"}


def test_files_whose_queries_are_gone_are_not_built_by_others(world):
    world.index({"a.py": ROUTED, QUERY: ROUTES})
    del world.blobs[world.blobs.add(ROUTES)]
    with pytest.raises(Missing, match=r"2 indexed files .* no longer has"):
        world.build()(before="old")


async def test_a_query_that_is_too_large_is_not_even_read(world):
    world.index({"a.py": ROUTED}, skipped={QUERY: (BlobId("2" * 40), "too_large")})

    world.build()(before="old")

    assert await world.symbols() == {"list_uploads"}


@pytest.mark.parametrize("reason", ["symlink", "submodule"])
async def test_a_skipped_query_is_not_used(world, reason):
    world.index({"a.py": ROUTED}, skipped={QUERY: (world.blobs.add(ROUTES), reason)})

    world.build()(before="old")

    assert await world.symbols() == {"list_uploads"}


# Summaries


class Writer:
    """A language model."""

    identity = "writer"

    def complete(self, prompt, *, max_tokens):
        return "Returns what was asked for."


class Granting(content.Nothing):
    def take(self, run, wanted, *, share=1.0):
        return wanted


LOAD = "def load(path, limit):\n" + "".join(f"    step_{n} = path\n" for n in range(9))


async def test_summaries_that_are_made_meanwhile_are_in_the_new_index(world):
    text = LOAD
    world.contents.enricher = Enricher(Writer(), world.derivations, content.Nothing(), pause_s=0)
    _enriched(world, text, made=0)
    build = world.build()
    build.look()
    made = Enricher(Writer(), world.derivations, Granting())
    (found,) = made("run", [("a.py", parse(text.encode(), path="a.py"))], importers={})
    assert found.summaries.made == 1
    _enriched(world, text, made=1)

    build(before="old")

    assert {chunk.summary for chunk in await world.chunks()} == {"Returns what was asked for."}


def _enriched(world, text, *, made):
    """Run with a summary for the file, or without one."""
    run = world.index({"a.py": text}, complete=False)
    indexed = _record(WorkItem("a.py", world.blobs.add(text)))
    world.ledger.done(run.id, [replace(indexed, summaries=made, summaries_missing=1 - made)])


class Away:
    """A language model whose server is down."""

    @property
    def identity(self):
        raise Unavailable("the server of the language model does not answer")

    def complete(self, prompt, *, max_tokens):
        raise AssertionError("nothing is asked of it")


SENTENCE = "Loads what is at a path."
SAID = Summaries((SENTENCE,), file="Holds what loads.")

MODELS = pytest.mark.parametrize(
    "model", [Writer(), Away(), None], ids=["cache emptied", "model away", "no model"]
)


def _described(world, *, model, files=("a.py",), ref=MAIN):
    """Publish files with a summary each, none of which is in the cache."""
    if model is not None:
        nothing = content.Nothing()
        world.contents.enricher = Enricher(model, world.derivations, nothing, pause_s=0)
    run = world.index(dict.fromkeys(files, LOAD), ref=ref, complete=False)
    indexed = [_record(WorkItem(path, world.blobs.add(LOAD))) for path in files]
    world.ledger.done(run.id, [replace(one, chunks=1, summaries=2) for one in indexed])
    parsed = parse(LOAD.encode(), path="a.py")
    store = LocalChunkStore(world.root, dim=4, identity="old")
    for path in files:
        chunks = locate(parsed, repository=APP, path=path, refs=(ref,), summaries=SAID)
        store.replace([FileChunks(APP, path, (ref,), chunks, np.ones((1, 4), np.float32) / 2)])
    store.close()


def _of_another_schema(world):
    """Make the published index look as if another version had written it."""
    file = world.root / signature.IDENTITY_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 0}))


@MODELS
@pytest.mark.parametrize("ref", [MAIN, DEV])
def test_summaries_that_are_no_longer_cached_are_copied_from_the_old_index(world, model, ref):
    paths = [f"{n}.py" for n in range(20)]
    _described(world, model=model, files=paths, ref=ref)

    world.build()(before="old")

    found = asyncio.run(world.chunks(ref))
    said = {chunk.path: (chunk.summary, chunk.file_summary) for chunk in found}
    assert said == dict.fromkeys(paths, (SENTENCE, SAID.file))
    assert all(SENTENCE in text for text in world.embedder.texts)


@MODELS
def test_unreadable_summaries_are_dropped_only_with_consent(world, model):
    _described(world, model=model)
    _of_another_schema(world)

    for _ in range(2):  # what an interrupted one left out is left out again
        with pytest.raises(Missing, match=r"2 summaries of 1 file .* acme/app a\.py: .*--skip-mi"):
            world.build()(before="old")
        assert published.read(world.root).folder == world.root

    build = world.build(may_lack=True)
    build(before="old")
    assert [chunk.summary for chunk in asyncio.run(world.chunks())] == [""]
    assert (build.given_up, build.missing) == (2, {})
    # The next run takes the file up again, also that of `codelode enrich`.
    (record,) = world.ledger.all(APP, MAIN)
    assert (record.state, record.blob) == (FileState.PENDING, world.blobs.add(LOAD))
    assert not world.ledger.refs(APP)[0].is_clean


def test_summaries_are_not_dropped_during_a_run_that_would_not_notice(world):
    _described(world, model=None)
    _of_another_schema(world)
    world.ledger.create(APP, MAIN)

    with pytest.raises(Busy, match=r"acme/app loses 2 summaries, .*run the command again"):
        world.build(may_lack=True)(before="old")

    assert published.read(world.root).folder == world.root


# Contents


def _dies(data, path, own, max_file_bytes):
    if path == "loops.py":
        multiprocessing.Event().wait()
    if path == "dies.py":
        os.kill(os.getpid(), signal.SIGKILL)
    parsed = parse(data, path=path, own=own)
    return wire.dump_parsed(parsed, max_file_bytes=max_file_bytes)


def test_the_start_of_a_parser_does_not_count_towards_the_timeout_of_a_file(world, monkeypatch):
    monkeypatch.setattr(content, "get_context", lambda _: multiprocessing.get_context("fork"))
    monkeypatch.setattr(content, "bound_memory", lambda: multiprocessing.Event().wait(2.5))
    world.contents.timeout_s = 2
    file = content.IndexedFile(APP, "a.py", world.blobs.add("a = 1\n"))

    assert world.contents.of([file])[file].parsed.pieces
    world.contents.close()


def test_a_parser_that_cannot_start_costs_its_file(world, monkeypatch):
    monkeypatch.setattr(content, "bound_memory", functools.partial(os._exit, 1))
    file = content.IndexedFile(APP, "a.py", world.blobs.add("a = 1\n"))

    assert world.contents.of([file]) == {file: "its parser crashed"}


def test_a_parser_that_loops_or_dies_costs_its_own_file(world, monkeypatch):
    monkeypatch.setattr(content, "_parse", _dies)
    monkeypatch.setattr(content, "get_context", lambda _: multiprocessing.get_context("fork"))
    paths = ("loops.py", "a.py", "dies.py", "b.py")
    files = [
        content.IndexedFile(APP, path, world.blobs.add(f"def f(): '{path}'\n")) for path in paths
    ]

    found = {}
    for timeout_s, some in ((5, files[:2]), (60, files[2:])):
        world.contents.timeout_s = timeout_s
        found |= {file.path: made for file, made in world.contents.of(some).items()}

    assert "longer than 5 s" in found["loops.py"]
    assert "crashed" in found["dies.py"]
    assert found["a.py"].parsed.pieces
    assert found["b.py"].parsed.pieces
