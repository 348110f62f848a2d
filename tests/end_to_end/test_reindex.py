"""A running cluster changes its embedder: searches go on, and no data is lost or mixed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from codelode.access import EVERYTHING
from codelode.backends import registry
from codelode.backends.local import LocalChunkSearch, published, signature
from codelode.backends.weaviate import WeaviateChunkSearch, versions
from codelode.backends.weaviate.connection import connect as weaviate_client
from codelode.errors import SchemaMismatch
from codelode.model import DEFAULT_REF, Filters, HybridQuery, RepositoryName, RunState
from tests.end_to_end.runs import HOOKS
from tests.end_to_end.searching import Searcher
from tests.own_query import QUERY, ROUTED, ROUTES
from tests.waiting import answered

APP = RepositoryName("app")
AWAY = "http://127.0.0.1:9"

#: Files per batch of a rebuild: fewer than usual, so that few files fill several.
BATCH_FILES = 16

#: More than two batches of the rebuild.
FILES = {
    f"src/part_{n}.py": f'def load_{n}(path):\n    """Part {n}."""\n    return open(path, {n})\n'
    for n in range(2 * BATCH_FILES + 8)
}

#: For tests that do not depend on the store: the choice of the embedder, and refusals.
with_any_store = pytest.mark.parametrize("store", ["local"], indirect=True)


class Rebuild:
    """A `codelode reindex` command for a cluster."""

    def __init__(self, cluster, *options, **variables):
        self.cluster = cluster
        self.process = subprocess.Popen(
            [sys.executable, "-m", "codelode", "reindex", "--data", str(cluster.data), *options],
            env={
                **cluster.environment(),
                "PYTHONPATH": os.pathsep.join([HOOKS, *filter(None, [os.getenv("PYTHONPATH")])]),
                "BATCH_FILES": str(BATCH_FILES),
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self):
        """Wait for the command, and return its exit status and all of its output."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out + err

    def kill(self):
        """Kill the command and the process that does the work, as a crash of the machine would."""
        for pid in self.cluster.pids("workers.reindex"):
            os.kill(pid, signal.SIGKILL)
        self.end()


def wrong(client):
    """Search for one of the files, and return the paths that are found instead of it, or None."""
    answer = client.search("load_7", repositories=["app"], skip_cache=True)
    paths = [hit.path for hit in answer.hits]
    return None if "src/part_7.py" in paths else paths


@pytest.fixture(scope="module")
def running(make_cluster, shared_model_server, make_git):
    """Start a cluster with one repository, and return both."""
    cluster = make_cluster(
        openai_url=f"{shared_model_server.url}/v1", openai_api_key="sk-secret", embedder="static"
    )
    repository = make_git()
    repository.commit(FILES)
    with cluster.client() as client:
        run = client.index(str(repository.folder), name="app")
    assert (run.state, run.failed, run.done) == (RunState.COMPLETE, 0, len(FILES))
    return cluster, repository


@pytest.fixture
def git(running):
    return running[1]


@pytest.fixture
def served(shared_model_server):
    yield shared_model_server
    shared_model_server.always = None


@pytest.fixture
def indexed(running, served):
    """Return the cluster without repositories of earlier tests, but with their embedder."""
    cluster, _ = running
    assert others(cluster) == []
    return cluster


@pytest.fixture
def static(indexed):
    """Return the cluster with the built-in embedder, which needs no server."""
    if registry.published(indexed.settings()).settings.embedder != "static":
        status, said = Rebuild(indexed, "--embedder", "static").end()
        assert status == 0, said
        assert others(indexed) == []
        with indexed.client() as client:
            assert "static" in client.status().embedder
            assert client.search("load_7", repositories=["app"]).hits
    return indexed


@pytest.fixture
def chosen(indexed, model):
    """Return the cluster with another embedder than that of its settings, and its model."""
    if registry.published(indexed.settings()).settings.embedder == "static":
        status, said = Rebuild(indexed, *to(model)).end()
        assert status == 0, said
    return indexed, registry.published(indexed.settings()).settings.embedding_model


_numbers = count(1)


@pytest.fixture
def model():
    """Return the name of a model whose vectors are not cached yet."""
    return f"embed{next(_numbers)}"


def to(model):
    return "--embedder", "openai", "--model", model


class Gate:
    """Lets a model server answer a number of embedding calls, and the rest only once opened."""

    def __init__(self, server, calls):
        self._server = server
        self._left = calls
        self.reached = threading.Event()
        self.opened = threading.Event()
        server.always = self

    def __call__(self, path, asked):
        if path.endswith("/embeddings") and len(asked["input"]) > 1:
            self._left -= 1
            if self._left < 0:
                self.reached.set()
                self.opened.wait(120)
        return self._server.good(path, asked)


