"""The space of a cluster is measured by group, even if some part cannot be measured."""

from __future__ import annotations

import pytest

from codelode.backends.memory.disk_use import MemoryDiskUse
from codelode.disk_use import UNKNOWN
from codelode.settings import load
from workers.measuring import measure

pytestmark = pytest.mark.server


def sizes(**given):
    to = MemoryDiskUse()
    measure(load(**given), to)
    return {one.part: one.size_bytes for one in to.parts()}


def test_each_part_of_the_cluster_is_measured(redis_url, tmp_path):
    mirror = tmp_path / "mirrors" / "acme.git"
    mirror.mkdir(parents=True)
    (mirror / "pack").write_bytes(b"x" * 100_000)

    found = sizes(redis_url=redis_url, data=tmp_path)

    assert found["mirrors"] >= 100_000
    assert found["Redis memory"] > 100_000
    assert (found["index: vectors"], found["index: keyword index"]) == (0, 0)
    assert found["derived values"] == 0


def test_sizes_that_cannot_be_measured_are_unknown(tmp_path):
    found = sizes(redis_url="redis://127.0.0.1:1/0", data=tmp_path)

    assert found["Redis memory"] == UNKNOWN
    assert found["mirrors"] == 0


def test_a_separate_redis_for_caches_is_shown_beside_the_main_one(redis_url, tmp_path):
    found = sizes(redis_url=redis_url, cache_url=redis_url.replace("db=0", "db=1"), data=tmp_path)

    assert found["Redis memory: caches"] > 100_000
