"""The contract of the port Derivations over every implementation, and each when it is broken."""

from __future__ import annotations

import os
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode import languages
from codelode.backends.memory.derivations import MemoryDerivations
from codelode.backends.redis.connection import connect
from codelode.backends.redis.derivations import RedisDerivations
from codelode.backends.sqlite import SqliteDerivations
from workers import derivations

LARGE = 1 << 30


@pytest.fixture(params=["memory", "disk", pytest.param("redis", marks=pytest.mark.server)])
def open_derivations(request, tmp_path):
    """Return a function from a maximum size to an empty cache."""
    if request.param == "memory":
        return lambda max_bytes=LARGE: MemoryDerivations(max_bytes=max_bytes)
    if request.param == "disk":
        return lambda max_bytes=LARGE: SqliteDerivations(tmp_path / "d" / "x", max_bytes=max_bytes)
    client = request.getfixturevalue("redis")
    return lambda max_bytes=LARGE: RedisDerivations(client, max_bytes=max_bytes)


@pytest.fixture
def cache(open_derivations):
    opened = open_derivations()
    yield opened
    opened.close()


def key(number):
    return derivations.of_vector(str(number), embedder="test")


def test_a_value_is_read_back(cache):
    values = {key(n): value for n, value in enumerate((b"", b"x", bytes(range(256)) * 400))}
    cache.put(values)
    assert cache.get(list(values)) == tuple(values.values())


def test_missing_keys_give_none_at_their_positions(cache):
    cache.put({key(1): b"one", key(3): b"three"})
    asked = [key(0), key(1), key(2), key(3), key(1)]
    assert cache.get(asked) == (None, b"one", None, b"three", b"one")


def test_a_lookup_without_keys_returns_nothing(cache):
    cache.put({})
    assert cache.get([]) == ()


def test_a_later_value_replaces_an_earlier_one(cache):
    cache.put({key(1): b"old"})
    cache.put({key(1): b"new"})
    assert cache.get([key(1)]) == (b"new",)


def test_many_values_go_in_one_call(cache):
    values = {key(n): str(n).encode() for n in range(3_000)}
    cache.put(values)
    assert cache.get(list(values)) == tuple(values.values())


def test_the_oldest_leave_when_the_bound_is_reached(open_derivations):
    cache = open_derivations(1_000_000)
    payload = random.Random(0).randbytes(1_000)
    for start in range(0, 4_000, 100):
        cache.put({key(n): payload for n in range(start, start + 100)})
    kept = [n for n in range(4_000) if cache.get([key(n)]) != (None,)]
    assert kept == list(range(kept[0], 4_000))
    assert 600 <= len(kept) <= 1_000  # a sixteenth or an eighth leaves at once
    cache.close()


def test_a_value_that_is_stored_again_counts_as_new(open_derivations):
    cache = open_derivations(1_000_000)
    payload = bytes(1_000)
    cache.put({key("kept"): b"value"})
    for n in range(2_000):
        cache.put({key(n): payload})
        if n % 100 == 0:
            cache.put({key("kept"): b"value"})
    assert cache.get([key("kept"), key(0)]) == (b"value", None)
    cache.close()


