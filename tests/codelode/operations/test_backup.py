"""A backup restores the state of one moment, or says why it cannot."""

from __future__ import annotations

import json
import os
import shutil
import stat
from contextlib import ExitStack
from dataclasses import replace

import pytest

from codelode.access import EVERYTHING, Role
from codelode.api_keys import ApiKey, digest
from codelode.backends import registry
from codelode.backends.redis import connection
from codelode.backends.redis.connection import connect as connect_redis
from codelode.errors import Corrupt, InvalidSettings, NotFound, NotIndexed, SchemaMismatch
from codelode.ledger import FileManifest, WorkItem
from codelode.mirrors import folder_name
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    Category,
    Chunk,
    Edge,
    EdgeKind,
    FileChunks,
    FileRecord,
    FileState,
    Filters,
    HybridQuery,
    Kind,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    RunState,
    Symbol,
    chunk_id,
)
from codelode.operations import backup
from codelode.settings import load

APP, LIB = RepositoryName("acme/app"), RepositoryName("acme/lib")
MAIN = RefName("main")
REFS = (MAIN, DEFAULT_REF)


class Cluster:
    """The stores of an embedded cluster, filled as its workers would."""

    def __init__(self, settings, admin):
        self.settings = settings
        self._admin = admin
        self.ledger = registry.ledger(settings)
        self.graph, self.symbols = registry.graph(settings), registry.symbols(settings)

    def write(self, *paths, name=APP, text="load the settings"):
        model = registry.embedder(self.settings)
        contents = [f"{text} of {path}" for path in paths]
        rows = model.embed_documents(contents)
        store = registry.chunk_store(self.settings)
        store.replace(
            [
                FileChunks(name, path, REFS, (chunk(name, path, content),), row[None])
                for path, content, row in zip(paths, contents, rows, strict=True)
            ]
        )
        store.close()
        edges = {path: [Edge(path, "os", EdgeKind.IMPORTS, True)] for path in paths}
        self.graph.replace(name, [DEFAULT_REF], edges)
        self.symbols.replace(name, [DEFAULT_REF], {path: [symbol(path)] for path in paths})

    def plan(self, *paths, name=APP):
        self.ledger.register(Repository(name, "https://example.org/x", MAIN))
        run = self.ledger.create(name, MAIN).id
        items = tuple(WorkItem(path, BlobId("b" * 40)) for path in paths)
        manifest = FileManifest(Revision("1" * 40), items)
        self.ledger.plan(run, manifest, ref=MAIN, fingerprint="test")
        return run

    def index(self, *paths, name=APP):
        run = self.plan(*paths, name=name)
        self.write(*paths, name=name)
        records = [FileRecord(p, BlobId("b" * 40), FileState.INDEXED, chunks=1) for p in paths]
        self.ledger.done(run, records)

    async def content(self):
        """Return everything that the stores can list."""
        names = [one.name for one in self.ledger.repositories()]
        statuses = {name: self.ledger.refs(name) for name in names}
        at = [(name, status.ref) for name, refs in statuses.items() for status in refs]
        records = {place: sorted(self.ledger.all(*place), key=str) for place in at}
        paths = {name: [one.path for one in records[name, MAIN]] for name in names}
        search = registry.chunk_search(registry.published(self.settings).settings)
        vector = registry.embedder(self.settings).embed_query("load the settings")
        hits = await search.hybrid(
            HybridQuery("load settings", vector, Filters(), 50, visible=EVERYTHING)
        )
        await search.close()
        return (
            statuses,
            records,
            {name: self.graph.outgoing(name, DEFAULT_REF, paths[name]) for name in names},
            {
                name: self.symbols.lookup("load", repositories=[name], ref=DEFAULT_REF)
                for name in names
            },
            sorted(hits, key=lambda hit: hit.chunk.id),
        )

    def save(self, folder, **options):
        return backup.save(self.settings, folder, **options)

    def restore(self, folder, **options):
        return backup.restore(self.settings, folder, **options)

    def wreck(self):
        self._admin.flushall()
        shutil.rmtree(self.settings.index_dir, ignore_errors=True)
        shutil.rmtree(self.settings.mirrors_dir, ignore_errors=True)


