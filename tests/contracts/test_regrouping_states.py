"""The contract of the port RegroupingStates, over every implementation."""

from __future__ import annotations

import pytest

from codelode.backends.memory.regrouping import MemoryRegroupingStates
from codelode.backends.redis.regrouping import RedisRegroupingStates
from codelode.model import RepositoryName, RunId
from codelode.regrouping import KEPT_S, MAX_FILTERS, RegroupingState

A, B = frozenset({RepositoryName("a"), RepositoryName("b")}), frozenset({RepositoryName("c")})


class Clock:
    """Returns a time that advances a little with each call, and that a test can change."""

    time = 1e9

    def __call__(self):
        self.time += 0.001
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def real(request):
    if request.param == "memory":
        return MemoryRegroupingStates()
    return RedisRegroupingStates(request.getfixturevalue("redis"))


@pytest.fixture
def states(real, clock):
    real.now = clock
    return real


def test_a_state_is_read_as_it_was_saved(states):
    assert states.state() == RegroupingState()
    batch = {RepositoryName("a"): ("=1", "=2"), RepositoryName("b"): ()}
    left = (RepositoryName("c"),)
    for runs in (None, (), (RunId("r"),)):
        state = RegroupingState("request", 1.5, True, 7, 2, left, batch, 3.5, runs)
        states.save(state)
        assert states.state() == state


def test_the_latest_request_is_returned(states):
    assert states.wanted() == ""
    first, second = states.want(), states.want()
    assert first != second
    assert states.wanted() == second


def test_the_latest_long_filters_are_kept_for_a_day(states, clock):
    states.report_long(A)
    clock.time += 9
    states.report_long(B)
    states.report_long(A)
    assert {*states.long_filters()} == {A, B}
    clock.time += KEPT_S - 1
    for number in range(MAX_FILTERS - 1):
        states.report_long(frozenset({RepositoryName(f"r{number}")}))
    assert len(states.long_filters()) == MAX_FILTERS
    assert B not in states.long_filters()
    clock.time += 2
    assert A not in states.long_filters()


def test_one_worker_at_a_time_takes_the_lock(states):
    with states.alone() as first:
        assert first
        with states.alone() as second:
            assert not second
    with states.alone() as third:
        assert third


def test_the_clock_does_not_run_backwards(real):
    assert 1.7e9 < real.now() <= real.now()
