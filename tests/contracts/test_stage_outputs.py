"""The contract of the port StageOutputs over every implementation."""

from __future__ import annotations

import pytest

from codelode.backends.memory.stage_outputs import MemoryStageOutputs
from codelode.backends.redis.stage_outputs import RedisStageOutputs
from codelode.model import RunId
from codelode.ports import StageOutputs

RUN, OTHER = RunId("r1"), RunId("r2")


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def stage_outputs(request: pytest.FixtureRequest) -> StageOutputs:
    if request.param == "memory":
        return MemoryStageOutputs()
    return RedisStageOutputs(request.getfixturevalue("redis"))


def test_parts_are_found_by_run_path_and_name(stage_outputs: StageOutputs) -> None:
    stage_outputs.put(RUN, {"a.py": {"parsed": b"1", "vectors": b"\0\n"}, "ü b": {"parsed": b"2"}})
    assert stage_outputs.get(RUN, ["ü b", "a.py", "c"], ["vectors", "parsed"]) == (
        {"parsed": b"2"},
        {"vectors": b"\0\n", "parsed": b"1"},
        {},
    )
    assert stage_outputs.get(OTHER, ["a.py"], ["parsed"]) == ({},)
    assert stage_outputs.get(RUN, ["a.py"], []) == ({},)
    assert stage_outputs.get(RUN, [], ["parsed"]) == ()


def test_a_part_replaces_an_earlier_one_and_leaves_the_others(stage_outputs: StageOutputs) -> None:
    stage_outputs.put(RUN, {"a.py": {"parsed": b"1", "vectors": b"2"}})
    stage_outputs.put(RUN, {"a.py": {"vectors": b"3"}})
    assert stage_outputs.get(RUN, ["a.py"], ["parsed", "vectors"]) == (
        {"parsed": b"1", "vectors": b"3"},
    )


def test_dropped_parts_are_gone_and_those_of_other_files_stay(stage_outputs: StageOutputs) -> None:
    stage_outputs.put(RUN, {"a.py": {"parsed": b"1"}, "b.py": {"parsed": b"2"}})
    stage_outputs.drop(RUN, ["a.py", "unknown"])
    stage_outputs.drop(RUN, [])
    assert stage_outputs.get(RUN, ["a.py", "b.py"], ["parsed"]) == ({}, {"parsed": b"2"})