def chunk(name, path, content):
    return Chunk(
        id=chunk_id(name, path, 1, content),
        repository=name,
        path=path,
        refs=REFS,
        language="python",
        category=Category.SOURCE,
        kind=Kind.FUNCTION,
        symbol="load",
        symbols=("load",),
        header="",
        start_line=1,
        end_line=1,
        content=content,
    )


def symbol(path):
    return Symbol("load", f"{path}.load", Kind.FUNCTION, "def load()", 1, 2, True)


@pytest.fixture
def cluster(redis, redis_admin, redis_url, tmp_path, monkeypatch):
    with ExitStack() as clients:

        def connected(url, **options):
            return clients.enter_context(connect_redis(url, **options))

        monkeypatch.setattr(connection, "connect", connected)  # an error's traceback keeps them
        yield Cluster(load(data=tmp_path / "data", redis_url=redis_url), redis_admin)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "backups" / "monday"


async def test_a_restored_cluster_answers_as_before(cluster, folder):
    cluster.index("a.py", "b.py")
    cluster.index("c.py", name=LIB)
    before, generation = await cluster.content(), cluster.ledger.generation()
    made = cluster.save(folder)
    cluster.wreck()
    assert cluster.ledger.repositories() == ()

    assert cluster.restore(folder) == made
    assert (made.repositories, made.chunks) == (2, 3)
    assert await cluster.content() == before
    assert len(before[-1]) == 3
    assert cluster.ledger.generation() > generation


def test_api_keys_are_saved_with_the_ledger(cluster, folder):
    keys = registry.api_keys(cluster.settings)
    key = ApiKey("a" * 16, "ci", digest("secret"), Role.READER, (("payments/*",),), 1.0, "token")
    keys.add(key)
    keys.used(key.id, 2.0)
    cluster.index("a.py")
    cluster.save(folder)
    cluster.wreck()
    assert keys.all() == ()

    cluster.restore(folder)

    assert keys.all() == (replace(key, used_at=2.0),)


def test_the_folders_of_a_backup_and_of_a_restored_index_are_private(cluster, folder):
    cluster.index("a.py")
    umask = os.umask(0o022)
    try:
        cluster.save(folder)
        cluster.wreck()
        cluster.restore(folder)
    finally:
        os.umask(umask)

    made = [folder, *folder.rglob("*"), cluster.settings.index_dir]
    made += cluster.settings.index_dir.rglob("*")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()}
    assert modes == dict.fromkeys(modes, 0o700)


async def test_a_restored_index_accepts_writes_and_is_healthy_without_a_writer(cluster, folder):
    cluster.index("a.py")
    cluster.save(folder)
    cluster.wreck()
    cluster.restore(folder)
    cluster.index("b.py")

    assert {hit.chunk.path for hit in (await cluster.content())[-1]} == {"a.py", "b.py"}


async def test_a_backup_has_the_state_at_its_beginning(cluster, folder):
    cluster.index("a.py")
    index = registry.index_backup(cluster.settings)
    facts = index.begin()
    cluster.write("later.py")
    (folder / "index").mkdir(parents=True)
    index.save(folder / "index")
    cluster.wreck()
    index.restore(folder / "index", facts)

    inventory = registry.inventory(cluster.settings)
    assert set(inventory.counts(APP)) == {"a.py"}


def test_nothing_is_written_while_a_backup_records_its_starting_point(cluster, folder):
    cluster.index("a.py")
    cluster.ledger.heartbeat("worker")
    swap = registry.index_swap(cluster.settings)
    said = []

    def tell(line):
        said.append(line)
        if line.startswith("saving ledger, graph"):
            with pytest.raises(Exception, match="being swapped"):
                swap.writing("worker", wait_s=0.0).__enter__()
        if line == "saving the index":
            with swap.writing("worker", wait_s=0.0):
                cluster.write("later.py")

    made = cluster.save(folder, tell=tell)
    assert len(said) == 4
    assert made.chunks == 1


