"""The contract of the port QueryCache, over every implementation, and Redis failing under it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest
import structlog

from codelode.backends.memory.cache import MemoryCache
from codelode.backends.redis.cache import FAILURES_TO_OPEN, OPEN_S, Breaker, RedisCache
from codelode.backends.redis.connection import connect_async

PATIENT_S = 10.0  # a busy machine must not turn a hit into a miss here
LIFE_S = 3600


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
async def open_cache(request):
    """Return a function from a maximum number of entries to a cache."""
    async with contextlib.AsyncExitStack() as stack:

        def open_(entries):
            cache: MemoryCache | RedisCache
            if request.param == "memory":
                cache = MemoryCache(entries=entries)
            else:
                client = connect_async(request.getfixturevalue("redis_url"))
                cache = RedisCache(client, entries=entries, timeout_s=PATIENT_S)
            stack.push_async_callback(cache.close)
            return cache

        if request.param == "redis":
            request.getfixturevalue("redis")
        yield open_


@pytest.fixture
def cache(open_cache):
    return open_cache(100)


async def test_a_stored_answer_is_read_back(cache):
    for value in (b"", b"answer", bytes(range(256)) * 400):
        await cache.put("key", value, ttl_s=LIFE_S)
        assert await cache.get("key") == value


async def test_a_key_that_was_not_stored_is_a_miss(cache):
    await cache.put("key", b"answer", ttl_s=LIFE_S)

    assert await cache.get("other") is None
    assert await cache.get("") is None


async def test_any_text_is_a_key(cache):
    for number, key in enumerate(("a b\n", "ü", "", "{x}:*", "k" * 5000)):
        await cache.put(key, str(number).encode(), ttl_s=LIFE_S)
        assert await cache.get(key) == str(number).encode()


async def test_beyond_the_bound_the_least_recently_stored_entries_are_dropped(open_cache):
    cache = open_cache(3)
    for key in "abc":
        await cache.put(key, key.encode(), ttl_s=LIFE_S)
    await cache.get("a")
    await cache.put("b", b"again", ttl_s=LIFE_S)
    await cache.put("d", b"d", ttl_s=LIFE_S)
    await cache.put("e", b"e", ttl_s=LIFE_S)

    assert [await cache.get(key) for key in "abcde"] == [None, b"again", None, b"d", b"e"]


async def test_a_cache_of_size_zero_stores_nothing(open_cache):
    cache = open_cache(0)
    await cache.put("key", b"answer", ttl_s=LIFE_S)

    assert await cache.get("key") is None


async def test_an_answer_expires_after_its_time_to_live(cache):
    await cache.put("short", b"answer", ttl_s=1)
    await cache.put("long", b"answer", ttl_s=LIFE_S)
    assert await cache.get("short") == b"answer"

    async with asyncio.timeout(5):
        while await cache.get("short") is not None:
            await asyncio.sleep(0.02)
    assert await cache.get("long") == b"answer"


async def test_the_bound_holds_in_the_server_itself(redis, redis_url):
    cache = RedisCache(connect_async(redis_url), entries=5, timeout_s=PATIENT_S)
    for number in range(40):
        await cache.put(str(number), b"answer", ttl_s=LIFE_S)
    await cache.close()

    assert len(list(redis.scan_iter("codelode:{cache}:v:*"))) == 5
    assert redis.zcard("codelode:{cache}:order") == 5


async def test_answers_are_stored_compressed(redis, redis_url):
    cache = RedisCache(connect_async(redis_url), entries=5, timeout_s=PATIENT_S)
    await cache.put("key", b'{"path": "src/a.py"}' * 1000, ttl_s=LIFE_S)
    await cache.close()

    assert redis.strlen("codelode:{cache}:v:key") < 1000


async def test_an_answer_that_cannot_be_read_is_a_miss(redis, redis_url):
    cache = RedisCache(connect_async(redis_url), entries=5, timeout_s=PATIENT_S)
    redis.set("codelode:{cache}:v:key", b"not compressed")

    assert await cache.get("key") is None
    await cache.close()


@pytest.fixture
def silent_url():
    """The URL of a server that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


@pytest.fixture
def closed_url():
    """The URL of an address without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"redis://127.0.0.1:{taken.getsockname()[1]}/0"


@pytest.mark.parametrize("url", ["silent_url", "closed_url"])
async def test_a_dead_server_reads_as_misses_and_costs_little(request, url):
    cache = RedisCache(connect_async(request.getfixturevalue(url)), entries=5)
    started = time.monotonic()
    with structlog.testing.capture_logs() as logs:
        for _ in range(500):
            await cache.put("key", b"answer", ttl_s=LIFE_S)
            assert await cache.get("key") is None
    await cache.close()

    # Without the breaker the thousand calls would take 50 s; it lets three through.
    assert time.monotonic() - started < 20
    assert [line["event"] for line in logs] == ["query_cache_unavailable"]


async def test_the_cache_is_used_again_once_it_answers(redis, redis_url):
    now = [1000.0]
    breaker = Breaker(clock=lambda: now[0])
    cache = RedisCache(connect_async(redis_url), entries=5, timeout_s=PATIENT_S, breaker=breaker)
    await cache.put("key", b"answer", ttl_s=LIFE_S)
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed(TimeoutError("too slow"))
    assert await cache.get("key") is None

    now[0] += OPEN_S
    with structlog.testing.capture_logs() as logs:
        assert await cache.get("key") == b"answer"
        assert await cache.get("key") == b"answer"
    await cache.close()
    assert [line["event"] for line in logs] == ["query_cache_available"]


def test_one_caller_tries_for_all_after_the_breaker_was_open():
    now = [1000.0]
    breaker = Breaker(clock=lambda: now[0])
    for _ in range(FAILURES_TO_OPEN):
        assert breaker.admits()
        breaker.failed(TimeoutError("too slow"))
    assert not breaker.admits()

    now[0] += OPEN_S
    assert [breaker.admits() for _ in range(3)] == [True, False, False]
    breaker.succeeded()
    assert breaker.admits()


def test_single_failures_do_not_open_the_breaker():
    breaker = Breaker()
    for _ in range(10 * FAILURES_TO_OPEN):
        breaker.failed(TimeoutError("too slow"))
        assert breaker.admits()
        breaker.succeeded()
