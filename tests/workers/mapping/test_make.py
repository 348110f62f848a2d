"""Making a map reports its progress, stops if the map is not wanted, and says why it failed."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from codelode.backends.memory.chunk_maps import MemoryChunkMaps
from codelode.chunk_map import ChunkMap, ChunkVector, MapState, Progress
from codelode.errors import Rejected
from codelode.model import RepositoryName
from codelode.settings import load
from tests.worlds import World
from workers.confined import Abandoned
from workers.delivery import messages
from workers.mapping import make, make_confined

APP = (RepositoryName("acme/app"),)
WAITING = MapState(APP, Progress.WAITING, 5.0)
FILES = {f"part{number}.py": f"def part{number}():\n    return {number}\n" for number in range(14)}


class RecordedMaps(MemoryChunkMaps):
    """Records what was reported."""

    def __init__(self):
        super().__init__()
        self.told = []

    def report(self, state, packed=None):
        self.told.append((state.progress, state.share))
        return super().report(state, packed)


@pytest.fixture
def world(tmp_path):
    made = World(load(data=tmp_path))
    made.index("acme/app", FILES)
    return made


def test_a_map_reports_its_progress_and_the_commits_that_it_shows(world):
    maps = RecordedMaps()
    maps.begin(WAITING)
    make(APP, world.chunks, world.ledger, maps)

    assert [progress for progress, _ in maps.told][:2] == [Progress.READING, Progress.PLACING]
    (state,) = maps.states()
    assert (state.progress, state.share) == (Progress.READY, 1.0)
    assert state.points == state.chunks == len(FILES)
    assert state.revisions == (world.ledger.refs("acme/app")[0].indexed,)
    found = ChunkMap.unpacked(maps.packed(APP))
    assert {found.place(point).path for point in range(len(FILES))} == set(FILES)


def test_making_a_map_that_nobody_requested_is_abandoned(world):
    with pytest.raises(Abandoned):
        make(APP, world.chunks, world.ledger, MemoryChunkMaps())


def test_a_map_that_is_ready_is_made_again_only_on_request(world):
    maps = MemoryChunkMaps()
    maps.begin(WAITING)
    make(APP, world.chunks, world.ledger, maps)
    with pytest.raises(Abandoned):
        make(APP, world.chunks, world.ledger, maps)

    maps.begin(replace(WAITING, at=time.time()))
    make(APP, world.chunks, world.ledger, maps)


def test_the_reason_why_a_map_failed_is_reported(tmp_path):
    maps = MemoryChunkMaps()
    maps.begin(WAITING)
    make_confined(load(data=tmp_path, redis_url="redis://127.0.0.1:1/0"), maps, APP)

    (state,) = maps.states()
    assert state.progress is Progress.FAILED
    assert "Redis" in state.error
    assert maps.begin(replace(WAITING, at=time.time()))


def test_positions_are_scaled_equally_in_both_directions():
    chunk = ChunkVector("", "acme/app", "a\ud800.py", 1, 2, "python", "source", np.ones(1, "f4"))
    at = np.array([[0, 0], [4, 1], [2, 0.5]], np.float32)
    found = ChunkMap.of([chunk] * 3, at)

    assert found.points[:, 0].tolist() == [0, 65_535, 32_768]
    assert found.points[:, 1].tolist() == [24_576, 40_959, 32_768]
    assert ChunkMap.unpacked(found.packed()).place(1).path == "a\ud800.py"


@pytest.mark.parametrize("given", [[], "acme/app", ["a\nb"], [1], ["a"] * 51, None])
def test_messages_with_other_arguments_are_refused(given):
    with pytest.raises(Rejected):
        messages.repositories(given)
