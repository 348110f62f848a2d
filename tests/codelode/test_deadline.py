"""Work in threads ends when the call that asked for it is over."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from codelode import deadline
from codelode.errors import TimedOut


def test_outside_of_a_call_work_never_times_out():
    deadline.check()


def test_work_ends_after_the_deadline():
    with deadline.calling(60):
        deadline.check()
    with deadline.calling(0), pytest.raises(TimedOut, match="allow more time"):
        deadline.check()


def test_without_a_deadline_work_ends_with_its_call():
    with deadline.calling(None):
        deadline.check()
        context = contextvars.copy_context()  # as that of a thread
    deadline.check()
    with pytest.raises(TimedOut):
        context.run(deadline.check)


async def test_a_thread_of_a_cancelled_call_ends(wait_for):
    ended = []

    def work():
        try:
            wait_for(deadline.check, "never: `check` returns None")
        except TimedOut:
            ended.append(True)

    async def call():
        with deadline.calling(None):
            await asyncio.to_thread(work)

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await asyncio.to_thread(wait_for, lambda: ended, "the thread to end")


def test_a_lock_is_waited_for_until_the_deadline():
    lock = threading.Lock()
    with deadline.calling(60), deadline.holding(lock):
        with deadline.calling(0.01), pytest.raises(TimedOut), deadline.holding(lock):
            pass
        assert lock.locked()
    with deadline.holding(lock):
        assert lock.locked()
    assert not lock.locked()
