"""The contract of the port CallLimits, over every implementation."""

from __future__ import annotations

import asyncio

import pytest

from codelode.backends.memory.call_limits import MAX_NAMES, MemoryCallLimits
from codelode.backends.redis.cache import FAILURES_TO_OPEN, OPEN_S, Breaker
from codelode.backends.redis.call_limits import MAX_ENDED, MAX_NAMES_ENDED, RedisCallLimits
from codelode.backends.redis.connection import connect_async
from codelode.ports import CallLimit

#: So slow that no token comes back during a test.
SLOW = CallLimit(per_minute=1, burst=3)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
async def counts(request):
    if request.param == "memory":
        yield MemoryCallLimits()
        return
    request.getfixturevalue("redis")
    async with connect_async(request.getfixturevalue("redis_url")) as client:
        yield RedisCallLimits(client, MemoryCallLimits(), timeout_s=10)


async def test_after_its_burst_a_bucket_says_when_the_next_token_comes(counts):
    assert [await counts.take("a", str(call), SLOW) for call in range(3)] == [0, 0, 0]
    wait = await counts.take("a", "4", SLOW)
    assert 0 < wait <= 60
    assert 0 < await counts.take("a", "4", SLOW) <= wait  # asking costs nothing


async def test_each_name_has_its_own_bucket(counts):
    for name in ("a", "b", "ü/*'", "\ud800"):
        assert [await counts.take(name, str(call), SLOW) for call in range(3)] == [0, 0, 0]


async def test_tokens_are_refilled(counts):
    fast = CallLimit(per_minute=60_000, burst=1)
    for _ in range(20):
        while wait := await counts.take("a", "", fast):
            await asyncio.sleep(wait)


async def test_a_caller_has_a_limited_number_of_concurrent_calls(counts):
    two = CallLimit(at_once=2)
    assert [await counts.take("a", call, two) for call in "xyz"] == [0, 0, None]
    await counts.release("a", "x")
    await counts.release("a", "unknown")
    assert [await counts.take("a", call, two) for call in "zx"] == [0, None]


async def test_a_refused_call_consumes_no_token_and_no_slot(counts):
    limit = CallLimit(per_minute=1, burst=2, at_once=1)
    assert [await counts.take("a", call, limit) for call in "xyz"] == [0, None, None]
    await counts.release("a", "x")
    assert await counts.take("a", "y", limit) == 0
    await counts.release("a", "y")
    assert await counts.take("a", "z", limit) > 0
    assert await counts.take("a", "z", CallLimit(at_once=1)) == 0


async def test_a_limit_of_zero_means_unlimited(counts):
    assert {await counts.take("a", str(call), CallLimit()) for call in range(50)} == {0}


async def test_concurrent_calls_get_no_more_than_the_limit(counts):
    limit = CallLimit(per_minute=1, burst=10, at_once=8)
    taken = await asyncio.gather(*(counts.take("a", str(call), limit) for call in range(40)))
    assert taken.count(0) == 8


@pytest.mark.server
async def test_gateways_count_together(redis, redis_url):
    async with connect_async(redis_url) as one, connect_async(redis_url) as other:
        sides = [RedisCallLimits(at, MemoryCallLimits(), timeout_s=10) for at in (one, other)]
        assert [await sides[at % 2].take("a", str(at), SLOW) == 0 for at in range(4)] == [
            *(True, True, True, False)
        ]


async def test_without_redis_a_process_counts_by_itself(tmp_path):
    async with connect_async(f"unix://{tmp_path}/none.sock", retries=0) as client:
        counts = RedisCallLimits(client, MemoryCallLimits())
        limit = CallLimit(per_minute=1, burst=9, at_once=2)
        assert [await counts.take("a", call, limit) for call in "xyz"] == [0, 0, None]
        await counts.release("a", "x")
        assert await counts.take("a", "z", limit) == 0


@pytest.mark.server
async def test_calls_whose_end_redis_missed_stop_counting_with_the_next_call(redis, redis_url):
    now, two = [0.0], CallLimit(at_once=2)
    breaker = Breaker(clock=lambda: now[0])
    async with connect_async(redis_url) as client:
        counts = RedisCallLimits(client, MemoryCallLimits(), timeout_s=10, breaker=breaker)
        assert [await counts.take("a", call, two) for call in "xyz"] == [0, 0, None]
        for _ in range(FAILURES_TO_OPEN):
            breaker.failed(TimeoutError())
        await counts.release("a", "x")
        await counts.release("a", "y")
        now[0] += OPEN_S
        assert [await counts.take("a", call, two) for call in "zxy"] == [0, 0, None]
        assert counts._ended == {}


@pytest.mark.server
async def test_a_call_that_redis_has_counted_but_its_gateway_refuses_stops_counting(
    redis, redis_url, monkeypatch
):
    one, own = CallLimit(at_once=1), MemoryCallLimits()
    await own.take("a", "x", one)
    async with connect_async(redis_url) as client:
        counts = RedisCallLimits(client, own, timeout_s=10)
        take = counts._take

        async def take_too_late(**asked):
            await take(**asked)
            raise TimeoutError

        with monkeypatch.context() as patched:
            patched.setattr(counts, "_take", take_too_late)
            assert await counts.take("a", "y", one) is None
        assert await counts.take("a", "z", one) == 0


async def test_the_memory_of_calls_whose_end_redis_missed_is_bounded(tmp_path):
    async with connect_async(f"unix://{tmp_path}/none.sock", retries=0) as client:
        counts = RedisCallLimits(client, MemoryCallLimits())
        for number in range(MAX_ENDED + 10):
            await counts.release("a", str(number))
        assert len(counts._ended["a"]) == MAX_ENDED
        for number in range(MAX_NAMES_ENDED + 10):
            await counts.release(str(number), "x")
        assert len(counts._ended) == MAX_NAMES_ENDED


async def test_a_call_of_a_gateway_that_died_does_not_count_for_ever():
    now = [0.0]
    counts = MemoryCallLimits(lambda: now[0])
    assert [await counts.take("a", call, CallLimit(at_once=1)) for call in "xy"] == [0, None]
    now[0] += 3_600
    assert await counts.take("a", "y", CallLimit(at_once=1)) == 0


async def test_the_memory_of_many_names_is_bounded():
    counts = MemoryCallLimits()
    for number in range(MAX_NAMES + 10):
        await counts.take(str(number), "", SLOW)
    assert len(counts._full_at) == MAX_NAMES
