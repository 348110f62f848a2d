"""The contract of the port SourceStates, over every implementation.

What it shares with PermissionStates is tested there: one owner at a time, and what is dropped.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, replace

import pytest

from codelode.backends.memory.sources import MemorySourceStates
from codelode.backends.redis.sources import RedisSourceStates
from codelode.repository_sources import (
    Action,
    Change,
    FollowedRepository,
    FormerName,
    Mode,
    SourceDeclaration,
    SourceOutcome,
    SourceState,
    packed,
    unpacked,
)
from codelode.request_budget import RequestBudget

DECLARED = SourceDeclaration("work", "gitea", "git.example/", 300, "rules", 1_200)
OLD = (FormerName("old", "https://git.example/acme/old"),)
KNOWN = (
    FollowedRepository("1", "acme/app", "app", "https://git.example/acme/app", "t", 1.5, 0.0, OLD),
)
CHANGES = (Change(Action.RENAME, "app", "was old"),)
BUDGET = RequestBudget(5_000, 4_998, 1_000.0)
OUTCOME = SourceOutcome(
    100.5,
    101.5,
    changes=CHANGES,
    repositories=1,
    rules="rules",
    budget=BUDGET,
    unchanged=2,
)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def states(request):
    if request.param == "memory":
        return MemorySourceStates()
    return RedisSourceStates(request.getfixturevalue("redis"))


def finish(states, outcome=OUTCOME, known=KNOWN):
    assert states.hold("work", "me", for_s=60)
    assert states.finish("work", "me", outcome, None if known is None else packed(known))
    states.release("work", "me")


def only(states):
    (state,) = states.states()
    return state


def test_an_outcome_and_repositories_are_read_as_they_were_stored(states):
    states.declare([DECLARED])
    assert only(states) == SourceState(DECLARED)
    assert states.known("work") == ()
    finish(states)

    assert only(states) == SourceState(DECLARED, OUTCOME)
    assert states.known("work") == KNOWN
    finish(states, replace(OUTCOME, error="host is down"), None)
    assert states.known("work") == KNOWN


def test_former_names_stored_without_a_url_are_still_read():
    stored = zlib.compress(json.dumps([{**asdict(KNOWN[0]), "replaces": ["old"]}]).encode())

    assert unpacked(stored) == (replace(KNOWN[0], replaces=(FormerName("old", ""),)),)


def test_only_the_holder_replaces_the_list_that_git_may_read_and_it_goes_with_the_connection(
    states,
):
    states.declare([DECLARED])
    url = "https://git.example/acme/app"
    states.entrust("work", "nobody", {"app": url})
    assert states.entrusted("work", "app") == ""
    assert states.hold("work", "me", for_s=60)
    states.entrust("work", "me", {"app": url, "lib": url})
    assert (states.entrusted("work", "app"), states.entrusted("work", "more")) == (url, "")
    assert states.entrusted("other", "app") == ""
    states.entrust("work", "me", {"lib": url})
    assert (states.entrusted("work", "app"), states.entrusted("work", "lib")) == ("", url)

    states.declare([replace(DECLARED, prefix="git.example/other/")])
    assert states.entrusted("work", "lib") == ""


def test_a_connection_with_another_address_starts_afresh(states):
    states.declare([DECLARED])
    finish(states)
    states.declare([replace(DECLARED, rules="other", every_s=7)])
    assert states.known("work") == KNOWN

    states.declare([replace(DECLARED, prefix="git.example/other/")])
    assert (states.known("work"), only(states).outcome) == ((), SourceOutcome())


def test_a_listing_is_due_by_time_on_new_rules_after_an_error_and_on_request(states):
    states.declare([DECLARED])
    assert only(states).is_due(0.0)
    finish(states, replace(OUTCOME, unchanged=0))
    state = only(states)
    assert [state.is_due(101.5 + after) for after in (1, 269, 300)] == [False, False, True]
    rare = replace(state.declared, every_s=9_999)
    failed = replace(state.outcome, error="down")
    assert not SourceState(rare, state.outcome).is_due(500.0)
    assert SourceState(rare, failed).is_due(500.0)
    assert SourceState(replace(rare, rules="new"), state.outcome).is_due(102.0)

    states.want("work", Mode.PLAN)
    assert (only(states).is_due(102.0), only(states).mode) == (True, Mode.PLAN)
    finish(states, replace(OUTCOME, wanted=only(states).wanted))
    assert (only(states).is_due(102.0), only(states).mode) == (False, Mode.SYNC)


def test_a_waiting_request_is_not_downgraded_by_a_later_one(states):
    states.declare([DECLARED])
    finish(states)
    states.want("work", Mode.PLAN)
    states.want("work", Mode.CONFIRM)
    asked = only(states).wanted
    states.want("work", Mode.SYNC)

    assert only(states).mode is Mode.CONFIRM
    assert only(states).wanted != asked
    finish(states, replace(OUTCOME, wanted=only(states).wanted))
    states.want("work", Mode.PLAN)
    assert only(states).mode is Mode.PLAN


def test_the_interval_grows_up_to_its_bound_while_nothing_changes():
    def interval_s(declared, unchanged):
        return SourceState(declared, SourceOutcome(unchanged=unchanged)).interval_s

    assert [interval_s(DECLARED, one) for one in (0, 1, 2, 10**6)] == [300, 600, 1_200, 1_200]
    earlier = replace(DECLARED, at_least_every_s=0)  # an earlier version stored no bound
    assert [interval_s(earlier, one) for one in (0, 3)] == [300, 300]


def test_connections_with_the_same_interval_are_listed_at_different_times():
    outcome = SourceOutcome(attempted_at=1_000.0, rules="rules")
    states = [SourceState(replace(DECLARED, name=f"c{at}"), outcome) for at in range(50)]
    due = [sum(one.is_due(1_000.0 + 300 * share) for one in states) for share in (0.89, 0.95, 1.0)]
    assert due[0] == 0 < due[1] < due[2] == 50
