"""The contract of the port ReferenceIndex, over every implementation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelode.backends.memory.references import MemoryReferences
from codelode.backends.redis.references import RedisReferences
from codelode.references import MAX_NAMES

REPO = "acme/app"
MAIN, TOPIC = "main", "topic"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def index(request):
    if request.param == "memory":
        return MemoryReferences()
    return RedisReferences(request.getfixturevalue("redis"))


def test_names_are_found_in_both_directions(index):
    index.replace(REPO, [MAIN], {"a.py": ["m load", "c run"], "b.py": ["c run"]})

    assert index.names(REPO, MAIN, ["a.py", "b.py"]) == {
        "a.py": ("c run", "m load"),
        "b.py": ("c run",),
    }
    assert index.files(REPO, MAIN, ["c run", "m load"]) == {
        "c run": ("a.py", "b.py"),
        "m load": ("a.py",),
    }


def test_a_use_is_found_without_its_lines_and_read_with_them(index):
    index.replace(REPO, [MAIN], {"a.py": ["c run\x003 14"], "b.py": ["c run\x007"]})

    assert index.files(REPO, MAIN, ["c run"]) == {"c run": ("a.py", "b.py")}
    assert index.names(REPO, MAIN, ["a.py"]) == {"a.py": ("c run\x003 14",)}
    index.replace(REPO, [MAIN], {"a.py": ["c run\x004"]})
    assert index.names(REPO, MAIN, ["a.py"]) == {"a.py": ("c run\x004",)}
    assert index.files(REPO, MAIN, ["c run"]) == {"c run": ("a.py", "b.py")}


def test_unused_names_have_no_files_and_files_without_uses_no_names(index):
    index.replace(REPO, [MAIN], {"a.py": ["c run"], "empty.py": []})

    assert index.files(REPO, MAIN, ["c never"]) == {"c never": ()}
    assert index.names(REPO, MAIN, ["empty.py", "unknown.py"]) == {"empty.py": (), "unknown.py": ()}
    assert index.files(REPO, MAIN, []) == {}
    assert index.names(REPO, MAIN, []) == {}


def test_replacing_removes_the_old_names(index):
    index.replace(REPO, [MAIN], {"a.py": ["c old", "c both"]})
    index.replace(REPO, [MAIN], {"a.py": ["c new", "c both"]})

    assert index.files(REPO, MAIN, ["c old", "c both", "c new"]) == {
        **{"c old": (), "c both": ("a.py",)},
        "c new": ("a.py",),
    }
    index.replace(REPO, [MAIN], {"a.py": []})
    assert index.files(REPO, MAIN, ["c both"]) == {"c both": ()}


def test_repositories_do_not_see_each_other_and_leave_alone(index):
    for repository in ("gone", "kept"):
        index.replace(repository, [MAIN], {"a.py": ["c run"]})
    index.remove_repository("gone")
    index.remove_repository("never-seen")

    assert index.files("gone", MAIN, ["c run"]) == {"c run": ()}
    assert index.files("kept", MAIN, ["c run"]) == {"c run": ("a.py",)}


def test_a_name_in_many_files_is_found_in_all_and_leaves_one_by_one(index):
    paths = sorted(f"{number}.py" for number in range(600))
    index.replace(REPO, [MAIN], {path: ["c get"] for path in paths})
    assert index.files(REPO, MAIN, ["c get"])["c get"] == tuple(paths)

    index.replace(REPO, [MAIN], {path: [] for path in paths[:599]})
    assert index.files(REPO, MAIN, ["c get"])["c get"] == (paths[599],)


def test_a_file_keeps_a_bounded_number_of_names(index):
    index.replace(REPO, [MAIN], {"a.py": [f"c n{number}" for number in range(MAX_NAMES + 10)]})

    assert len(index.names(REPO, MAIN, ["a.py"])["a.py"]) == MAX_NAMES


def test_many_names_are_read_in_one_call(index):
    index.replace(REPO, [MAIN], {"a.py": [f"c n{number}" for number in range(2_500)]})

    found = index.files(REPO, MAIN, [f"c n{number}" for number in range(2_500)])
    assert set(found.values()) == {("a.py",)}


@pytest.mark.parametrize("count", [1, 1_500])
def test_repositories_that_hold_a_name_are_found_at_once(index, count):
    for number in range(6):
        index.replace(f"acme/r{number}", [MAIN], {"a.py": ["p npm:ui"] * (number % 2) + ["c run"]})
    index.replace("acme/other", [TOPIC], {"a.py": ["p npm:ui"]})
    repositories = [*(f"acme/r{number}" for number in range(6)), "acme/other", "acme/none"]
    names = [*(f"p npm:{number}" for number in range(count)), "p npm:ui"]

    held = index.holding(repositories, MAIN, names)

    assert held == {f"acme/r{number}": ("p npm:ui",) for number in (1, 3, 5)}
    assert index.holding([], MAIN, names) == index.holding(repositories, MAIN, []) == {}


def test_storing_the_same_names_again_writes_nothing(redis):
    index = RedisReferences(redis)
    index.replace(REPO, [MAIN], {"a.py": ["c run", "m load"]})
    before = redis.info("persistence")["aof_current_size"]
    index.replace(REPO, [MAIN], {"a.py": ["m load", "c run", "c run"]})

    assert redis.info("persistence")["aof_current_size"] == before


def test_a_removed_repository_leaves_no_keys(redis):
    index = RedisReferences(redis)
    index.replace(
        REPO, [MAIN], {f"{number}.py": ["c get", f"c n{number}"] for number in range(600)}
    )
    index.remove_repository(REPO)

    assert list(redis.scan_iter()) == []


paths = st.sampled_from(["a", "b", "ü/ß", "x\0y", "{a}"])
names = st.text(max_size=3) | st.sampled_from(["c a", "m a", "p npm:a"])
changes = st.lists(st.tuples(paths, st.lists(names, max_size=6)), max_size=12)
prefixes = (f"references{number}:" for number in itertools.count())


@given(changes=changes)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_changes_ends_alike_in_redis_and_in_memory(redis, changes):
    twins = MemoryReferences(), RedisReferences(redis, prefix=next(prefixes))
    for path, used in changes:
        for twin in twins:
            twin.replace(REPO, [MAIN], {path: used})

    memory, server = twins
    every = sorted({name for _, used in changes for name in used})
    known = sorted({path for path, _ in changes})
    assert server.files(REPO, MAIN, every) == memory.files(REPO, MAIN, every)
    assert server.names(REPO, MAIN, known) == memory.names(REPO, MAIN, known)
