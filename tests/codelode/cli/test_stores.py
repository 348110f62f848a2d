"""`doctor`, `backup`, `restore`, and `reindex` on data folders whose cluster does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelode.backends import registry
from codelode.cli import data_folder
from codelode.cli.stores import stores
from codelode.errors import InvalidSettings
from codelode.ledger import FileManifest, WorkItem
from codelode.model import BlobId, FileRecord, FileState, RefName, Repository, RepositoryName

APP, MAIN = RepositoryName("acme/app"), RefName("main")


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A data folder whose ledger has an indexed file and whose index is empty."""
    monkeypatch.delenv("CODELODE_REDIS_URL", raising=False)
    with stores(tmp_path / "data", is_stopped=True) as settings:
        ledger = registry.ledger(settings)
        ledger.register(Repository(APP, "https://example.org/app", MAIN))
        run = ledger.create(APP, MAIN).id
        blob = BlobId("b" * 40)
        manifest = FileManifest("1" * 40, (WorkItem("a.py", blob),))
        ledger.plan(run, manifest, ref=MAIN, fingerprint="test")
        ledger.done(run, [FileRecord("a.py", blob, FileState.INDEXED, chunks=2)])
        registry.chunk_store(settings).close()
    return settings.data_dir


def test_doctor_reports_damage_and_repairs_it(codelode, damaged):
    found = codelode("doctor", "--data", str(damaged))
    assert found.status == 1
    finding = "acme/app main: 1 file: chunks are missing or too many, for example a.py"
    assert found.out == f"found     {finding}\n"
    assert "doctor --repair" in found.err

    repaired = codelode("doctor", "--repair", "--json", "--data", str(damaged))
    report = json.loads(repaired.out)
    assert (repaired.status, report["healthy"], len(report["runs"])) == (0, True, 1)
    assert [one["trouble"] for one in report["findings"]] == ["lost"]

    again = codelode("doctor", "--data", str(damaged))
    assert (again.status, again.out) == (0, "")
    assert "skipped, being indexed: acme/app" in again.err


def test_a_backup_is_restored_into_another_folder(codelode, damaged, tmp_path):
    saved = codelode("backup", str(tmp_path / "saved"), "--data", str(damaged))
    assert (saved.status, saved.out.split(" of ")[0]) == (0, "saved 1 repository, 0 chunks")
    twice = codelode("backup", str(tmp_path / "saved"), "--data", str(damaged))
    assert (twice.status, twice.out) == (2, "")
    assert "is not empty: name a new folder" in twice.err

    restored = codelode("restore", str(tmp_path / "saved"), "--data", str(tmp_path / "other"))
    assert restored.status == 0, restored.err
    with stores(tmp_path / "other") as settings:
        assert [one.name for one in registry.ledger(settings).repositories()] == [APP]
    refused = codelode("restore", str(tmp_path / "saved"), "--data", str(tmp_path / "other"))
    assert (refused.status, "give --force" in refused.err) == (2, True)


@pytest.mark.parametrize("command", [["doctor"], ["doctor", "--repair"], ["backup", "saved"]])
@pytest.mark.parametrize("make", [None, Path.mkdir, Path.touch], ids=["missing", "empty", "file"])
def test_a_folder_without_data_of_a_cluster_is_named_and_unchanged(
    codelode, tmp_path, monkeypatch, command, make
):
    monkeypatch.delenv("CODELODE_REDIS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    if make is not None:
        make(tmp_path / "data")

    for place in (["--data", str(tmp_path / "data")], []):
        answer = codelode(*command, *place)

        assert (answer.status, answer.out) == (2, "")
        assert str(tmp_path / "data") in answer.err
        assert answer.err.count("\n") == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["data"] * (make is not None)


def test_reindex_refuses_a_missing_folder_before_it_builds_anything(
    codelode, redis_url, monkeypatch, tmp_path
):
    monkeypatch.setenv("CODELODE_REDIS_URL", redis_url)

    for place in (["--data", str(tmp_path / "misspelt")], []):
        answer = codelode("reindex", *place)

        assert (answer.status, answer.out) == (2, "")
        assert f"{place[1] if place else tmp_path / 'data'} does not exist; give" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["doctor"], ["backup", "saved"], ["restore", "saved"], ["reindex"]]
)
def test_the_error_without_a_cluster_says_how_to_start_one(
    codelode, free_address, monkeypatch, tmp_path, command
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODELODE_REDIS_URL", f"redis://{free_address}")
    (tmp_path / "data").mkdir()

    answer = codelode(*command)

    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("codelode: Redis does not answer")
    assert f"no cluster runs on {tmp_path / 'data'}" in answer.err
    assert "start one with `codelode up`" in answer.err
    assert [path.name for path in tmp_path.rglob("*")] == ["data"]


@pytest.mark.parametrize(
    "command",
    [["doctor", "--data", ""], ["restore", "x", "--data", ""], ["backup", ""], ["restore", ""]],
)
def test_an_empty_folder_name_does_not_mean_the_current_folder(
    codelode, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)

    answer = codelode(*command)

    assert answer.status == 2
    assert "it is empty; name a folder" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_with_an_external_redis_only_the_local_store_needs_the_data_folder(
    codelode, redis, redis_url, monkeypatch, tmp_path
):
    monkeypatch.setenv("CODELODE_REDIS_URL", redis_url)

    answer = codelode("doctor")

    assert answer.status == 2
    assert f"the data folder {tmp_path / 'data'} does not exist; give" in answer.err
    assert not (tmp_path / "data").exists()

    monkeypatch.setenv("CODELODE_STORE", "weaviate")
    with stores(None) as settings:
        assert settings.redis_url == redis_url
    with pytest.raises(InvalidSettings, match="does not exist"), stores(tmp_path / "data"):
        pass


def test_doctor_refuses_another_store_than_that_of_the_workers(
    codelode, redis, redis_url, monkeypatch
):
    monkeypatch.setenv("CODELODE_REDIS_URL", redis_url)
    redis.set("codelode:workers:settings", json.dumps({"store": "weaviate"}))

    answer = codelode("doctor", "--repair")
    assert answer.status == 2
    expected = "the workers run with CODELODE_STORE='weaviate', but this command with 'local'"
    assert expected in answer.err


def test_the_error_while_a_cluster_starts_says_to_try_again(codelode, damaged):
    with data_folder.locked(damaged):
        answer = codelode("doctor", "--data", str(damaged))

    assert answer.status == 2
    assert answer.err.endswith(
        "; it is starting or stopping: try again when it is ready, or has stopped\n"
    )
