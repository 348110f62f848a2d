"""The time that a search waits for the server, with functions as servers."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from codelode.backends.weaviate import circuit_breaker
from codelode.backends.weaviate.circuit_breaker import OPEN_S, CircuitBreaker
from codelode.errors import Corrupt, TimedOut, Unavailable


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(circuit_breaker, "GRACE_S", 0.05)
    monkeypatch.setattr(circuit_breaker, "PROBE_S", 0.05)
    monkeypatch.setattr(circuit_breaker, "MAX_WAIT_S", 0.3)


async def answer():
    return "answer"


async def hang():
    await asyncio.Event().wait()


async def there():
    return None


async def gone():
    raise httpx.ConnectError("refused")


async def test_a_fast_answer_causes_no_probe():
    assert await CircuitBreaker(gone)(answer()) == "answer"


async def test_an_exception_of_the_library_is_translated():
    async def broken():
        raise httpx.ReadTimeout("slow")

    with pytest.raises(TimedOut):
        await CircuitBreaker(there)(broken())


async def test_our_own_errors_are_not_translated():
    async def corrupt():
        raise Corrupt("removed")

    with pytest.raises(Corrupt, match="removed"):
        await CircuitBreaker(there)(corrupt())


async def test_a_slow_server_that_answers_the_probe_is_waited_for():
    async def slow():
        await asyncio.sleep(0.15)
        return "late"

    assert await CircuitBreaker(there)(slow()) == "late"


async def test_a_server_that_answers_only_probes_is_given_up():
    with pytest.raises(TimedOut, match="did not answer within"):
        await CircuitBreaker(there)(hang())


@pytest.mark.parametrize("probe", [gone, hang])
async def test_without_a_server_the_call_fails_and_the_circuit_opens(probe):
    now = [0.0]
    patient = CircuitBreaker(probe, clock=lambda: now[0])
    with pytest.raises(Unavailable):
        await patient(hang())

    asked = []

    async def ask():
        asked.append(True)

    with pytest.raises(Unavailable):
        await patient(ask())
    assert not asked
    now[0] = OPEN_S
    await patient(ask())
    assert asked


async def test_cancelling_cancels_the_call():
    ended = asyncio.Event()

    async def call():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(CircuitBreaker(there)(call()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait_for(ended.wait(), 1)
    with pytest.raises(asyncio.CancelledError):
        await waiting
