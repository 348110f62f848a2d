"""Flower does not start without a login, and finds jobs that it reads late."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from celery.events import Event
from flower.events import EventsState

from workers.flower import LateSearchEngine

pytestmark = pytest.mark.slow

#: Runs Flower for each login that it is given, in processes that share the imports; prints how
#: they end.
EACH = """
import os, sys
from workers.flower import main
logins, sys.argv = sys.argv[1:], ["flower", "--port=0"]
for login in logins:
    if not os.fork():
        os.environ["FLOWER_BASIC_AUTH"] = login
        main()
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
LOGINS = ("", "codelode", "codelode:", ":secret", "a:b,c")
REFUSAL = "flower: set a login: FLOWER_BASIC_AUTH=NAME:PASSWORD"


def ended(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env={name: value for name, value in os.environ.items() if "FLOWER" not in name},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_flower_without_a_login_refuses_to_start(tmp_path):
    flower = ended(tmp_path, "-m", "workers.flower", "--port=0")

    assert flower.returncode == 1
    assert REFUSAL in flower.stderr


def test_flower_with_half_a_login_refuses_to_start(tmp_path):
    flowers = ended(tmp_path, "-c", EACH, *LOGINS)

    assert flowers.stdout.split() == ["1"] * len(LOGINS), flowers.stderr
    assert flowers.stderr.count(REFUSAL) == len(LOGINS)


def test_jobs_that_are_read_late_are_found_as_those_that_are_read_at_once(own, late):
    for number, event in enumerate(events(jobs=40)):
        for state in (own, late):
            state.event(event)
        if number % 7 == 0:
            compare(own, late)
    assert late.search_engine.search(late.tasks, "src/3").filtered_count == 10
    for state in (own, late):
        state.clear_tasks(ready=False)
    compare(own, late)


@pytest.fixture
def own():
    return EventsState(max_tasks_in_memory=25)


@pytest.fixture
def late():
    state = EventsState(max_tasks_in_memory=25)
    state.search_engine = LateSearchEngine()
    return state


def events(*, jobs):
    """Yield the events of jobs, of which each begins before the previous one ends."""
    waiting = []
    for number in range(jobs):
        of = {"uuid": f"job-{number}", "hostname": f"celery@{number % 3}", "pid": 1}
        kwargs = repr({"run": "r1", "path": f"src/{number}.py"})
        received = {"name": f"workers.{('parse', 'store')[number % 2]}", "kwargs": kwargs}
        waiting.append(("task-failed" if number % 5 == 0 else "task-succeeded", of))
        yield stamped("task-received", of | received)
        yield stamped("task-started", of)
        if len(waiting) > 1:
            yield stamped(*waiting.pop(0))


def stamped(kind, of):
    return Event(kind, **of, clock=1, local_received=1.0, utcoffset=0)


def compare(own, late):
    searches = [
        {},
        {"query": "src/3"},
        {"query": "kwargs:path=src/7.py"},
        {"state": "FAILURE"},
        {"worker": "celery@1", "sort_by": "state"},
        {"task_type": "workers.store", "limit": 5},
    ]
    for asked in searches:
        expected = own.search_engine.search(own.tasks, **asked)
        assert late.search_engine.search(late.tasks, **asked) == expected
