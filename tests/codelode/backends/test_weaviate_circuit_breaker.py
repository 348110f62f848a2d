"""How long a search waits for a server, with servers that are functions."""

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


async def test_an_answer_asks_nobody_whether_the_server_is_there():
    assert await CircuitBreaker(gone)(answer()) == "answer"


async def test_an_error_of_the_library_becomes_ours():
    async def broken():
        raise httpx.ReadTimeout("slow")

    with pytest.raises(TimedOut):
        await CircuitBreaker(there)(broken())


async def test_our_own_errors_pass():
    async def corrupt():
        raise Corrupt("removed")

    with pytest.raises(Corrupt, match="removed"):
        await CircuitBreaker(there)(corrupt())


async def test_a_slow_server_that_is_there_may_take_its_time():
    async def slow():
        await asyncio.sleep(0.15)
        return "late"

    assert await CircuitBreaker(there)(slow()) == "late"


async def test_not_for_ever():
    with pytest.raises(TimedOut, match="did not answer within"):
        await CircuitBreaker(there)(hang())


@pytest.mark.parametrize("probe", [gone, hang])
async def test_without_a_server_the_call_ends_and_nobody_asks_for_a_while(probe):
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


async def test_who_gives_up_takes_the_call_along():
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