def test_a_backup_replaces_an_existing_index_only_if_forced(cluster, folder):
    cluster.index("a.py")
    cluster.save(folder)
    cluster.index("b.py", name=LIB)

    with pytest.raises(InvalidSettings, match="2 repositories and 2 chunks here already: give --f"):
        cluster.restore(folder)
    assert registry.inventory(cluster.settings).repositories() == {APP, LIB}
    cluster.restore(folder, is_forced=True)
    assert registry.inventory(cluster.settings).repositories() == {APP}
    assert [one.name for one in cluster.ledger.repositories()] == [APP]


def cut(folder):
    dump = folder / "redis.dump"
    dump.write_bytes(dump.read_bytes()[:-7])


def changed(folder):
    database = folder / "index" / "chunks.db"
    data = bytearray(database.read_bytes())
    data[-1] ^= 1
    database.write_bytes(data)


def of_format(folder):
    values = json.loads((folder / "backup.json").read_text())
    (folder / "backup.json").write_text(json.dumps({**values, "format": 99}))


def of_schema(folder):
    values = json.loads((folder / "backup.json").read_text())
    values["facts"]["schema"] = 0
    (folder / "backup.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("damage", "error", "said"),
    [
        (lambda folder: (folder / "backup.json").unlink(), NotFound, "no complete backup"),
        (shutil.rmtree, NotFound, "no complete backup"),
        (lambda folder: (folder / "redis.dump").unlink(), Corrupt, "lacks redis.dump"),
        (lambda f: (f / "backup.json").write_text("{"), Corrupt, "is damaged"),
        (cut, Corrupt, "was cut off"),
        (changed, Corrupt, "was changed or damaged"),
        (of_format, Corrupt, "in a format that this version cannot read"),
        (of_schema, SchemaMismatch, "of schema 0, this version has"),
    ],
    ids=["cut off", "no folder", "a file gone", "manifest", "short", "bit", "format", "schema"],
)
async def test_a_backup_that_is_not_whole_changes_nothing(cluster, folder, damage, error, said):
    cluster.index("a.py")
    cluster.save(folder)
    before = await cluster.content()
    damage(folder)

    with pytest.raises(error, match=said):
        cluster.restore(folder, is_forced=True)
    assert await cluster.content() == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"organisation": "other"}, "CODELODE_ORGANISATION=default"),
        ({"store": "weaviate"}, "CODELODE_STORE=local"),
    ],
)
def test_a_backup_of_another_kind_is_refused(cluster, folder, changes, said):
    cluster.index("a.py")
    cluster.save(folder)
    cluster.wreck()
    cluster.settings = cluster.settings.model_copy(update=changes)

    with pytest.raises(InvalidSettings, match=said):
        cluster.restore(folder)
    assert cluster.ledger.repositories() == ()


def test_a_backup_of_another_embedder_is_refused(cluster, folder, model_server):
    cluster.index("a.py")
    cluster.save(folder)
    cluster.wreck()
    good = model_server.good

    def without_keeping_alive(path, asked):
        status, headers, body = good(path, asked)
        return status, {**headers, "Connection": "close"}, body

    model_server.always = without_keeping_alive
    other = {"openai_url": f"{model_server.url}/v1", "embedding_model": "x"}
    cluster.settings = cluster.settings.model_copy(update={"embedder": "openai", **other})

    with pytest.raises(SchemaMismatch, match="set CODELODE_EMBEDDER and CODELODE_EMBEDDING_MODEL"):
        cluster.restore(folder)
    assert cluster.ledger.repositories() == ()


def test_workers_that_run_are_named(cluster, folder):
    cluster.index("a.py")
    cluster.save(folder)
    cluster.ledger.heartbeat("host-7")

    with pytest.raises(InvalidSettings, match=r"workers are running \(host-7\): stop them"):
        cluster.restore(folder, is_forced=True)


def test_an_unusable_folder_for_a_backup_is_reported(cluster, folder):
    with pytest.raises(NotIndexed, match="there is no index"):
        cluster.save(folder)
    shutil.rmtree(folder)
    cluster.index("a.py")
    folder.mkdir(parents=True)
    (folder / "mine").touch()
    with pytest.raises(InvalidSettings, match="is not empty"):
        cluster.save(folder)
    with pytest.raises(InvalidSettings, match=r"cannot write to .*: Not a directory"):
        cluster.save(folder / "mine" / "below")


