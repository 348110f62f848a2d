"""The data folder's lock, addresses and notes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading

import pytest

from codelode.cli import data_folder
from codelode.cluster import Cluster, found_cluster, run_dir, running_cluster
from codelode.errors import InvalidSettings


def cluster(data, **fields):
    values = {"pid": os.getpid(), "grpc": "h:1", "flower": "f", "redis": "r", "data": str(data)}
    return Cluster(**{**values, **fields})


def test_a_second_holder_is_refused_with_the_first_ones_process_id(tmp_path):
    with (
        data_folder.locked(tmp_path),
        pytest.raises(InvalidSettings, match=rf"process {os.getpid()}.*--data"),
        data_folder.locked(tmp_path),
    ):
        pass


def test_the_lock_ends_with_its_holder(tmp_path):
    for _ in range(2):
        with data_folder.locked(tmp_path):
            assert (tmp_path / "logs").is_dir()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(InvalidSettings, match="file/data"),
        data_folder.locked(tmp_path / "file/data"),
    ):
        pass


def test_a_folder_that_the_user_names_keeps_its_mode_and_its_content_is_private(tmp_path):
    """It may be a home folder, or /tmp, that other users need."""
    tmp_path.chmod(0o755)

    with data_folder.locked(tmp_path):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert modes == {"run": 0o700, "logs": 0o700}


def test_a_published_cluster_is_found_until_it_is_withdrawn(tmp_path):
    with data_folder.locked(tmp_path):
        assert running_cluster(tmp_path) is None
        data_folder.publish(cluster(tmp_path))
        assert running_cluster(tmp_path) == cluster(tmp_path)
        data_folder.withdraw(tmp_path)
        assert running_cluster(tmp_path) is None


def test_a_cluster_is_found_from_another_folder_unless_that_has_its_own(tmp_path):
    usual, other = tmp_path / "usual", tmp_path / "other"
    with data_folder.locked(usual), data_folder.locked(other):
        elsewhere, own = cluster(other), cluster(usual, grpc="h:2")
        data_folder.publish(elsewhere, clients=usual)
        assert found_cluster(usual) == elsewhere
        assert running_cluster(usual) is None
        data_folder.publish(own)
        assert found_cluster(usual) == own
        data_folder.withdraw(usual)
        data_folder.withdraw(tmp_path / "third", clients=usual)
        assert found_cluster(usual) == elsewhere
        data_folder.withdraw(other, clients=usual)
        assert found_cluster(usual) is None


def test_the_file_of_a_dead_cluster_is_ignored(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with data_folder.locked(tmp_path):
        data_folder.publish(cluster(tmp_path, pid=dead.pid))

    assert running_cluster(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"pid": 1})])
def test_a_damaged_file_does_not_describe_a_cluster(tmp_path, text):
    with data_folder.locked(tmp_path):
        (tmp_path / "run" / "up.json").write_text(text)

    assert running_cluster(tmp_path) is None


def test_a_process_with_a_recycled_id_is_left_alone(tmp_path):
    with data_folder.locked(tmp_path):
        (tmp_path / "run" / "redis.pid").write_text(f"{os.getpid()} 1\n")

        assert data_folder.end_leftovers(tmp_path) == 0  # and this process lives to say so

    assert list((tmp_path / "run").glob("*.pid")) == []


def test_a_process_is_known_by_its_note_when_it_hides_its_environment(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={}) as other:
        with data_folder.locked(tmp_path):
            data_folder.note_pid(tmp_path, "redis", other.pid)
            assert data_folder.members(tmp_path) == {other.pid}
            assert data_folder.end_leftovers(tmp_path) == 1

        assert other.wait() == -9


def test_a_reader_never_finds_a_half_written_pid_file(tmp_path):
    """Other commands read the pid files of a running cluster while it restarts a child."""
    with data_folder.locked(tmp_path):
        data_folder.note_pid(tmp_path, "gateway", os.getpid())
        path = run_dir(tmp_path) / "gateway.pid"
        written = path.read_text()
        done = threading.Event()

        def write():
            for _ in range(200):
                data_folder.note_pid(tmp_path, "gateway", os.getpid())
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        found = set()
        while not done.is_set():
            found.add(path.read_text())
        writer.join()
    assert found == {written}
