"""Who writes to the chunk store when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from tests.waiting import wait_until
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
    turns, names = Turns(3), ("first", "alone", "late")
    inside = {name: threading.Event() for name in names}
    leave = {name: threading.Event() for name in names}

    def enter(name: str, turn: Callable[[], AbstractContextManager[None]]) -> None:
        with turn():
            inside[name].set()
            leave[name].wait(LONG_S)

    with ThreadPoolExecutor(3) as pool:
        pool.submit(enter, "first", turns.one)
        assert inside["first"].wait(LONG_S)
        pool.submit(enter, "alone", turns.alone)
        wait_until(turns._entering.locked, "one to wait until it is alone", seconds=LONG_S)
        pool.submit(enter, "late", turns.one)
        assert not inside["late"].wait(SOON_S)
        assert not inside["alone"].is_set()
        leave["first"].set()
        assert inside["alone"].wait(LONG_S)
        assert not inside["late"].wait(SOON_S)
        leave["alone"].set()
        assert inside["late"].wait(LONG_S)
        leave["late"].set()


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
