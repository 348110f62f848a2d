"""Writers and an exchange of the index exclude each other, whoever dies."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import count
from types import SimpleNamespace

import pytest

from codelode.backends.redis import exchange as module
from codelode.backends.redis.exchange import RedisExchange
from codelode.backends.redis.ledger import RedisLedger
from codelode.errors import Busy, Unavailable
from codelode.model import RefName, RepositoryName

PLACE = RepositoryName("acme/app"), RefName("main")


@pytest.fixture
def exchange(redis):
    RedisLedger(redis, worker_ttl_s=60).heartbeat("alive")
    return RedisExchange(redis)


def test_nobody_begins_to_write_during_an_exchange(exchange):
    with (
        exchange.alone(),
        pytest.raises(Unavailable, match="being exchanged"),
        exchange.writing("alive", wait_s=0),
    ):
        pass
    with exchange.writing("alive"), exchange.writing("alive"):
        pass


def test_a_writer_waits_however_long_an_exchange_takes(exchange, monkeypatch, wait_for):
    hours, looks, order = count(step=3_600), [], []

    def monotonic():
        looks.append(threading.current_thread())
        return next(hours)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))

    def write():
        with exchange.writing("alive"):
            order.append("write")

    with exchange.alone():
        thread = threading.Thread(target=write)
        thread.start()
        wait_for(lambda: looks.count(thread) > 3 or not thread.is_alive(), "some looks")
        assert thread.is_alive()
        order.append("exchange")
    thread.join()
    assert order == ["exchange", "write"]


def test_an_exchange_waits_for_those_that_write(exchange):
    order, is_waiting = [], threading.Event()

    def swap():
        is_waiting.set()
        with exchange.alone():
            order.append("exchange")

    with exchange.writing("alive"):
        thread = threading.Thread(target=swap)
        thread.start()
        is_waiting.wait()
        with (
            pytest.raises(Unavailable, match="end"),
            RedisExchange(exchange._client).alone(wait_s=0),
        ):
            order.append("too early")
        order.append("write")
    thread.join()
    assert order == ["write", "exchange"]


def test_a_writer_that_died_is_not_waited_for(exchange):
    writing = exchange.writing("dead")
    writing.__enter__()
    with exchange.alone(wait_s=0):
        pass


def test_one_rebuild_runs_at_a_time(exchange):
    other = RedisExchange(exchange._client)
    with (
        exchange.running(),
        pytest.raises(Busy, match="a rebuild is running already, process"),
        other.running(),
    ):
        pass
    with other.running() as hold:
        hold.check()


def test_a_killed_rebuild_is_in_nobodys_way(exchange, redis_url):
    script = f"""
import os, signal
from codelode.backends.redis.connection import connect
from codelode.backends.redis.exchange import RedisExchange
with RedisExchange(connect({redis_url!r})).running():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    with exchange.running():
        pass


def test_a_hold_that_was_lost_says_so(exchange, redis):
    with exchange.running() as hold:
        redis.delete("codelode:reindex:running")
        with pytest.raises(Unavailable, match="lost its hold"):
            hold.check()


def test_a_hold_is_kept_for_as_long_as_it_takes(exchange, redis, monkeypatch):
    monkeypatch.setattr(module, "LIFE_S", 0.3)
    pause = threading.Event()
    with exchange.running() as hold:
        pause.wait(1.0)  # three lives
        hold.check()


def test_what_is_built_is_remembered_until_it_is_forgotten(exchange):
    exchange.begin({"name": "new"})
    exchange.note(PLACE, {"a.py": "1", "b.py": "2"})
    exchange.note(PLACE, {"a.py": "3"}, gone=("b.py",))
    again = RedisExchange(exchange._client)
    assert again.target() == {"name": "new"}
    assert again.places() == {PLACE}
    assert again.built(PLACE) == {"a.py": "3"}

    again.begin({"name": "other"})
    assert (again.places(), again.built(PLACE)) == (set(), {})
    again.forget()
    assert exchange.target() == {}


def test_what_the_workers_run_with_is_known(exchange):
    assert exchange.facts() == {}
    exchange.announce({"store": "local"})
    assert exchange.facts() == {"store": "local"}
