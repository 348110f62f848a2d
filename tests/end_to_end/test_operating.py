"""Operators can examine and repair a cluster, back it up, restore it, and change its store."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from codelode.backends import registry
from codelode.backends.weaviate import Address
from codelode.backends.weaviate.connection import connect as connect_weaviate
from codelode.cli import main
from codelode.model import DEFAULT_REF, FileChunks, RefName, RepositoryName, RunState
from tests.waiting import answered

APP = RepositoryName("operated")
REFS = (RefName("main"), DEFAULT_REF)
FILES = {
    f"src/part_{n}.py": f'def load_{n}(path):\n    """Read part {n}."""\n    return {n}\n'
    for n in range(60)
}


class Answer(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def codelode(monkeypatch, capsys):
    """Runs `codelode ARGS…` with the settings and data folder of a cluster; returns its output."""

    def run(cluster, *args):
        for name, value in cluster._settings.items():
            monkeypatch.setenv(f"CODELODE_{name.upper()}", value)
        with pytest.raises(SystemExit) as ended:
            main([*args, "--data", str(cluster.data)])
        captured = capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run


def indexed(cluster, git, name=APP):
    git.commit(FILES)
    with cluster.client() as client:
        run = client.index(str(git.folder), name=name)
    assert (run.state, run.failed) == (RunState.COMPLETE, 0)
    return cluster.index_of(name)


def troubles(answer, name=APP):
    """Return the kinds of findings about the repository, or about none; others may have more."""
    findings = json.loads(answer.out)["findings"]
    return {one["trouble"] for one in findings if one["repository"] in (name, "", "nobody")}


def test_doctor_finds_and_repairs_damage_while_the_cluster_runs(cluster, git, codelode):
    before = indexed(cluster, git)
    assert troubles(codelode(cluster, "doctor", "--json")) == set()
    store = registry.chunk_store(cluster.settings())
    paths = [f"src/part_{n}.py" for n in range(10)]
    (sample,) = _files(cluster, "src/part_50.py")
    store.replace([FileChunks(APP, path, REFS) for path in paths])
    store.replace(
        [_moved(sample, APP, "gone.py"), _moved(sample, RepositoryName("nobody"), "a.py")]
    )
    store.close()
    stray = cluster.data / "mirrors" / "nobody-0123456789.git"
    stray.mkdir()

    found = codelode(cluster, "doctor", "--json")
    assert (found.status, troubles(found)) == (1, {"lost", "stray", "removed", "mirror"})
    repaired = codelode(cluster, "doctor", "--repair")
    assert repaired.status == 0, repaired
    assert "repaired  operated main: 10 files: chunks are missing or too many" in repaired.out
    assert not stray.exists()
    with cluster.client() as client:
        run = repaired.out.rpartition("started   run ")[2].partition(",")[0]
        *_, end = client.watch(run)
    assert (end.state, end.done) == (RunState.COMPLETE, 10)
    assert cluster.index_of(APP) == before
    again = codelode(cluster, "doctor", "--json")
    assert troubles(again) == set()


def test_a_repair_during_a_run_removes_nothing_that_is_being_written(
    cluster, library, git, codelode
):
    before = indexed(cluster, git, name="repaired")
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library-again", wait=False)
        examined = 0
        while not (end := next(iter(client.watch(run.id)))).state.is_over:
            answer = codelode(cluster, "doctor", "--repair", "--json")
            assert answer.status == 0, answer
            assert troubles(answer, "library-again") == set()
            examined += "library-again" in json.loads(answer.out)["busy"]
    assert examined
    assert (end.state, end.failed) == (RunState.COMPLETE, 0)
    assert troubles(codelode(cluster, "doctor", "--json"), "library-again") == set()
    assert cluster.index_of("repaired") == before


def test_a_lost_cluster_is_restored_from_its_backup(own_cluster, git, codelode, tmp_path):
    before = indexed(own_cluster, git)
    searched = answers(own_cluster)
    folder = tmp_path / "saved"
    saved = codelode(own_cluster, "backup", str(folder))
    assert saved.status == 0, saved
    assert "saved 1 repository, 60 chunks" in saved.out
    refused = codelode(own_cluster, "restore", str(folder), "--force")
    assert (refused.status, "stop it" in refused.err) == (2, True), refused
    with own_cluster.client() as client:
        client.remove(APP)
    own_cluster.stop()
    lose(own_cluster)

    restored = codelode(own_cluster, "restore", str(folder))
    assert restored.status == 0, restored
    examined = codelode(own_cluster, "doctor")
    assert (examined.status, examined.out) == (0, ""), examined
    own_cluster.start()
    assert own_cluster.index_of(APP) == before
    assert answers(own_cluster) == searched
    git.commit({"src/part_1.py": None, "src/new.py": "def brand_new():\n    return 'unheard'\n"})
    with own_cluster.client() as client:
        run = client.index(str(git.folder), name=APP)
        assert (run.state, run.done) == (RunState.COMPLETE, 2)


def answers(cluster):
    with cluster.client() as client:
        return [
            [(hit.path, hit.start_line, hit.content) for hit in client.search(query).hits]
            for query in ("load_7", "read part 12", "path of a part")
        ]


def lose(cluster):
    """Delete all data of the cluster; its Weaviate server may also have data of others."""
    for name in ("redis", "index", "mirrors", "derivations"):
        shutil.rmtree(cluster.data / name, ignore_errors=True)
    settings = cluster._settings
    if settings.get("store") != "weaviate":
        return
    address = Address(
        settings["weaviate_url"],
        int(settings["weaviate_grpc_port"]),
        settings["weaviate_api_key"],
    )
    alias = settings["weaviate_collection"]
    with connect_weaviate(address) as client:
        for name in client.collections.list_all(simple=True):
            if name.startswith(f"{alias}_"):
                client.collections.delete(name)
        client.alias.delete(alias_name=alias)


def _files(cluster, *paths):
    """Yield the stored chunks of the files."""

    async def read():
        search = registry.chunk_search(cluster.settings())
        places = [(APP, path) for path in paths]
        found = await answered(lambda: search.files(places, DEFAULT_REF))
        await search.close()
        return found

    dim = registry.embedder(cluster.settings()).dim
    for (name, path), chunks in asyncio.run(read()).items():
        yield FileChunks(name, path, REFS, chunks, np.eye(len(chunks), dim, dtype=np.float32))


def _moved(file, name, path):
    chunks = tuple(
        chunk._replace(
            repository=name, path=path, id=f"{n:064x}" if name == APP else f"{n + 99:064x}"
        )
        for n, chunk in enumerate(file.chunks, 7)
    )
    return replace(file, repository=name, path=path, chunks=chunks)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_new_store_is_filled_by_the_next_run_and_invalidates_cached_answers(
    tmp_path, store, cluster_at, git
):
    git.commit(FILES)
    asked = "load_7"
    for settings in ({}, store()):
        own = cluster_at(tmp_path / "data", **settings)
        own.start()
        try:
            with own.client() as client:
                if settings:
                    # The cache has an answer of the previous store, which is not used.
                    assert not client.search(asked, repositories=[APP]).hits
                run = client.index(str(git.folder), name=APP)
                assert (run.state, run.done) == (RunState.COMPLETE, len(FILES))
                assert client.search(asked, repositories=[APP]).hits[0].path == "src/part_7.py"
                assert client.index(str(git.folder), name=APP).total == 0
        finally:
            own.stop()
