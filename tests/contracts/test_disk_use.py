"""The contract of the port DiskUse, over every implementation."""

from __future__ import annotations

import pytest

from codelode.backends.memory.disk_use import MemoryDiskUse
from codelode.backends.redis.disk_use import RedisDiskUse
from codelode.disk_use import INDEX, MIRRORS, UNKNOWN, DiskPart

VECTORS, TEXTS = DiskPart("index: vectors", 300, 5.0), DiskPart("index: texts", 700, 5.0)
CLONES = DiskPart("mirrors", UNKNOWN, 6.5)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def sizes(request):
    if request.param == "memory":
        return MemoryDiskUse()
    return RedisDiskUse(request.getfixturevalue("redis"))


def test_parts_are_returned_in_the_order_of_their_groups(sizes):
    assert sizes.parts() == ()
    sizes.record(MIRRORS, [CLONES])
    sizes.record(INDEX, [VECTORS, TEXTS])

    assert sizes.parts() == (VECTORS, TEXTS, CLONES)


def test_a_group_is_replaced_as_a_whole(sizes):
    sizes.record(INDEX, [VECTORS, TEXTS])
    sizes.record(INDEX, [DiskPart("index", UNKNOWN, 9.0)])

    assert sizes.parts() == (DiskPart("index", UNKNOWN, 9.0),)