async def stored(cluster, repository=APP):
    """Return chunk → vector for a repository in the published index."""
    search, dim = opened(cluster.settings())
    filters = Filters(repositories=(repository,))
    query = HybridQuery(
        "load", np.ones(dim, np.float32), filters, 5_000, with_vectors=True, visible=EVERYTHING
    )
    found = await answered(lambda: search.hybrid(query))
    await search.close()
    return {one.chunk: np.round(one.vector, 2).tolist() for one in found}


def opened(settings):
    """Return a searcher of the published index, made without an embedder, and its dimensions."""
    if settings.store == "weaviate":
        address, place = registry.weaviate_index(settings)
        with weaviate_client(address) as client:
            version = versions.current(client, place)
        read = WeaviateChunkSearch(address, place, dim=version.dim, identity=version.embedder)
        return read, version.dim
    folder = published.read(settings.index_dir).folder
    found = signature.read(folder)
    assert found is not None
    return LocalChunkSearch(folder, dim=found["dim"], identity=found["embedder"]), found["dim"]


def texts_asked(server):
    """Return the documents that were sent to be embedded."""
    return [text for _, asked in server.calls for text in asked.get("input", ()) if "def" in text]


def test_searches_go_on_and_changes_made_meanwhile_are_found(static, served, git, model, wait_for):
    gate = Gate(served, 1)
    with Searcher(static.client, wrong) as searcher, static.client() as client:
        before = client.status()
        rebuild = Rebuild(static, *to(model))
        wait_for(gate.reached.is_set, "the rebuild to be half through")
        answered = searcher.answers
        git.commit(
            {
                "src/new.py": "def brand_new():\n    return 'unheard of'\n",
                "src/part_1.py": "def changed_meanwhile():\n    return 1\n",
                "src/part_2.py": None,
            }
        )
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.failed) == (RunState.COMPLETE, 0)
        assert client.status().embedder == before.embedder
        wait_for(lambda: searcher.answers > answered + 3, "searches during the rebuild")
        gate.opened.set()
        status, said = rebuild.end()
        assert status == 0, said
        assert f"openai-{model}" in said
        answered = searcher.answers
        wait_for(lambda: searcher.answers > answered + 3, "searches after the swap")
        assert client.status().embedder.startswith(f"openai-{model}")
        assert not searcher.failures, searcher.failures[:3]

        def found(query):
            hits = client.search(query, repositories=["app"], skip_cache=True).hits
            return {hit.path for hit in hits}

        assert "src/new.py" in found("brand_new")
        assert "src/part_1.py" in found("changed_meanwhile")
        assert "src/part_2.py" not in found("load_2")

        # The workers switch too, and their records match the index.
        asked = len(texts_asked(served))
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.total) == (RunState.COMPLETE, 0)
        assert len(texts_asked(served)) == asked
        git.commit({"src/later.py": "def after_the_swap():\n    return 2\n"})
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.total, run.failed) == (RunState.COMPLETE, 1, 0)
        assert "src/later.py" in found("after_the_swap")


@with_any_store
def test_an_unreachable_embedder_changes_nothing(static, served):
    served.always = served.json({"error": "no such model"}, 404)
    status, said = Rebuild(static, "--embedder", "openai", "--model", "none").end()
    assert status == 2, said
    assert "has no such model" in said
    with static.client() as client:
        assert client.search("load_7", repositories=["app"]).hits


@with_any_store
async def test_a_killed_reindex_continues_after_one_to_the_published_embedder(
    static, served, model, wait_for
):
    before = await stored(static)
    gate = Gate(served, 2)
    rebuild = Rebuild(static, *to(model))
    wait_for(gate.reached.is_set, "the rebuild to be half through")
    rebuild.kill()
    gate.opened.set()
    served.always = None
    assert await stored(static) == before
    half_built = others(static)
    assert len(half_built) == 1
    asked = len(texts_asked(served))

    status, said = Rebuild(static, "--embedder", "static").end()

    assert (status, "already" in said) == (0, True), said
    assert f"`codelode reindex --embedder openai --model {model}` continues it" in said
    assert "`codelode reindex --drop` removes" in said
    assert others(static) == half_built
    status, said = Rebuild(static, *to(model)).end()
    assert (status, model in said) == (0, True), said
    assert 0 < len(texts_asked(served)[asked:]) <= len(FILES) - BATCH_FILES
    assert len(await stored(static)) == len(before)


async def test_a_rebuilt_index_equals_a_newly_made_one(indexed, served, git, model):
    status, said = Rebuild(indexed, *to(model)).end()
    assert status == 0, said
    rebuilt = await stored(indexed)
    files = sum(path.is_file() for path in (git.folder / "src").iterdir())
    with indexed.client() as client:
        client.remove("app")
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.done) == (RunState.COMPLETE, files)
    assert await stored(indexed) == rebuilt
    assert len(rebuilt) == files
    assert {len(vector) for vector in rebuilt.values()} == {served.DIM}


