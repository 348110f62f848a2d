"""The rate limits in the answers of code hosts are understood, kept, and reported."""

from __future__ import annotations

import math
import time

import pytest

from codelode.request_budget import RequestBudget
from workers.sources import limits
from workers.sources.limits import Budgets

GITHUB = {
    "x-ratelimit-limit": "5000",
    "x-ratelimit-remaining": "4321",
    "x-ratelimit-reset": "1700000000",
    "x-ratelimit-resource": "core",
}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
        ({"retry-after": "soon"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "130"}, 30.0),
        ({"x-ratelimit-remaining": "1", "x-ratelimit-reset": "130"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "90"}, 0.0),
        ({"retry-after": "9" * 5_000}, math.inf),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 -9999"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "1700000000000000000"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "9" * 5_000}, None),
    ],
)
def test_the_pause_is_what_the_host_asks_for(headers, expected):
    assert limits.asked_pause(headers, now=lambda: 100.0) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (GITHUB, RequestBudget(5_000, 4_321, 1_700_000_000.0)),
        (
            {"ratelimit-limit": "60", "ratelimit-remaining": "0", "ratelimit-reset": "90"},
            RequestBudget(60, 0, 90.0),
        ),
        ({"x-ratelimit-limit": "60", "x-ratelimit-remaining": "7"}, RequestBudget(60, 7)),
        ({"x-ratelimit-limit": "1000", "x-ratelimit-nearlimit": "false"}, RequestBudget()),
        ({"x-ratelimit-limit": "many", "x-ratelimit-remaining": "-1"}, RequestBudget()),
        ({"x-ratelimit-limit": "0", "x-ratelimit-remaining": "0"}, RequestBudget()),
        ({}, RequestBudget()),
        ({**GITHUB, "x-ratelimit-limit": "9" * 5_000}, RequestBudget()),
        ({**GITHUB, "x-ratelimit-limit": str(2**64)}, RequestBudget()),
        ({**GITHUB, "x-ratelimit-remaining": str(2**64)}, RequestBudget()),
        ({**GITHUB, "x-ratelimit-reset": "9" * 400}, RequestBudget(5_000, 4_321)),
        ({**GITHUB, "x-ratelimit-reset": "1700000000000000000"}, RequestBudget(5_000, 4_321)),
    ],
    ids=[
        *("github", "gitlab", "bitbucket-server", "bitbucket", "nonsense", "zero", "none"),
        *("endless limit", "large limit", "large remaining", "endless time", "nanoseconds"),
    ],
)
def test_the_budget_is_what_the_host_reports(headers, expected):
    budgets = Budgets()
    budgets.hear(headers)

    assert budgets.tightest() == expected


def test_the_limit_with_the_fewest_requests_left_counts():
    graphql = {**GITHUB, "x-ratelimit-resource": "graphql", "x-ratelimit-remaining": "12"}
    budgets = Budgets()
    for headers in (GITHUB, graphql, {**GITHUB, "x-ratelimit-remaining": "4320"}, {}):
        budgets.hear(headers)

    assert budgets.tightest().requests_left == 12


def test_a_low_budget_is_a_problem_until_the_next_period_begins():
    now = time.time()
    assert not RequestBudget(5_000, 600, now + 60).is_low(now)
    assert RequestBudget(5_000, 400, now + 60).is_low(now)
    assert not RequestBudget(5_000, 0, now - 1).is_low(now)
    assert not RequestBudget(60, 0).is_low(now)  # the host reports no reset time
    assert not RequestBudget().is_low(now)
