"""Calls to remote models are retried with back-off, interrupted by a breaker, and limited."""

from __future__ import annotations

import threading

import pytest
import structlog

from codelode.backends.models.remote import (
    ATTEMPTS,
    BACKOFF_BASE_S,
    BACKOFF_CAP_S,
    FAILURES_TO_OPEN,
    OPEN_S,
    Breaker,
    Garbled,
    Remote,
    Throttled,
)
from codelode.errors import Rejected, TimedOut, Unavailable


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def remote(pauses, now):
    breaker = Breaker("server", clock=lambda: now[0])
    return Remote("server", breaker=breaker, sleep=pauses.append)


class Calls:
    """Raises the given errors in turn, then answers."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.made = 0

    def __call__(self):
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def failures(count, error=Unavailable):
    return [error(f"failure {number}") for number in range(1, count + 1)]


def test_an_answer_is_returned_unchanged(remote, pauses):
    assert remote.call(Calls()) == "answer"
    assert pauses == []


def test_a_failing_call_is_repeated_after_growing_pauses(remote, pauses):
    work = Calls(*failures(ATTEMPTS - 1))
    assert remote.call(work) == "answer"
    assert work.made == ATTEMPTS
    assert len(pauses) == ATTEMPTS - 1
    assert all(
        0 <= pause <= min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2**at) for at, pause in enumerate(pauses)
    )


def test_pauses_of_two_callers_differ(pauses):
    for _ in range(2):
        Remote("server", sleep=pauses.append).call(Calls(*failures(3)))
    assert pauses[:3] != pauses[3:]


def test_after_the_last_attempt_the_last_error_is_raised(remote):
    work = Calls(*failures(100))
    with pytest.raises(Unavailable, match=f"failure {ATTEMPTS}$"):
        remote.call(work)
    assert work.made == ATTEMPTS


def test_a_call_may_be_made_once_only(remote):
    work = Calls(*failures(100))
    with pytest.raises(Unavailable, match=r"failure 1$"):
        remote.call(work, attempts=1)


@pytest.mark.parametrize("error", [TimedOut("slow"), Rejected("too long")])
def test_permanent_errors_are_raised_without_a_retry(remote, error):
    work = Calls(error)
    with pytest.raises(type(error)):
        remote.call(work)
    assert work.made == 1


def test_the_pause_a_server_asks_for_is_kept(remote, pauses):
    assert remote.call(Calls(Throttled("busy", retry_after_s=3.0))) == "answer"
    assert pauses == [3.0]


def test_a_pause_longer_than_the_maximum_back_off_is_left_to_the_queue(remote, pauses):
    with pytest.raises(Throttled):
        remote.call(Calls(Throttled("busy", retry_after_s=BACKOFF_CAP_S + 1)))
    assert pauses == []


def opened(remote):
    work = Calls(*failures(FAILURES_TO_OPEN, TimedOut))
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(TimedOut):
            remote.call(work)


def test_after_many_consecutive_failures_the_server_is_not_called(remote):
    opened(remote)
    work = Calls()
    with pytest.raises(Unavailable, match=rf"left alone for {OPEN_S:.0f} s.*failure"):
        remote.call(work, attempts=1)
    assert work.made == 0


def test_one_success_in_between_keeps_it_closed(remote):
    for _ in range(5):
        work = Calls(*failures(FAILURES_TO_OPEN - 1, TimedOut))
        for _ in range(FAILURES_TO_OPEN - 1):
            with pytest.raises(TimedOut):
                remote.call(work)
        assert remote.call(work) == "answer"


def test_after_a_while_one_successful_trial_closes_the_breaker(remote, now):
    opened(remote)
    now[0] += OPEN_S
    inner = Calls()

    def trial():
        with pytest.raises(Unavailable, match="left alone"):
            remote.call(inner, attempts=1)
        return "answer"

    assert remote.call(trial) == "answer"
    assert inner.made == 0
    assert remote.call(inner) == "answer"


def test_a_failed_trial_keeps_the_breaker_open(remote, now):
    opened(remote)
    now[0] += OPEN_S
    with pytest.raises(Unavailable, match="again"):
        remote.call(Calls(Unavailable("again")), attempts=1)
    with pytest.raises(Unavailable, match="left alone"):
        remote.call(Calls(), attempts=1)


@pytest.mark.parametrize("error", [Garbled("nonsense"), Rejected("too long")])
def test_errors_about_a_single_text_do_not_open_the_breaker(remote, error):
    for _ in range(3 * FAILURES_TO_OPEN):
        with pytest.raises(type(error)):
            remote.call(Calls(*[error] * ATTEMPTS))
    assert remote.call(Calls()) == "answer"


def test_opening_and_closing_are_logged_once(remote, now):
    with structlog.testing.capture_logs() as logs:
        opened(remote)
        now[0] += OPEN_S
        remote.call(Calls())
    assert [line["event"] for line in logs] == [
        "model_server_unavailable",
        "model_server_available",
    ]


def test_no_more_calls_run_at_once_than_allowed():
    remote = Remote("server", concurrency=3)
    running, most, lock, gate = [0], [0], threading.Lock(), threading.Semaphore(0)

    def work():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        gate.acquire(timeout=10)
        with lock:
            running[0] -= 1

    threads = [threading.Thread(target=remote.call, args=(work,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for _ in threads:
        gate.release()
    for thread in threads:
        thread.join()
    assert 1 <= most[0] <= 3
