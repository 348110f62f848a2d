"""Per-file jobs share calls, and a bad one fails alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from codelode.jobs import Priority
from tests.waiting import wait_until
from workers.delivery.batcher import OVERTAKING, Batcher, made_once


def batcher_of(
    work: Callable[[Sequence[int]], None],
    *,
    max_items: int,
    max_wait_s: float,
    lull_s: float = 60,
    admit: Callable[..., Sequence[bool | Exception]] = lambda items, priority: [True] * len(items),
    expects_more: Callable[[Sequence[int]], bool] = lambda items: False,
    at_once: int = 1,
    **more: Any,
) -> Batcher[int]:
    return Batcher(
        work,
        admit=admit,
        max_items=max_items,
        lull_s=lull_s,
        max_wait_s=max_wait_s,
        expects_more=expects_more,
        at_once=at_once,
        **more,
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


def held(batcher: Batcher[int], begun: threading.Event) -> Future[None]:
    """Keep the batcher busy with item 0 until its work is released."""
    first = batcher.submit(0)
    assert begun.wait(10)
    return first


def test_an_item_larger_than_the_bound_gets_its_own_batch() -> None:
    calls: list[list[int]] = []
    begun, ends = threading.Event(), threading.Event()

    def work(items: Sequence[int]) -> None:
        begun.set()
        assert ends.wait(10)
        calls.append(list(items))

    batcher = batcher_of(work, max_items=9, max_wait_s=0, size=lambda item: item, max_size=10)
    first = held(batcher, begun)
    futures = [first, *map(batcher.submit, (4, 6, 50, 10, 3))]
    ends.set()
    for future in futures:
        future.result(timeout=10)
    assert all(sum(call) - call[-1] < 10 for call in calls)
    assert [item for call in calls for item in call] == [0, 4, 6, 50, 10, 3]


def test_late_items_are_taken_last_and_each_call_is_of_one_group() -> None:
    calls: list[list[int]] = []
    judged: list[tuple[list[int], bool]] = []
    begun, ends = threading.Event(), threading.Event()

    def admit(items: Sequence[int], *, priority: Priority) -> Sequence[bool | Exception]:
        judged.append((list(items), priority.is_late))
        return [True] * len(items)

    def work(items: Sequence[int]) -> None:
        begun.set()
        assert ends.wait(10)
        calls.append(list(items))

    batcher = batcher_of(
        work, admit=admit, max_items=6, max_wait_s=5, group=lambda item: item % 2, lull_s=0.001
    )
    first = held(batcher, begun)
    late = [batcher.submit(item, priority=Priority.LATE) for item in (1, 2, 3)]
    others = [batcher.submit(item) for item in (4, 5, 6)]
    ends.set()
    for future in (first, *late, *others):
        future.result(timeout=10)
    assert calls == [[0], [4, 6], [5], [1, 3], [2]]
    assert judged == [([0], False), ([4, 6], False), ([5], False), ([1, 3], True), ([2], True)]


def test_an_urgent_item_does_not_wait_for_later_items() -> None:
    calls: list[list[int]] = []
    first: list[Future[None]] = []

    def expects_more(items: Sequence[int]) -> bool:
        if not first:
            first.append(batcher.submit(3))
        return 3 not in items

    batcher = batcher_of(
        lambda items: calls.append(list(items)),
        max_items=3,
        max_wait_s=600,
        lull_s=0.01,
        expects_more=expects_more,
    )
    bulk = [batcher.submit(item, priority=Priority.BULK) for item in (1, 2)]
    wait_until(lambda: bool(first) and first[0].done(), "the item")
    assert calls == [[3]]
    assert not any(future.done() for future in bulk)
    bulk.append(batcher.submit(4, priority=Priority.BULK))
    for future in bulk:
        future.result(timeout=10)
    assert calls == [[3], [1, 2, 4]]


def test_an_item_is_overtaken_only_a_limited_number_of_times() -> None:
    calls: list[list[int]] = []
    begun, ends = threading.Event(), threading.Event()

    def work(items: Sequence[int]) -> None:
        begun.set()
        ends.wait(10)
        calls.append(list(items))

    batcher = batcher_of(work, max_items=1, max_wait_s=60)
    first = held(batcher, begun)
    bulk = batcher.submit(-1, priority=Priority.BULK)
    most = OVERTAKING * Priority.BULK
    others = [batcher.submit(number) for number in range(most + 10)]
    ends.set()
    for future in (first, bulk, *others):
        future.result(timeout=60)
    assert calls.index([-1]) == 1 + most  # after the first one and those that overtook it


def test_while_one_batch_is_worked_on_the_next_begins() -> None:
    together = threading.Barrier(2)

    def work(items: Sequence[int]) -> None:
        together.wait(10)

    batcher = batcher_of(work, max_items=1, max_wait_s=60, at_once=2)
    for future in [batcher.submit(number) for number in range(4)]:
        assert future.result(timeout=10) is None


def test_a_single_item_waits_only_briefly_for_others() -> None:
    batcher = batcher_of(lambda items: None, max_items=1000, max_wait_s=600, lull_s=0.01)
    assert batcher.submit(1).result(timeout=10) is None


def test_an_item_waits_no_longer_than_the_maximum_when_there_is_no_lull() -> None:
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


def test_a_batch_does_not_wait_forever_for_expected_items() -> None:
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

    def admit(items: Sequence[int], *, priority: Priority) -> Sequence[bool | Exception]:
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
    def admit(items: Sequence[int], *, priority: Priority) -> Sequence[bool | Exception]:
        raise ConnectionError("away")

    batcher = batcher_of(lambda items: None, admit=admit, max_items=8, max_wait_s=0.01)
    with pytest.raises(ConnectionError):
        batcher.submit(1).result(timeout=10)
    with pytest.raises(ConnectionError):
        batcher.submit(2).result(timeout=10)  # and the thread lives on


def test_batches_are_never_processed_concurrently() -> None:
    running = threading.Lock()

    def work(items: Sequence[int]) -> None:
        assert running.acquire(blocking=False)
        running.release()

    batcher = batcher_of(work, max_items=2, max_wait_s=0)
    for future in [batcher.submit(number) for number in range(50)]:
        future.result(timeout=10)


def test_concurrent_threads_share_one_made_value() -> None:
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