async def test_a_run_that_was_active_during_a_backup_starts_again(cluster, folder):
    cluster.index("a.py")
    run = cluster.plan("a.py", "b.py")
    cluster.ledger.begin(run, ["a.py"], worker="gone", stage="parse")
    cluster.save(folder)
    cluster.wreck()
    cluster.restore(folder)

    found = cluster.ledger.run(run)
    assert (found.state, found.total) == (RunState.PULLING, 0)
    (status,) = cluster.ledger.refs(APP)
    assert not status.is_clean
    assert cluster.ledger.claim(run, worker="new")


async def test_files_that_were_left_to_do_are_done_by_the_next_run(cluster, folder):
    """A run was planned while the keys were read, so the backup has only a part of it."""
    cluster.index("a.py", "b.py")
    client = connection.connect(cluster.settings.redis_url)
    record = json.dumps(["b" * 40, "pending", "", "", "", 0])
    client.hset(f"codelode:files:{APP}:main", "b.py", record)
    client.hset("codelode:active", APP, "never")
    cluster.save(folder)
    cluster.wreck()
    cluster.restore(folder)

    (status,) = cluster.ledger.refs(APP)
    assert (status.is_clean, status.files, status.chunks) == (False, 1, 1)
    assert cluster.ledger.active(APP) is None


def test_keys_are_restored_with_their_expiry_except_those_of_work_in_progress(cluster, folder):
    client = connection.connect(cluster.settings.redis_url)
    cluster.index("a.py")
    client.set("codelode:short", "x", px=600_000)
    client.zadd("codelode:scores", {"a": 1.5})
    for name in ("broker:q", "handover:r:a.py", "reindex:target", "{cache}:1", "workers:settings"):
        client.set(f"codelode:{name}", "x")
    client.set("foreign", "kept")
    cluster.save(folder)
    cluster.wreck()
    client.set("foreign", "kept")
    client.set("codelode:broker:other", "x")
    cluster.restore(folder)

    names = {key.decode() for key in client.scan_iter()}
    assert {"foreign", "codelode:short", "codelode:scores"} <= names
    assert not [name for name in names if "broker" in name]
    assert not names & {"codelode:handover:r:a.py", "codelode:reindex:target", "codelode:{cache}:1"}
    assert 500_000 < client.pttl("codelode:short") <= 600_000
    assert client.zscore("codelode:scores", "a") == 1.5


def test_mirrors_are_restored_if_they_were_saved(cluster, folder):
    cluster.index("a.py")
    mirror = cluster.settings.mirrors_dir / folder_name(APP)
    mirror.mkdir(parents=True)
    (mirror / "HEAD").write_text("ref: refs/heads/main\n")
    cluster.save(folder, with_mirrors=True)
    cluster.wreck()
    told = []
    cluster.restore(folder, tell=told.append)

    assert (mirror / "HEAD").read_text() == "ref: refs/heads/main\n"
    assert told[-1] == "restoring mirrors"


def test_mirrors_that_were_not_saved_are_not_reported(cluster, folder):
    cluster.index("a.py")
    cluster.save(folder)
    cluster.wreck()
    told = []
    cluster.restore(folder, tell=told.append)

    assert told[-1] == "restoring ledger, graph and symbol table"


async def test_a_rebuilt_index_is_restored_with_its_embedder(cluster, folder):
    cluster.index("a.py")
    beside = registry.shadow_index(cluster.settings)
    choice = {"embedder": "static", "embedding_model": "", "embedding_dim": 0}
    facts = registry.index_backup(cluster.settings).begin()
    index = registry.index_backup(cluster.settings)
    (folder / "index").mkdir(parents=True)
    index.begin()
    index.save(folder / "index")
    index.restore(folder / "index", {**facts, "choice": choice})

    assert registry.published(cluster.settings).name == beside.name
    assert registry.published(cluster.settings).settings.embedder == "static"
