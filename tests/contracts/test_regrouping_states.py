"""The contract of the port RegroupingStates, over every implementation."""

from __future__ import annotations

import pytest

from codelode.backends.memory.regrouping import MemoryRegroupingStates
from codelode.backends.redis.regrouping import RedisRegroupingStates
from codelode.model import RepositoryName, RunId
from codelode.regrouping import KEPT_S, MAX_FILTERS, RegroupingState

A, B = frozenset({RepositoryName("a"), RepositoryName("b")}), frozenset({RepositoryName("c")})


class Clocked:
    """Adds a clock that a test can move."""

    time = 1e9

    def now(self):
        self.time += 0.001
        return self.time


class Memory(Clocked, MemoryRegroupingStates):
    def __init__(self):
        super().__init__(self.now)
        del self.__dict__["now"]


class Redis(Clocked, RedisRegroupingStates):
    pass


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def states(request):
    if request.param == "memory":
        return Memory()
    return Redis(request.getfixturevalue("redis"))


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


def test_the_latest_long_filters_are_kept_for_a_day(states):
    states.report_long(A)
    states.time += 9
    states.report_long(B)
    states.report_long(A)
    assert {*states.long_filters()} == {A, B}
    states.time += KEPT_S - 1
    for number in range(MAX_FILTERS - 1):
        states.report_long(frozenset({RepositoryName(f"r{number}")}))
    assert len(states.long_filters()) == MAX_FILTERS
    assert B not in states.long_filters()
    states.time += 2
    assert A not in states.long_filters()


def test_one_worker_at_a_time_takes_the_lock(states):
    with states.alone() as first:
        assert first
        with states.alone() as second:
            assert not second
    with states.alone() as third:
        assert third


def test_the_clock_advances(request, states):
    real = RedisRegroupingStates(states._client) if isinstance(states, Redis) else None
    clock = real or MemoryRegroupingStates()
    assert 1.7e9 < clock.now() <= clock.now()
