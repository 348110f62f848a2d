"""Writers and a swap of the index exclude each other, even if a process dies."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import count
from types import SimpleNamespace

import pytest

from codelode.backends.redis import index_swap as module
from codelode.backends.redis.connection import connect
from codelode.backends.redis.index_swap import RedisIndexSwap
from codelode.backends.redis.ledger import RedisLedger
from codelode.errors import Busy, Unavailable
from codelode.model import RefName, RepositoryName

MAIN_REF = RepositoryName("acme/app"), RefName("main")


@pytest.fixture
def swap(redis):
    RedisLedger(redis, worker_ttl_s=60).heartbeat("alive")
    return RedisIndexSwap(redis)


def test_no_writer_begins_during_a_swap(swap):
    with (
        swap.alone(),
        pytest.raises(Unavailable, match="being swapped"),
        swap.writing("alive", wait_s=0),
    ):
        pass
    with swap.writing("alive"), swap.writing("alive"):
        pass


def test_a_writer_waits_until_a_swap_ends(swap, monkeypatch, wait_for):
    hours, looks, order = count(step=3_600), [], []

    def monotonic():
        looks.append(threading.current_thread())
        return next(hours)

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))

    def write():
        with swap.writing("alive"):
            order.append("write")

    with swap.alone():
        thread = threading.Thread(target=write)
        thread.start()
        wait_for(lambda: looks.count(thread) > 3 or not thread.is_alive(), "some looks")
        assert thread.is_alive()
        order.append("swap")
    thread.join()
    assert order == ["swap", "write"]


def test_a_swap_waits_for_writers(swap):
    order, is_waiting = [], threading.Event()

    def wait_and_swap():
        is_waiting.set()
        with swap.alone():
            order.append("swap")

    with swap.writing("alive"):
        thread = threading.Thread(target=wait_and_swap)
        thread.start()
        is_waiting.wait()
        with (
            pytest.raises(Unavailable, match="not finish"),
            RedisIndexSwap(swap._client).alone(wait_s=0),
        ):
            order.append("too early")
        order.append("write")
    thread.join()
    assert order == ["write", "swap"]


def test_a_writer_that_died_is_not_waited_for(swap):
    writing = swap.writing("dead")
    writing.__enter__()
    with swap.alone(wait_s=0):
        pass


def test_a_swap_does_not_wait_for_a_write_whose_end_redis_missed(
    swap, redis, redis_admin, redis_url, wait_for
):
    with connect(redis_url, timeout_s=0.1) as impatient:
        with RedisIndexSwap(impatient).writing("alive"):
            redis_admin.client_pause(60_000, all=False)
        redis_admin.client_unpause()
        wait_for(lambda: not redis.hlen("codelode:reindex:writers"), "the end of the write")
    with swap.alone(wait_s=0):
        pass


def test_one_rebuild_runs_at_a_time(swap):
    other = RedisIndexSwap(swap._client)
    with (
        swap.running(),
        pytest.raises(Busy, match="a rebuild is running already, process"),
        other.running(),
    ):
        pass
    with other.running() as hold:
        hold.check()


def test_a_killed_rebuild_does_not_block_the_next_one(swap, redis_url):
    script = f"""
import os, signal
from codelode.backends.redis.connection import connect
from codelode.backends.redis.index_swap import RedisIndexSwap
with RedisIndexSwap(connect({redis_url!r})).running():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    with swap.running():
        pass


def test_a_lost_hold_raises_unavailable(swap, redis):
    with swap.running() as hold:
        redis.delete("codelode:reindex:running")
        with pytest.raises(Unavailable, match="lost its lock"):
            hold.check()


def test_a_hold_is_renewed_until_the_work_ends(swap, redis, monkeypatch):
    monkeypatch.setattr(module, "LIFE_S", 0.3)
    pause = threading.Event()
    with swap.running() as hold:
        pause.wait(1.0)  # three lives
        hold.check()


def test_the_state_of_a_rebuild_is_kept_until_it_is_forgotten(swap):
    swap.begin({"name": "new"})
    swap.note(MAIN_REF, {"a.py": "1", "b.py": "2"})
    swap.note(MAIN_REF, {"a.py": "3"}, gone=("b.py",))
    again = RedisIndexSwap(swap._client)
    assert again.target() == {"name": "new"}
    assert again.refs() == {MAIN_REF}
    assert again.built(MAIN_REF) == {"a.py": "3"}

    again.begin({"name": "other"})
    assert (again.refs(), again.built(MAIN_REF)) == (set(), {})
    again.forget()
    assert swap.target() == {}


def test_the_announced_settings_of_workers_are_known(swap):
    assert swap.facts() == {}
    swap.announce({"store": "local"})
    assert swap.facts() == {"store": "local"}
