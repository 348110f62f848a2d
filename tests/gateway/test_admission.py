"""Calls wait for their turn, and those that could not finish in time are refused at once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest
from google.rpc import error_details_pb2

from codelode.errors import Busy
from gateway.admission import MAX_RETRY_S, MIN_RETRY_S, MOST_PAUSE_S, Admission
from gateway.api.rpc import status

#: Exceptions of a call that ends without a turn.
OVER = (Busy, asyncio.CancelledError)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def admission(clock):
    """An admission of two running and three waiting calls."""
    return Admission(running=2, waiting=3, quiet_s=0, clock=clock)


async def slow(admission, clock, *, seconds=1.0, times=60):
    """Run calls one after the other, each of which takes `seconds`."""
    for _ in range(times):
        async with admission.admitted(None):
            clock.now += seconds


class Caller:
    """A call that works until it is released."""

    def __init__(self, admission, remaining_s=None):
        self._release = asyncio.Event()
        self._admission = admission
        self.is_working = False
        self.task = asyncio.create_task(self._call(remaining_s))

    async def _call(self, remaining_s):
        async with self._admission.admitted(remaining_s):
            self.is_working = True
            await self._release.wait()

    async def finish(self):
        self._release.set()
        await self.task
        await settled()


async def settled():
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def callers(admission, *deadlines):
    made = [Caller(admission, remaining_s) for remaining_s in deadlines]
    await settled()
    return made


def working(made):
    return [caller.is_working for caller in made]


async def test_calls_beyond_the_limit_wait_and_run_in_order(admission):
    made = await callers(admission, *[None] * 5)
    assert working(made) == [True, True, False, False, False]

    await made[1].finish()
    assert working(made) == [True, True, True, False, False]
    for number in (0, 2, 3, 4):
        await made[number].finish()
    assert all(working(made))


async def test_a_call_that_would_wait_beyond_its_deadline_is_refused_at_once(admission, clock):
    await slow(admission, clock)
    made = await callers(admission, None, None)

    with pytest.raises(Busy, match="try again in") as refused:
        async with admission.admitted(1.0):
            raise AssertionError
    assert refused.value.retry_s >= 1.0

    patient = (await callers(admission, 60.0))[0]
    await made[0].finish()
    assert patient.is_working
    for caller in (made[1], patient):
        await caller.finish()


async def refusals(admission, count):
    """Return the retry delays of so many refused calls, in seconds."""
    delays = []
    for _ in range(count):
        with pytest.raises(Busy) as refused:
            async with admission.admitted(0.1):
                raise AssertionError
        delays.append(refused.value.retry_s)
    return delays


async def test_retry_delays_grow_at_the_rate_at_which_calls_are_answered(admission, clock):
    await slow(admission, clock)
    made = await callers(admission, None, None)

    delays = await refusals(admission, 20)

    between = [later - earlier for earlier, later in pairwise(delays)]
    assert between == pytest.approx([0.5] * 19, rel=0.01)  # two at once, 1 second each
    clock.now += delays[-1]
    assert await refusals(admission, 1) == pytest.approx([delays[0]], rel=0.01)
    for caller in made:
        await caller.finish()


async def test_retry_delays_are_bounded_however_many_calls_are_refused(admission, clock):
    await slow(admission, clock)
    made = await callers(admission, None, None)

    assert max(await refusals(admission, 500)) == MAX_RETRY_S
    for caller in made:
        await caller.finish()


async def test_a_full_queue_refuses_callers_without_a_deadline(admission):
    made = await callers(admission, *[None] * 5)

    with pytest.raises(Busy) as refused:
        async with admission.admitted(None):
            raise AssertionError
    assert refused.value.retry_s >= MIN_RETRY_S
    for caller in made:
        await caller.finish()


async def test_a_waiting_call_that_cannot_finish_in_time_is_refused_when_its_turn_comes(
    admission, clock
):
    made = await callers(admission, None, None, 5.0, 90.0)
    clock.now += 40.0

    await made[0].finish()

    assert isinstance(made[2].task.exception(), Busy)
    assert working(made) == [True, True, False, True]
    for number in (1, 3):
        await made[number].finish()


async def test_a_cancelled_call_frees_its_turn(admission):
    made = await callers(admission, *[None] * 5)

    for number in (0, 2):
        made[number].task.cancel()
    await settled()
    assert working(made) == [True, True, False, True, False]

    for number in (1, 3, 4):
        await made[number].finish()
    async with AsyncExitStack() as both:
        await both.enter_async_context(admission.admitted(0.0))
        await both.enter_async_context(admission.admitted(0.0))


async def test_a_call_cancelled_when_its_turn_comes_passes_the_turn_on(admission):
    made = await callers(admission, *[None] * 4)

    made[0].task.cancel()
    await asyncio.sleep(0)  # its turn goes to the third, which has not woken up yet
    made[2].task.cancel()
    await settled()

    assert working(made)[3]
    for number in (1, 3):
        await made[number].finish()


@pytest.mark.parametrize("loop_turns", range(6))
async def test_a_call_cancelled_while_it_is_refused_frees_no_turn(admission, clock, loop_turns):
    made = await callers(admission, None, None, 5.0)
    clock.now += 40.0

    made[0].task.cancel()
    for _ in range(loop_turns):
        await asyncio.sleep(0)
    made[2].task.cancel()
    await settled()

    later = await callers(admission, None, None)
    assert working([made[1], *later]) == [True, True, False]
    for caller in (made[1], *later):
        await caller.finish()
    assert isinstance((await asyncio.gather(made[2].task, return_exceptions=True))[0], OVER)


async def arriving(admission, is_over):
    """Let a call arrive in each iteration of the event loop."""
    while not is_over():
        admission.require_room(None)
        await asyncio.sleep(0)


async def test_calls_that_have_arrived_are_accepted_before_a_waiting_call_begins(admission):
    made = await callers(admission, None, None, None)
    is_quiet = asyncio.Event()
    arrivals = asyncio.create_task(arriving(admission, is_quiet.is_set))

    await made[0].finish()
    await settled()
    assert not made[2].is_working
    is_quiet.set()
    await settled()
    assert made[2].is_working

    await arrivals
    for caller in made[1:]:
        await caller.finish()


async def test_waiting_calls_begin_after_a_while_even_if_calls_keep_arriving(admission, clock):
    made = await callers(admission, None, None, None)
    arrivals = asyncio.create_task(arriving(admission, lambda: made[2].is_working))

    await made[0].finish()
    clock.now += MOST_PAUSE_S
    await arrivals

    for caller in made[1:]:
        await caller.finish()


async def test_the_newest_waiting_calls_are_refused_if_calls_take_longer_than_before(
    admission, clock
):
    made = await callers(admission, None, None, 1_000.0, 1_000.0, 112.0)
    clock.now += 100.0

    await made[0].finish()  # from now on a call is expected to take 10 s

    assert working(made) == [True, True, True, False, False]
    assert isinstance(made[4].task.exception(), Busy)
    for caller in made[1:4]:
        await caller.finish()


def test_a_refusal_contains_the_retry_delay():
    sent = status.to_proto(Busy("full", retry_s=2.5), request_id="1")

    retry = error_details_pb2.RetryInfo()
    assert sent.details[0].Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == 2_500
    assert not status.to_proto(Busy("Redis is full"), request_id="1").details
