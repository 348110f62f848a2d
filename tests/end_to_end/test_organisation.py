"""An organisation that changes while workers are killed ends up as a fresh cluster indexes it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from contextlib import suppress

import pytest

from tests.end_to_end.stored import differences, read
from tests.hosts import TOKEN, GitHub

REPOSITORIES = 8
ROUNDS = 3
STAGES = ("pull", "parse", "embed", "store")

pytestmark = pytest.mark.slow


class Organisation(GitHub):
    """The organisation `acme`, whose repositories are changed by dice."""

    def __init__(self, folder, dice):
        super().__init__()
        self.git, self._dice, self._pushes = folder, dice, 0
        self.repositories = {}
        for id in range(1, REPOSITORIES + 1):
            self.repositories[id] = (f"r{id}", "PRIVATE", [])
            subprocess.run(
                ["git", "init", "-q", "--bare", "-b", "main", self._folder(id)], check=True
            )
            self.push(id)

    def is_read_by(self, authorization):
        return authorization is not None

    def _folder(self, id):
        return self.git / "acme" / f"{self.repositories[id][0]}.git"

    def push(self, id):
        """Commit a file, which is new or takes the place of another one."""
        self._pushes += 1
        path, number = f"src/f{self._dice.randrange(5)}.py", self._pushes
        text = f"def work_{id}_{number}(value):\n    return value + {number}\n"
        parent = "from refs/heads/main^0\n" if number > REPOSITORIES else ""
        given = (
            f"commit refs/heads/main\ncommitter T <t@x> {1_700_000_000 + number} +0000\n"
            f"data 1\nx\n{parent}M 100644 inline {path}\ndata {len(text)}\n{text}\n"
        )
        importing = ["git", "-C", self._folder(id), "fast-import", "--quiet"]
        subprocess.run(importing, input=given.encode(), check=True)
        self.details[id] = {"pushed_at": f"2026-11-01T00:{number // 60:02}:{number % 60:02}Z"}

    def rename(self, id):
        before = self._folder(id)
        self.repositories[id] = (f"{self.repositories[id][0]}x", "PRIVATE", [])
        before.rename(self._folder(id))

    def delete(self, id):
        shutil.rmtree(self._folder(id))
        del self.repositories[id]

    def change(self):
        """Push to half of the repositories, rename one, and delete one."""
        ids = self._dice.sample(sorted(self.repositories), len(self.repositories) // 2)
        for id in ids:
            self.push(id)
        self.rename(self._dice.choice(ids))
        self.delete(self._dice.choice(sorted(self.repositories)))

    def commits(self):
        """Return the commit of each repository, by its name."""
        return {f"acme/{name}": self._commit(id) for id, (name, *_) in self.repositories.items()}

    def _commit(self, id):
        command = ["git", "-C", self._folder(id), "rev-parse", "main"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def dice():
    return random.Random(22)


@pytest.fixture
def organisation(tmp_path, dice):
    made = Organisation(tmp_path / "git", dice)
    yield made
    made.close()


@pytest.fixture
def following(tmp_path, organisation, cluster_at, wait_for):
    """`following(name)` starts a cluster that follows the organisation."""
    made = []

    def start(name):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "token").write_text(TOKEN)
        (folder / "sources.yaml").write_text(
            f"connections:\n- name: work\n  kind: github\n  url: {organisation.url}\n"
            f"  organisation: acme\n  token: {{file: {folder / 'token'}}}\n"
            "  repositories: {every: 1h, grace: 1s}\n"
        )
        made.append(cluster_at(folder / "data", sources=str(folder / "sources.yaml")))
        made[-1].start()
        with made[-1].client() as client:
            wait_for(lambda: client.sources().sources, "the connection")
        return made[-1]

    yield start
    for cluster in made:
        cluster.kill()


def indexed(cluster):
    """Return the indexed commit of each repository, by its name."""
    with cluster.client() as client:
        return {
            one.repository.name: one.refs[0].indexed if one.refs else None
            for one in client.repositories()
        }


def is_right(cluster, organisation):
    """Return whether the cluster has what the host has; else have it list the host again."""
    if indexed(cluster) == organisation.commits():
        return True
    with cluster.client() as client:
        client.sync_sources("work", mode="confirm")
    return False


def test_a_day_of_changes_with_killed_workers_ends_as_a_fresh_index(
    organisation, following, wait_for, dice
):
    cluster = following("old")
    wait_for(lambda: is_right(cluster, organisation), "the first index", seconds=300)
    killed = 0
    for _ in range(ROUNDS):
        organisation.change()
        with cluster.client() as client:
            client.sync_sources("work", mode="confirm")
        for stage in dice.sample(STAGES, 2):
            for pid in cluster.pids(f"workers {stage}"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
    assert killed >= ROUNDS
    wait_for(lambda: is_right(cluster, organisation), "the index after the day", seconds=300)

    fresh = following("new")
    wait_for(lambda: is_right(fresh, organisation), "the fresh index", seconds=300)
    for name in organisation.commits():
        assert differences(read(cluster, name), read(fresh, name)) == {}
