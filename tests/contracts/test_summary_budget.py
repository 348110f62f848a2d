"""The contract of the port SummaryBudget, over every implementation."""

from __future__ import annotations

import threading

import pytest

from codelode.backends.memory.budget import DAY_S, MemoryBudget
from codelode.backends.redis.budget import RedisBudget
from codelode.backends.registry import summary_budget
from codelode.settings import load


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def budget(request):
    """Return a function from limits to an unspent budget."""
    if request.param == "memory":
        return lambda per_run=100, per_day=1_000: MemoryBudget(per_run=per_run, per_day=per_day)
    client = request.getfixturevalue("redis")
    return lambda per_run=100, per_day=1_000: RedisBudget(client, per_run=per_run, per_day=per_day)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def of_organisation(request):
    """Return a function from an organisation to its budget of 15 calls per day."""
    if request.param == "memory":
        return lambda _: MemoryBudget(per_run=10, per_day=15)
    client = request.getfixturevalue("redis")
    return lambda name: RedisBudget(client, per_run=10, per_day=15, organisation=name)


def test_each_organisation_has_its_own_day_and_its_own_runs(of_organisation):
    here, there = of_organisation("here"), of_organisation("there")
    assert [here.take(run, 10) for run in "ab"] == [10, 5]
    assert [there.take(run, 10) for run in "ab"] == [10, 5]
    for _ in range(3):
        here.settle("c", made=0, failed=1)
    assert here.is_stopped("c")
    assert not there.is_stopped("c")


@pytest.mark.usefixtures("redis")
def test_workers_share_the_daily_budget_within_an_organisation_only(redis_url):
    def granted(organisation):
        limits = load(redis_url=redis_url, summaries_per_day=15, organisation=organisation)
        return summary_budget(limits).take("run", 10)

    assert [granted(name) for name in ("here", "here", "there")] == [10, 5, 10]


def test_a_run_is_granted_what_it_asks_for_up_to_its_limit(budget):
    spent = budget(per_run=10)
    assert [spent.take("run", 4) for _ in range(4)] == [4, 4, 2, 0]


def test_each_run_has_its_own_limit(budget):
    spent = budget(per_run=10)
    assert spent.take("a", 10) == 10
    assert spent.take("b", 10) == 10


def test_all_runs_share_the_daily_budget(budget):
    spent = budget(per_run=10, per_day=15)
    assert [spent.take(run, 10) for run in "abc"] == [10, 5, 0]


def test_failed_calls_count_towards_the_budget(budget):
    spent = budget(per_run=10, per_day=10)
    assert spent.take("run", 10) == 10
    spent.settle("run", made=7, failed=3)
    assert spent.take("run", 10) == 0


def test_less_important_calls_get_only_their_share_of_the_budget(budget):
    spent = budget(per_run=10)
    assert spent.take("run", 8, share=0.5) == 5
    assert spent.take("run", 8, share=0.5) == 0
    assert spent.take("run", 8) == 5


def test_a_budget_of_zero_grants_no_calls(budget):
    assert budget(per_run=0).take("run", 5) == 0
    assert budget(per_day=0).take("run", 5) == 0


def test_three_failed_batches_in_a_row_stop_the_run(budget):
    spent = budget()
    assert not spent.settle("run", made=0, failed=4)
    assert not spent.settle("run", made=0, failed=4)
    assert not spent.is_stopped("run")
    assert spent.settle("run", made=0, failed=1)
    assert spent.is_stopped("run")
    assert spent.take("run", 5) == 0


def test_one_success_starts_the_count_again(budget):
    spent = budget()
    for _ in range(5):
        spent.settle("run", made=0, failed=4)
        assert not spent.settle("run", made=1, failed=3)
        assert not spent.settle("run", made=0, failed=4)
        spent.settle("run", made=2, failed=0)


def test_batches_without_calls_count_as_neither_success_nor_failure(budget):
    spent = budget()
    spent.settle("run", made=0, failed=4)
    spent.settle("run", made=0, failed=4)
    for _ in range(5):
        assert not spent.settle("run", made=0, failed=0)
    assert spent.settle("run", made=0, failed=1)


def test_a_stopped_run_stays_stopped_and_leaves_others_alone(budget):
    spent = budget()
    for _ in range(3):
        spent.settle("run", made=0, failed=1)
    assert spent.settle("run", made=5, failed=0)
    assert spent.take("other", 5) == 5


def test_threads_never_exceed_the_limit(budget):
    spent, granted = budget(per_run=100), []
    threads = [
        threading.Thread(target=lambda: granted.append(spent.take("run", 7))) for _ in range(32)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 100


def test_a_new_day_has_a_new_budget():
    now = [0.0]
    spent = MemoryBudget(per_run=100, per_day=10, now=lambda: now[0])
    assert spent.take("run", 20) == 10
    now[0] = DAY_S
    assert spent.take("run", 20) == 10
