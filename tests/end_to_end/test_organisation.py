"""A cluster that follows a changing organisation while workers are killed equals a fresh one."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress

import pytest

from tests.end_to_end.stored import differences, read
from tests.hosts import TOKEN
from tests.organisations import Organisation, indexed, sources

REPOSITORIES = 8
ROUNDS = 3
STAGES = ("pull", "parse", "embed", "store")

#: The test waits three times, each for at most 300 s.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_000)]


@pytest.fixture
def dice():
    return random.Random(22)


@pytest.fixture
def organisation(tmp_path, dice):
    made = Organisation(tmp_path / "git", dice, REPOSITORIES)
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
        text = sources(organisation, folder / "token")
        (folder / "sources.yaml").write_text(text)
        made.append(cluster_at(folder / "data", sources=str(folder / "sources.yaml")))
        made[-1].start()
        with made[-1].client() as client:
            wait_for(lambda: client.sources().sources, "the connection")
        return made[-1]

    yield start
    for cluster in made:
        cluster.kill()


def following_right(cluster, organisation):
    """Return a predicate that tells whether the cluster has what the host has.

    It requests a new listing only when the last one has ended; otherwise, the workers of a busy
    machine would do nothing else.
    """
    ended_at = -1.0

    def is_right():
        nonlocal ended_at
        with cluster.client() as client:
            if indexed(client) == organisation.commits():
                return True
            (source,) = client.sources().sources
            if source.attempted_at > ended_at:
                ended_at = source.attempted_at
                client.sync_sources("work", mode="confirm")
        return False

    return is_right


def test_after_a_day_of_changes_with_killed_workers_the_index_equals_a_fresh_one(
    organisation, following, wait_for, dice
):
    cluster = following("old")
    wait_for(following_right(cluster, organisation), "the first index", seconds=300)
    killed = 0
    for _ in range(ROUNDS):
        organisation.change(pushed=len(organisation.repositories) // 2)
        with cluster.client() as client:
            client.sync_sources("work", mode="confirm")
        for stage in dice.sample(STAGES, 2):
            for pid in cluster.pids(f"workers {stage}"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
    assert killed >= ROUNDS
    wait_for(following_right(cluster, organisation), "the index after the day", seconds=300)

    fresh = following("new")
    wait_for(following_right(fresh, organisation), "the fresh index", seconds=300)
    for name in organisation.commits():
        assert differences(read(cluster, name), read(fresh, name)) == {}