@with_any_store
async def test_queries_that_a_repository_brings_apply_to_the_new_index(indexed, model, make_git):
    name, git = RepositoryName("own"), make_git()
    git.commit({"a.py": ROUTED, QUERY: ROUTES, "b.rb": "def b\nend\n"})
    with indexed.client() as client:
        assert client.index(str(git.folder), name=name).state is RunState.COMPLETE
        status, said = Rebuild(indexed, *to(model)).end()
        assert status == 0, said
        rebuilt = await stored(indexed, name)
        counted = counts(indexed, name)
        assert "/uploads" in {chunk.symbol for chunk in rebuilt}
        assert Counter(chunk.path for chunk in rebuilt) == counted  # or the doctor finds them lost
        client.remove(name)
        assert client.index(str(git.folder), name=name).state is RunState.COMPLETE
        assert await stored(indexed, name) == rebuilt
        client.remove(name)


def counts(cluster, name):
    """Return path → number of chunks, from the ledger."""
    ledger = registry.ledger(cluster.settings())
    (status,) = ledger.refs(name)
    return {record.path: record.chunks for record in ledger.all(name, status.ref)}


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)  # only the local store: see above
async def test_a_killed_reindex_continues_where_it_was(indexed, served, model, wait_for):
    before = await stored(indexed)
    gate = Gate(served, 2)
    rebuild = Rebuild(indexed, *to(model))
    wait_for(gate.reached.is_set, "the rebuild to be half through")
    rebuild.kill()
    gate.opened.set()
    assert await stored(indexed) == before
    served.always = None
    asked = len(texts_asked(served))

    status, said = Rebuild(indexed, *to(model)).end()
    assert status == 0, said
    again = texts_asked(served)[asked:]
    assert 0 < len(again) <= len(FILES) - BATCH_FILES
    assert len(await stored(indexed)) == len(before)


async def test_a_killed_reindex_can_be_dropped(indexed, served, model, wait_for):
    before = await stored(indexed)
    gate = Gate(served, 1)
    rebuild = Rebuild(indexed, *to(model))
    wait_for(gate.reached.is_set, "the rebuild to be half through")
    second = Rebuild(indexed, *to(model))
    status, said = second.end()
    assert status == 2, said
    assert "a rebuild is running already, process" in said, said
    rebuild.kill()
    gate.opened.set()
    status, said = Rebuild(indexed, *to("another")).end()
    assert status == 2, said
    assert f"unfinished (openai {model})" in said, said
    assert "codelode reindex --drop" in said

    status, said = Rebuild(indexed, "--drop").end()
    assert (status, said.startswith("removed ")) == (0, True), said
    assert others(indexed) == []
    assert await stored(indexed) == before
    status, said = Rebuild(indexed, "--drop").end()
    assert (status, said.startswith("nothing was left over\n")) == (0, True), said


