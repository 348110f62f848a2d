"""The contract of the port SemanticQueryCache, over every implementation."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
import pytest

from codelode.backends.memory.semantic_cache import MemorySemanticQueryCache
from codelode.backends.redis.connection import connect_async
from codelode.backends.redis.semantic_cache import COMPARED, RedisSemanticQueryCache

PATIENT_S = 10.0  # a busy machine must not turn a hit into a miss here
LIFE_S = 3600


def vector(*values):
    row = np.array(values, np.float32)
    return row / np.linalg.norm(row)


EAST, NORTH = vector(1, 0), vector(0, 1)
NORTHEAST = vector(1, 1)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
async def open_near(request):
    """Return a function from a maximum number of entries to a cache."""
    async with contextlib.AsyncExitStack() as stack:

        def open_(entries):
            near: MemorySemanticQueryCache | RedisSemanticQueryCache
            if request.param == "memory":
                near = MemorySemanticQueryCache(entries=entries)
            else:
                client = connect_async(request.getfixturevalue("redis_url"))
                near = RedisSemanticQueryCache(client, entries=entries, timeout_s=PATIENT_S)
            stack.push_async_callback(near.close)
            return near

        if request.param == "redis":
            request.getfixturevalue("redis")
        yield open_


@pytest.fixture
def near(open_near):
    return open_near(100)


async def test_the_nearest_query_is_found_with_its_cosine(near):
    await near.remember("b", EAST, "east", ttl_s=LIFE_S)
    await near.remember("b", NORTH, "north", ttl_s=LIFE_S)

    assert await near.nearest("b", EAST) == ("east", pytest.approx(1.0, abs=1e-3))
    key, cosine = await near.nearest("b", vector(0.1, 1))
    assert (key, cosine) == ("north", pytest.approx(0.995, abs=1e-3))


async def test_buckets_do_not_share_queries(near):
    await near.remember("b", EAST, "east", ttl_s=LIFE_S)

    assert await near.nearest("c", EAST) is None
    assert await near.nearest("", EAST) is None


async def test_the_latest_of_equal_queries_is_found(near):
    for key in ("first", "second"):
        await near.remember("b", EAST, key, ttl_s=LIFE_S)

    assert (await near.nearest("b", EAST))[0] == "second"


async def test_a_vector_of_another_dimension_is_never_a_neighbour(near):
    await near.remember("b", vector(1, 0, 0, 0), "wide", ttl_s=LIFE_S)

    assert await near.nearest("b", EAST) is None


async def test_beyond_the_bound_the_oldest_entries_of_all_buckets_are_dropped(open_near):
    near = open_near(3)
    for bucket in "abcd":
        await near.remember(bucket, EAST, bucket, ttl_s=LIFE_S)

    known = [await near.nearest(bucket, EAST) for bucket in "abcd"]
    assert [one and one[0] for one in known] == [None, "b", "c", "d"]


async def test_a_cache_of_size_zero_remembers_nothing(open_near):
    near = open_near(0)
    await near.remember("b", EAST, "east", ttl_s=LIFE_S)

    assert await near.nearest("b", EAST) is None


async def test_a_query_is_remembered_for_its_time_to_live(near):
    await near.remember("b", EAST, "east", ttl_s=1)
    assert await near.nearest("b", EAST) is not None

    async with asyncio.timeout(5):
        while await near.nearest("b", EAST) is not None:
            await asyncio.sleep(0.02)


async def test_the_bound_holds_in_the_server_itself(redis, redis_url):
    near = RedisSemanticQueryCache(connect_async(redis_url), entries=5, timeout_s=PATIENT_S)
    for number in range(40):
        await near.remember(f"b{number % 7}", NORTHEAST, str(number), ttl_s=LIFE_S)
    await near.close()

    lists = list(redis.scan_iter("codelode:{cache}:n:*"))
    assert sum(redis.llen(name) for name in lists) == 5
    assert redis.llen("codelode:{cache}:n") == 5


async def test_only_the_newest_of_a_large_bucket_are_compared(redis, redis_url):
    near = RedisSemanticQueryCache(connect_async(redis_url), entries=1_000, timeout_s=PATIENT_S)
    await near.remember("b", EAST, "old", ttl_s=LIFE_S)
    for number in range(COMPARED):
        await near.remember("b", NORTH, str(number), ttl_s=LIFE_S)

    found = await near.nearest("b", EAST)
    assert found is not None
    assert found[1] < 0.01
    await near.close()


async def test_a_dead_server_reads_as_a_miss():
    near = RedisSemanticQueryCache(connect_async("redis://127.0.0.1:1/0"), entries=5)
    await near.remember("b", EAST, "east", ttl_s=LIFE_S)

    assert await near.nearest("b", EAST) is None
    await near.close()
