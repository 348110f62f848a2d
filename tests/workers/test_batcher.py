"""Per-file jobs share calls, and a bad one fails alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from workers.delivery.batcher import Batcher, made_once


def batcher_of(
    work: Callable[[Sequence[int]], None],
    *,
    max_items: int,
    max_wait_s: float,
    lull_s: float = 60,
    admit: Callable[[Sequence[int]], Sequence[bool | Exception]] = lambda items: (
        [True] * len(items)
    ),
    expects_more: Callable[[Sequence[int]], bool] = lambda items: False,
    at_once: int = 1,
) -> Batcher[int]:
    return Batcher(
        work,
        admit=admit,
        max_items=max_items,
        lull_s=lull_s,
        max_wait_s=max_wait_s,
        expects_more=expects_more,
        at_once=at_once,
    )


def test_items_submitted_together_share_a_call() -> None:
    calls: list[list[int]] = []
    batcher = batcher_of(lambda items: calls.append(list(items)), max_items=10, max_wait_s=5)
    futures = [batcher.submit(number) for number in range(10)]
    for future in futures:
        future.result(timeout=10)
    assert [number for call in calls for number in call] == list(range(10))
    assert len(calls) <= 2  # the first may have gone alone


def test_a_batch_never_exceeds_its_bound() -> None:
    sizes: list[int] = []
    batcher = batcher_of(lambda items: sizes.append(len(items)), max_items=3, max_wait_s=0.01)
    futures = [batcher.submit(number) for number in range(20)]
    for future in futures:
        future.result(timeout=10)
    assert max(sizes) <= 3
    assert sum(sizes) == 20


def test_while_one_batch_is_worked_on_the_next_begins() -> None:
    together = threading.Barrier(2)

    def work(items: Sequence[int]) -> None:
        together.wait(10)

    batcher = batcher_of(work, max_items=1, max_wait_s=60, at_once=2)
    for future in [batcher.submit(number) for number in range(4)]:
        assert future.result(timeout=10) is None


def test_a_lone_item_does_not_wait_for_company_for_long() -> None:
    batcher = batcher_of(lambda items: None, max_items=1000, max_wait_s=600, lull_s=0.01)
    assert batcher.submit(1).result(timeout=10) is None


def test_a_stream_without_a_lull_does_not_keep_its_first_item_for_ever() -> None:
    batcher = batcher_of(lambda items: None, max_items=1000, max_wait_s=0.01, lull_s=600)
    assert batcher.submit(1).result(timeout=10) is None


def test_a_lull_does_not_end_a_batch_while_more_is_expected() -> None:
    calls: list[list[int]] = []
    second: list[Future[None]] = []

    def expects_more(items: Sequence[int]) -> bool:
        if list(items) == [1]:
            second.append(batcher.submit(2))
        return len(items) < 2

    batcher = batcher_of(
        lambda items: calls.append(list(items)),
        max_items=1000,
        max_wait_s=600,
        lull_s=0.01,
        expects_more=expects_more,
    )
    batcher.submit(1).result(timeout=10)
    second[0].result(timeout=10)
    assert calls == [[1, 2]]


def test_what_was_expected_and_does_not_come_is_not_waited_for_for_ever() -> None:
    batcher = batcher_of(
        lambda items: None,
        max_items=1000,
        max_wait_s=0.05,
        lull_s=0.01,
        expects_more=lambda items: True,
    )
    assert batcher.submit(1).result(timeout=10) is None


def test_a_bad_item_fails_alone() -> None:
    done: list[int] = []

    def work(items: Sequence[int]) -> None:
        if 13 in items:
            raise ValueError("unlucky")
        done.extend(items)

    batcher = batcher_of(work, max_items=8, max_wait_s=0.5)
    futures = {number: batcher.submit(number) for number in (1, 13, 2, 3)}
    with pytest.raises(ValueError, match="unlucky"):
        futures[13].result(timeout=10)
    for number in (1, 2, 3):
        futures[number].result(timeout=10)
    assert sorted(done) == [1, 2, 3]


def test_only_admitted_items_are_worked_on_and_each_is_judged_once() -> None:
    done: list[int] = []
    judged: list[int] = []
    verdicts: dict[int, bool | Exception] = {1: True, 2: False, 3: ValueError("gone"), 4: True}

    def admit(items: Sequence[int]) -> Sequence[bool | Exception]:
        judged.extend(items)
        return [verdicts[item] for item in items]

    def work(items: Sequence[int]) -> None:
        if 4 in items:
            raise KeyError(4)
        done.extend(items)

    batcher = batcher_of(work, admit=admit, max_items=8, max_wait_s=0.5)
    futures = {number: batcher.submit(number) for number in verdicts}

    futures[1].result(timeout=10)
    assert futures[2].result(timeout=10) is None
    with pytest.raises(ValueError, match="gone"):
        futures[3].result(timeout=10)
    with pytest.raises(KeyError):
        futures[4].result(timeout=10)
    assert done == [1]
    assert sorted(judged) == [1, 2, 3, 4]


def test_when_nothing_can_be_judged_all_items_fail() -> None:
    def admit(items: Sequence[int]) -> Sequence[bool | Exception]:
        raise ConnectionError("away")

    batcher = batcher_of(lambda items: None, admit=admit, max_items=8, max_wait_s=0.01)
    with pytest.raises(ConnectionError):
        batcher.submit(1).result(timeout=10)
    with pytest.raises(ConnectionError):
        batcher.submit(2).result(timeout=10)  # and the thread lives on


def test_work_never_runs_twice_at_a_time() -> None:
    running = threading.Lock()

    def work(items: Sequence[int]) -> None:
        assert running.acquire(blocking=False)
        running.release()

    batcher = batcher_of(work, max_items=2, max_wait_s=0)
    for future in [batcher.submit(number) for number in range(50)]:
        future.result(timeout=10)


def test_what_is_made_once_is_made_once_for_threads_that_ask_at_the_same_time() -> None:
    all_ask = threading.Barrier(8)
    made: list[object] = []

    @made_once
    def make() -> object:
        made.append(object())
        return made[-1]

    def ask() -> object:
        all_ask.wait(timeout=10)
        return make()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ask(), range(8)))
    assert found == made * 8
