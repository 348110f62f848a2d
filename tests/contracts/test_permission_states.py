"""The contract of the port PermissionStates, over every implementation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.backends.redis.permissions import RedisPermissionStates
from codelode.host_permissions import (
    FoundTeams,
    HostPermissions,
    SyncDeclaration,
    SyncOutcome,
    SyncState,
    version_of,
)
from codelode.request_budget import RequestBudget

DECLARED = SyncDeclaration("work", "gitea", "git.example/", 300, 3600, emails=True, claim="")
OTHER = replace(DECLARED, name="other", kind="github", prefix="github.com/acme/")
PACKED = HostPermissions((("git.example/a/b",),), {"1": 1}, {"k": "1"}).packed()
BUDGET = RequestBudget(5_000, 4_998, 1_000.0)
OUTCOME = SyncOutcome(
    version_of(PACKED), 100.5, 101.5, repositories=1, accounts=1, requests=7, budget=BUDGET
)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def states(request):
    if request.param == "memory":
        return MemoryPermissionStates()
    return RedisPermissionStates(request.getfixturevalue("redis"))


def finish(states, name="work", outcome=OUTCOME, content=PACKED):
    assert states.hold(name, "me", for_s=60)
    assert states.finish(name, "me", outcome, content)
    states.release(name, "me")


def test_declared_connections_are_listed_by_name(states):
    assert states.states() == ()
    states.declare([DECLARED, OTHER])

    assert states.states() == (SyncState(OTHER), SyncState(DECLARED))


def test_an_outcome_and_permissions_are_read_as_they_were_stored(states):
    states.declare([DECLARED])
    assert states.permissions("work") is None
    finish(states)

    assert states.states() == (SyncState(DECLARED, OUTCOME),)
    found = states.permissions("work")
    assert found.packed() == PACKED
    assert found.version == OUTCOME.version


def test_a_failed_attempt_keeps_the_permissions(states):
    states.declare([DECLARED])
    finish(states)
    failed = replace(OUTCOME, error="host is down", attempted_at=200.0)
    finish(states, outcome=failed, content=None)

    assert states.states() == (SyncState(DECLARED, failed),)
    assert states.permissions("work").packed() == PACKED


def test_a_connection_that_is_dropped_or_moved_loses_what_was_stored(states):
    states.declare([DECLARED, OTHER])
    finish(states)
    finish(states, "other")
    states.want("other")
    slower = replace(DECLARED, every_s=600, claim="id")

    states.declare([slower, replace(OTHER, prefix="github.com/other/")])

    moved, kept = states.states()
    assert kept == SyncState(slower, OUTCOME)
    assert moved == SyncState(replace(OTHER, prefix="github.com/other/"))
    assert states.permissions("other") is None
    states.declare([])
    assert states.states() == ()
    assert states.permissions("work") is None


def test_the_teams_of_a_connection_are_kept_until_it_is_dropped_or_moved(states):
    states.declare([DECLARED, OTHER])
    assert states.teams("work") is None
    found = FoundTeams("1", (("17", "23"), ("42",)))
    for name in ("work", "other", "unknown"):
        states.keep_teams(name, found)
    states.keep_teams("other", FoundTeams("2", ()))
    assert [states.teams(name) for name in ("work", "other")] == [found, FoundTeams("2", ())]

    moved = replace(OTHER, prefix="github.com/other/")
    states.declare([DECLARED, moved, replace(DECLARED, name="unknown")])
    assert [states.teams(name) for name in ("work", "other", "unknown")] == [found, None, None]
    states.declare([])
    assert states.teams("work") is None


def test_one_owner_at_a_time_holds_a_connection(states):
    states.declare([DECLARED])

    assert states.hold("work", "a", for_s=60)
    assert not states.hold("work", "b", for_s=60)
    assert states.hold("work", "a", for_s=60)
    states.release("work", "b")
    assert not states.hold("work", "b", for_s=60)
    assert states.hold("other", "b", for_s=60)
    states.release("work", "a")
    assert states.hold("work", "b", for_s=60)


def test_a_hold_that_is_not_renewed_ends(states, wait_for):
    states.hold("work", "a", for_s=0.05)

    wait_for(lambda: states.hold("work", "b", for_s=60), "the hold to end")


def test_only_the_holder_of_a_connection_can_change_it(states):
    states.declare([DECLARED])
    finish(states)
    late = replace(OUTCOME, version="late")

    assert not states.finish("work", "me", late, b"late")
    states.hold("work", "other", for_s=60)
    assert not states.finish("work", "me", late, b"late")
    assert states.states() == (SyncState(DECLARED, OUTCOME),)
    assert states.permissions("work").packed() == PACKED


def test_an_outcome_of_a_connection_that_was_dropped_meanwhile_is_not_stored(states):
    states.declare([DECLARED])
    states.hold("work", "me", for_s=60)
    states.declare([])

    assert not states.finish("work", "me", OUTCOME, PACKED)
    states.declare([DECLARED])
    assert states.permissions("work") is None


def test_each_request_for_a_sync_makes_it_due_until_it_is_answered(states):
    states.declare([DECLARED])
    finish(states)
    (before,) = states.states()
    states.want("work")
    (wanted,) = states.states()

    assert [one.is_due(OUTCOME.attempted_at + 1) for one in (before, wanted)] == [False, True]
    states.want("work")  # while the first request is being answered
    finish(states, outcome=replace(OUTCOME, wanted=wanted.wanted))
    assert states.states()[0].is_due(OUTCOME.attempted_at + 1)
    finish(states, outcome=replace(OUTCOME, wanted=states.states()[0].wanted))
    assert not states.states()[0].is_due(OUTCOME.attempted_at + 1)


def test_the_problem_is_the_last_one_reported(states):
    assert states.problem() == ""
    states.report("sources.yaml:3: wrong")
    assert states.problem() == "sources.yaml:3: wrong"
    states.report("")
    assert states.problem() == ""
