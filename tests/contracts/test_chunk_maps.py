"""The contract of the port ChunkMaps, over every implementation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codelode.backends.memory.chunk_maps import MemoryChunkMaps
from codelode.backends.redis.chunk_maps import RedisChunkMaps
from codelode.chunk_map import LOST_AFTER_S, MAX_MAPS, MapState, Progress
from codelode.model import RepositoryName, Revision

APP, LIB = RepositoryName("acme/app"), RepositoryName("acme/lib")
WAITING = MapState((APP, LIB), Progress.WAITING, 1_000.0)
READY = replace(
    WAITING, progress=Progress.READY, at=1_005.5, points=7, revisions=(Revision("a"), Revision(""))
)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def maps(request):
    if request.param == "memory":
        return MemoryChunkMaps()
    return RedisChunkMaps(request.getfixturevalue("redis"))


def test_a_finished_map_is_read_as_it_was_stored(maps):
    assert maps.states() == ()
    assert maps.begin(WAITING)
    assert (maps.made_at((APP, LIB)), maps.packed((APP, LIB))) == (None, None)
    assert maps.report(READY, b"\x00map")

    assert maps.states() == (READY,)
    assert (maps.made_at((APP, LIB)), maps.packed((APP, LIB))) == (1_005.5, b"\x00map")
    assert maps.packed((APP,)) is None


def test_only_one_worker_at_a_time_makes_a_map_unless_it_is_lost(maps):
    assert maps.begin(WAITING)
    assert not maps.begin(replace(WAITING, at=1_001.0))
    maps.report(replace(WAITING, progress=Progress.PLACING, at=1_050.0, share=0.5))
    assert not maps.begin(replace(WAITING, at=1_050.0 + LOST_AFTER_S))
    assert maps.begin(replace(WAITING, at=1_050.1 + LOST_AFTER_S))


def test_a_finished_map_is_not_made_again_because_its_job_was_delivered_twice(maps):
    reading = replace(WAITING, progress=Progress.READING)
    for end in (READY, replace(READY, progress=Progress.FAILED)):
        maps.begin(WAITING)
        assert maps.report(end, b"map" if end is READY else None)
        assert not maps.report(reading)
        assert maps.states() == (end,)


def test_the_map_before_stays_until_the_next_one_is_ready(maps):
    maps.begin(WAITING)
    maps.report(READY, b"first")
    assert maps.begin(replace(WAITING, at=2_000.0))
    maps.report(replace(WAITING, progress=Progress.FAILED, at=2_001.0, error="no memory"))

    assert maps.packed((APP, LIB)) == b"first"
    assert maps.made_at((APP, LIB)) == 1_005.5
    assert maps.states()[0].error == "no memory"


def test_the_maps_of_a_removed_repository_are_removed_and_no_longer_wanted(maps):
    other = replace(WAITING, repositories=(APP,))
    for state in (WAITING, other):
        maps.begin(state)
    maps.report(READY, b"map")
    maps.remove_repository(LIB)

    assert maps.states() == (other,)
    assert maps.packed((APP, LIB)) is None
    assert not maps.report(READY, b"map")
    assert maps.states() == (other,)


def test_the_oldest_maps_are_dropped(maps):
    for number in range(MAX_MAPS + 2):
        state = replace(READY, repositories=(RepositoryName(f"r{number}"),), at=float(number))
        maps.begin(replace(state, progress=Progress.WAITING))
        maps.report(state, b"map")

    kept = [one.repositories[0] for one in maps.states()]
    assert kept == [f"r{number}" for number in range(MAX_MAPS + 1, 1, -1)]
    assert maps.packed((RepositoryName("r1"),)) is None
