"""Who writes to the chunk store when."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from workers.turns import Turns

SOON_S, LONG_S = 0.05, 10


def test_several_are_there_together_and_no_more() -> None:
    turns, there = Turns(2), threading.Barrier(3)
    third = threading.Event()

    def enter() -> None:
        with turns.one():
            there.wait(LONG_S)
            there.wait(LONG_S)

    def enter_third() -> None:
        with turns.one():
            third.set()

    with ThreadPoolExecutor(3) as pool:
        first = [pool.submit(enter) for _ in range(2)]
        there.wait(LONG_S)
        pool.submit(enter_third)
        assert not third.wait(SOON_S)
        there.wait(LONG_S)
        for one in first:
            one.result(LONG_S)
        assert third.wait(LONG_S)


def test_who_is_alone_waits_for_the_others_and_they_for_it() -> None:
    turns, leave = Turns(2), threading.Event()
    entered: list[str] = []
    inside = threading.Event()

    def enter_first() -> None:
        with turns.one():
            inside.set()
            leave.wait(LONG_S)
            entered.append("first")

    def enter_alone() -> None:
        with turns.alone():
            entered.append("alone")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(enter_first)
        assert inside.wait(LONG_S)
        alone = pool.submit(enter_alone)
        assert not entered
        leave.set()
        first.result(LONG_S)
        alone.result(LONG_S)
    assert entered == ["first", "alone"]


def test_an_error_inside_ends_the_turn() -> None:
    turns = Turns(2)
    for enter in (turns.one, turns.alone):
        try:
            with enter():
                raise RuntimeError
        except RuntimeError:
            pass
    with turns.alone():
        pass