#: Dies when the new index is published, before the ledger records it.
DYING = """
import os, signal
from codelode.backends.redis.ledger import RedisLedger
RedisLedger.restamp = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from workers.reindex.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("store", "is_dropping"),
    [
        pytest.param("local", False, id="local-again"),
        pytest.param("weaviate", True, id="weaviate-drop"),
    ],
    indirect=["store"],
    scope="session",  # else the cluster of the module would be started again for each test
)
def test_a_reindex_that_is_killed_right_after_publishing_indexes_no_file_again(
    indexed, git, model, is_dropping
):
    choice = {"embedder": "openai", "embedding_model": model}
    settings = indexed.settings().model_copy(update=choice)
    dead = subprocess.run([sys.executable, "-c", DYING], env=settings.environment(), check=False)
    assert dead.returncode == -signal.SIGKILL
    assert registry.published(indexed.settings()).settings.embedding_model == model

    status, said = Rebuild(indexed, *(["--drop"] if is_dropping else to(model))).end()

    assert status == 0, said
    assert "unfinished" not in said
    assert others(indexed) == []
    with indexed.client() as client:
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.total) == (RunState.COMPLETE, 0)


@pytest.fixture(scope="module")
def described(make_cluster, shared_model_server, make_git):
    """Start a cluster with one repository whose chunks have summaries."""
    cluster = make_cluster(
        openai_url=f"{shared_model_server.url}/v1",
        openai_api_key="sk-secret",
        ollama_url=shared_model_server.url,
        language_model="ollama",
        summary_model="write",
    )
    repository = make_git()
    repository.commit({path: f"{text}    # and so on, {path}\n" for path, text in FILES.items()})
    with cluster.client() as client:
        assert client.index(str(repository.folder), name="app").state is RunState.COMPLETE
        assert any(asyncio.run(sentences(cluster)).values())
        assert_enriched(client)  # on a busy machine, an answer may come too late for the run
    return cluster


@pytest.mark.parametrize(
    ("store", "variables"),
    [
        pytest.param("local", {"CODELODE_OLLAMA_URL": AWAY}, id="local-language model away"),
        pytest.param("local", {"CODELODE_DERIVATIONS": "none"}, id="local-cache emptied"),
        pytest.param("weaviate", {"CODELODE_DERIVATIONS": "none"}, id="weaviate-cache emptied"),
    ],
    indirect=["store"],
    scope="session",  # else the cluster of the module would be started again for each test
)
async def test_no_summary_is_lost(described, model, variables):
    before = await sentences(described)
    assert len(before) == len(FILES)
    assert all(before.values())

    status, said = Rebuild(described, *to(model), **variables).end()

    assert status == 0, said
    assert "summar" not in said
    assert await sentences(described) == before


async def test_unreadable_summaries_are_dropped_on_request_and_written_again(described, model):
    before = await sentences(described)
    make_old(described)

    lost = f"{len(FILES)} summaries"
    for option, status, part in (
        ((), 2, f"{lost} of {len(FILES)} files would be lost"),
        (("--skip-missing",), 0, f"without {lost}, which `codelode enrich` writes again"),
    ):
        rebuild = Rebuild(described, *to(model), *option, CODELODE_DERIVATIONS="none")
        ended, said = rebuild.end()
        assert (ended, part in said) == (status, True), said
    assert set((await sentences(described)).values()) == {""}

    with described.client() as client:
        assert_enriched(client)
    assert await sentences(described) == before


def assert_enriched(client):
    """Write the missing summaries."""
    for run in client.enrich("app"):
        *_, end = client.watch(run.id)
        assert (end.state, end.failed) == (RunState.COMPLETE, 0)


def make_old(cluster):
    """Give the published index a schema version that is no longer readable."""
    settings = cluster.settings()
    if settings.store == "local":
        file = published.read(settings.index_dir).folder / signature.IDENTITY_FILE
        file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 0}))
        return
    address, place = registry.weaviate_index(settings)
    chosen = registry.published(settings).settings
    choice = {name: getattr(chosen, name) for name in registry.CHOICE}
    with weaviate_client(address) as client:
        current = versions.current(client, place)
        assert current is not None
        version = replace(current, schema=0)
        collection = client.collections.use(versions.target(client, place))
        collection.config.update(description=version.describe(choice))


async def sentences(cluster):
    """Return (path, first line) → summary for each chunk."""
    return {(chunk.path, chunk.start_line): chunk.summary for chunk in await stored(cluster)}


def others(cluster):
    beside = registry.shadow_index(cluster.settings())
    found = beside.others()
    beside.close()
    return found


def test_a_restarted_cluster_keeps_the_chosen_embedder(chosen, git):
    cluster, model = chosen
    refuses_another_embedder(cluster.settings())
    cluster.stop()
    cluster.start()
    with cluster.client() as client:
        assert client.status().embedder.startswith(f"openai-{model}")
        git.commit({"src/later.py": "def after_the_restart():\n    return 2\n"})
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.total, run.failed) == (RunState.COMPLETE, 1, 0)
        assert client.search("after_the_restart", repositories=["app"]).hits


def refuses_another_embedder(settings):
    """Check that a process whose embedder does not fit the published index cannot open it."""
    assert settings.embedder == "static"
    with (
        pytest.raises(SchemaMismatch, match="codelode reindex"),
        closing(registry.chunk_store(settings)) as store,
    ):
        list(store.ids(APP, DEFAULT_REF))


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)  # only the local store: see `static`
def test_changing_the_embedder_and_back_leaves_one_index(indexed, served, model):
    for options, said in ((to(model), model), (("--embedder", "static"), "static")):
        status, told = Rebuild(indexed, *options).end()
        assert (status, said in told) == (0, True), told
        assert others(indexed) == []
        with indexed.client() as client:
            assert client.search("load_7", repositories=["app"]).hits
            assert said in client.status().embedder
    status, told = Rebuild(indexed, "--embedder", "static").end()
    assert status == 0, told
    assert "already" in told


@with_any_store
@pytest.mark.parametrize(
    ("name", "value", "theirs"), [("MAX_FILE_BYTES", "5000", "1000000"), ("QUERIES", "~/own", "")]
)
def test_settings_that_differ_from_those_of_the_workers_are_refused(
    indexed, monkeypatch, name, value, theirs
):
    monkeypatch.setenv(f"CODELODE_{name}", value)
    status, said = Rebuild(indexed, "--drop").end()
    assert status == 2, said
    assert f"the workers run with CODELODE_{name}={theirs!r}" in said
