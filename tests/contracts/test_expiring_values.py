"""The contract of the port ExpiringValues, over every implementation."""

from __future__ import annotations

import asyncio

import pytest

from codelode.backends.memory.expiring_values import MemoryExpiringValues
from codelode.backends.redis.connection import connect_async
from codelode.backends.redis.expiring_values import RedisExpiringValues

LONG_S = 600.0


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
async def values(request):
    if request.param == "memory":
        yield MemoryExpiringValues()
        return
    request.getfixturevalue("redis")
    found = RedisExpiringValues(connect_async(request.getfixturevalue("redis_url")))
    yield found
    await found.close()


async def test_a_value_is_found_only_under_its_own_name(values):
    await values.put("ü/*'", b"\x00one", ttl_s=LONG_S)

    assert await values.get("ü/*'") == b"\x00one"
    assert await values.get("other") is None


async def test_a_value_expires(values):
    await values.put("a", b"one", ttl_s=0.05)
    async with asyncio.timeout(60):
        while await values.get("a") is not None:
            await asyncio.sleep(0.01)
    assert await values.take("a") is None


async def test_only_one_of_concurrent_callers_takes_a_value(values):
    await values.put("a", b"one", ttl_s=LONG_S)
    taken = await asyncio.gather(*(values.take("a") for _ in range(20)))

    assert sorted(taken, key=bool) == [None] * 19 + [b"one"]
    assert await values.get("a") is None


async def test_one_of_concurrent_callers_adds_a_value(values):
    added = await asyncio.gather(*(values.add("a", b"%d" % i, ttl_s=LONG_S) for i in range(20)))

    assert sum(added) == 1
    assert await values.get("a") == b"%d" % added.index(True)


async def test_a_replaced_value_keeps_its_end_and_a_missing_one_stays_missing(values):
    await values.replace("a", b"one")
    assert await values.get("a") is None

    await values.put("a", b"one", ttl_s=0.5)
    await values.replace("a", b"two")
    async with asyncio.timeout(60):
        while (found := await values.get("a")) is not None:
            assert found == b"two"
            await asyncio.sleep(0.01)