def test_threads_share_one_cache(cache):
    def work(offset):
        for n in range(offset, offset + 50):
            cache.put({key(n): str(n).encode()})
            assert cache.get([key(n)]) == (str(n).encode(),)

    threads = [threading.Thread(target=work, args=(n * 50,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get([key(n) for n in range(400)]) == tuple(str(n).encode() for n in range(400))


# Disk


def test_another_process_reads_what_was_stored(tmp_path):
    file = tmp_path / "x"
    SqliteDerivations(file, max_bytes=LARGE).put({key(1): b"one"})
    pid = os.fork()
    if not pid:
        os._exit(0 if SqliteDerivations(file, max_bytes=LARGE).get([key(1)]) == (b"one",) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_file_stays_near_its_bound(tmp_path):
    cache = SqliteDerivations(tmp_path / "x", max_bytes=2_000_000)
    randomness = random.Random(1)
    for n in range(200):
        cache.put({key(f"{n} {m}"): randomness.randbytes(1_000) for m in range(50)})
    assert (tmp_path / "x").stat().st_size < 2_500_000
    cache.close()


@pytest.mark.parametrize("damage", [b"", b"no database at all " * 500], ids=["emptied", "garbage"])
def test_a_damaged_file_is_a_miss_and_then_works_again(tmp_path, damage):
    file = tmp_path / "x"
    first = SqliteDerivations(file, max_bytes=LARGE)
    first.put({key(1): b"one"})
    first.close()
    file.write_bytes(damage)
    again = SqliteDerivations(file, max_bytes=LARGE)
    assert again.get([key(1)]) == (None,)
    again.put({key(2): b"two"})
    assert again.get([key(2)]) == (b"two",)


def test_a_place_that_cannot_be_written_is_a_miss(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    cache = SqliteDerivations(tmp_path / "file" / "x", max_bytes=LARGE)
    cache.put({key(1): b"one"})
    assert cache.get([key(1)]) == (None,)


# Redis


def test_a_redis_that_is_gone_is_a_miss():
    cache = RedisDerivations(connect("redis://127.0.0.1:1/0", retries=0), max_bytes=LARGE)
    cache.put({key(1): b"one"})
    assert cache.get([key(1), key(2)]) == (None, None)


def test_evicted_cache_generations_are_misses(redis):
    cache = RedisDerivations(redis, max_bytes=80_000)
    for n in range(100):
        cache.put({key(n): bytes(500)})
    newest = int(redis.get("codelode:{derivations}:newest"))
    redis.delete(f"codelode:{{derivations}}:{newest - 1}", "codelode:{derivations}:newest")
    cache.put({key("new"): b"new"})
    assert cache.get([key("new")]) == (b"new",)


def test_everything_in_redis_expires(redis):
    RedisDerivations(redis, max_bytes=LARGE).put({key(1): b"one"})
    stored = list(redis.scan_iter("codelode:*"))
    assert stored
    assert all(redis.ttl(name) > 0 for name in stored)


# Keys


def test_everything_that_shapes_a_value_is_in_its_key():
    blob = "a" * 40
    keys = [
        derivations.of_parse(blob, "src/a.py", version="1"),
        derivations.of_parse("b" * 40, "src/a.py", version="1"),
        derivations.of_parse(blob, "src/a.go", version="1"),
        derivations.of_parse(blob, "tests/a.py", version="1"),
        derivations.of_parse(blob, "src/a.py", version="2"),
        derivations.of_vector("text", embedder="a"),
        derivations.of_vector("text", embedder="b"),
        derivations.of_vector("other", embedder="a"),
        derivations.of_summary("text", language="go", model="m", prompt="1"),
        derivations.of_summary("text", language="c", model="m", prompt="1"),
        derivations.of_summary("text", language="go", model="n", prompt="1"),
        derivations.of_summary("text", language="go", model="m", prompt="2"),
        derivations.of_summary("other", language="go", model="m", prompt="1"),
    ]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}


def test_a_renamed_file_keeps_its_key():
    blob = "a" * 40
    assert derivations.of_parse(blob, "src/a.py", version="1") == derivations.of_parse(
        blob, "lib/deep/other.py", version="1"
    )


FOLDERS = ["", "src/", "doc/", "docs/", "tests/", "vendor/", "man/", ".github/", "generated/"]
NAMES = [
    *("a.h", "a.c", "a.C", "a.m", "a.mm", "a.ts", "a.tsx", "a.py", "a", "run", "a.txt", "README"),
    *("a.html", "a.xhtml", "a.min.js", "a.js", "go.sum", "x_pb2.py", "test_a.py", "ATest.java"),
    *("Makefile.am", "Dockerfile", "conftest.py", "a.config.js", "setup.py", "a.unknown", "a.pl"),
    *("a.json", "a.sql", "a.inc", "a.v", "a.cls", "a.r", "a.f", "a.pro", "a.md", "LICENSE"),
]
HEADS = [
    *("", "#!/bin/sh\n", "#!/usr/bin/env python3\n", "<?xml version='1.0'?>\n<TS>", "class A {};"),
    *("@interface A", "% matlab\nfunction y = f(x)", "// Code generated by x. DO NOT EDIT.\n"),
    *("<meta name='generator' content='Javadoc'>", "template <typename T> class X", "plain"),
]


@given(
    st.sampled_from(FOLDERS),
    st.sampled_from(NAMES),
    st.sampled_from(FOLDERS),
    st.sampled_from(NAMES),
)
def test_paths_with_equal_traits_are_parsed_alike(folder, name, other_folder, other_name):
    path, other = folder + name, other_folder + other_name
    if languages.traits(path) != languages.traits(other):
        return
    for head in HEADS:
        assert _derived(path, head) == _derived(other, head)


def _derived(path, head):
    return (
        languages.detect(path, head.encode()),
        languages.detect(path),
        languages.category(path, head),
        languages.is_generated(path, head),
        languages.is_lock_file(path),
    )
