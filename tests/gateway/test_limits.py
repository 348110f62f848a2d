"""Callers are limited by principal and kind of call, wrong credentials by source address."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from codelode.access import EVERYTHING, Principal, Role
from codelode.backends.memory.call_limits import MemoryCallLimits
from codelode.backends.memory.ledger import MemoryLedger
from codelode.errors import Busy, Unauthenticated
from codelode.ports import CallLimit
from codelode.settings import Settings
from codelode.v1 import (
    access_pb2,
    graph_pb2,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)
from gateway import service
from gateway.access import Access
from gateway.access.attempts import MAX_REMEMBERED, GuardedAccess, network
from gateway.access.identity import Credentials
from gateway.access.shared_token import SharedToken
from gateway.access.visibility import Visibilities
from gateway.access.webhooks import Webhooks
from gateway.app import Gateway
from gateway.service.capabilities import CAPABILITIES, FUNCTIONS, Kind
from gateway.service.limits import Limiter, are_on

CODE = grpc.StatusCode
RIGHT = (("authorization", "Bearer sesame"),)
WRONG = (("authorization", "Bearer wrong"),)


@asynccontextmanager
async def serving(dependencies, tmp_path, **settings):
    """Yield a channel to a gateway that counts calls in memory."""
    chosen = Settings(listen="127.0.0.1:0", data=tmp_path, token="sesame", **settings)
    counts = MemoryCallLimits()
    gateway = Gateway(replace(dependencies, settings=chosen, call_limits=counts))
    await gateway.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel:
            yield channel
    finally:
        await gateway.stop(grace_s=0)


async def code_of(call):
    try:
        await call
    except aio.AioRpcError as error:
        return error.code()
    return CODE.OK


async def test_calls_beyond_the_rate_are_told_when_to_try_again(dependencies, tmp_path):
    limits = {"search_per_minute": 18, "context_per_minute": 12}  # bursts of 3 and 2
    async with serving(dependencies, tmp_path, **limits) as channel:
        stub, index = search_pb2_grpc.SearchServiceStub(channel), index_pb2_grpc.IndexServiceStub
        asked = search_pb2.SearchRequest(query="load")
        codes = [await code_of(stub.Search(asked, metadata=RIGHT)) for _ in range(5)]
        assert codes == [CODE.OK] * 3 + [CODE.RESOURCE_EXHAUSTED] * 2

        message = "token has reached its limit of 18 search"
        with pytest.raises(aio.AioRpcError, match=message) as refusal:
            await index(channel).GetStatus(index_pb2.GetStatusRequest(), metadata=RIGHT)
        (detail,) = rpc_status.from_call(refusal.value).details
        retry = error_details_pb2.RetryInfo()
        assert detail.Unpack(retry)
        assert 0 < retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9 <= 60 / 18

        context = search_pb2.ContextRequest(search=asked)
        codes = [await code_of(stub.Context(context, metadata=RIGHT)) for _ in range(3)]
        assert codes == [CODE.OK] * 2 + [CODE.RESOURCE_EXHAUSTED]


async def test_concurrent_calls_beyond_the_limit_are_refused_until_one_has_ended(
    dependencies, ledger, tmp_path
):
    ledger.answers.clear()
    async with serving(dependencies, tmp_path, search_at_once=2) as channel:
        stub = index_pb2_grpc.IndexServiceStub(channel)

        def asked():
            return code_of(
                stub.ListRepositories(index_pb2.ListRepositoriesRequest(), metadata=RIGHT)
            )

        calls = {asyncio.create_task(asked()) for _ in range(3)}
        done, working = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result() for one in done] == [CODE.RESOURCE_EXHAUSTED]
        ledger.answers.set()
        assert {await one for one in working} == {CODE.OK}
        while await asked() is not CODE.OK:  # a call stops counting shortly after its answer
            await asyncio.sleep(0)


async def test_a_call_that_is_cancelled_while_it_is_counted_stops_counting():
    class Slow(MemoryCallLimits):
        async def take(self, name, call, limit):
            found = await super().take(name, call, limit)
            await answered.wait()
            return found

    answered, counts, one = asyncio.Event(), Slow(), CallLimit(at_once=1)
    limiter = Limiter(counts, dict.fromkeys(Kind, one))
    principal = Principal("ann", Role.READER, EVERYTHING)

    async def call():
        async with limiter.admitted(principal, "search"):
            pass

    calling = asyncio.create_task(call())
    while not counts._calls:
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    answered.set()
    await asyncio.gather(*limiter._releasing)
    await call()


async def test_wrong_credentials_are_limited_and_right_ones_are_not(dependencies, tmp_path):
    async with serving(dependencies, tmp_path, wrong_credentials_per_minute=18) as channel:
        stub = search_pb2_grpc.SearchServiceStub(channel)

        def asked(metadata):
            return code_of(stub.Search(search_pb2.SearchRequest(query="load"), metadata=metadata))

        assert await asked(RIGHT) is CODE.OK
        codes = [await asked(WRONG) for _ in range(6)]
        assert codes == [CODE.UNAUTHENTICATED] * 4 + [CODE.RESOURCE_EXHAUSTED] * 2
        assert await asked(RIGHT) is CODE.OK  # another caller behind the same address
        assert await asked(()) is CODE.UNAUTHENTICATED


async def test_calls_without_credentials_are_limited_without_blocking_others(
    dependencies, tmp_path
):
    async with serving(dependencies, tmp_path, wrong_credentials_per_minute=18) as channel:
        stub = search_pb2_grpc.SearchServiceStub(channel)

        def asked(metadata):
            return code_of(stub.Search(search_pb2.SearchRequest(query="load"), metadata=metadata))

        codes = [await asked(()) for _ in range(6)]
        assert codes == [CODE.UNAUTHENTICATED] * 4 + [CODE.RESOURCE_EXHAUSTED] * 2
        assert await asked(WRONG) is CODE.UNAUTHENTICATED
        assert await asked(RIGHT) is CODE.OK


def guarded(*, burst):
    return GuardedAccess(
        Access([SharedToken("sesame"), Webhooks()], Visibilities(MemoryLedger())),
        MemoryCallLimits(),
        CallLimit(per_minute=1, burst=burst),
    )


async def test_unsigned_webhooks_block_neither_other_calls_nor_signed_ones():
    access = guarded(burst=3)

    async def outcome(credentials):
        try:
            return (await access.principal(credentials, source="10.0.0.1")).name
        except (Unauthenticated, Busy) as exc:
            return type(exc)

    unsigned = [await outcome(Credentials(webhook="")) for _ in range(6)]
    assert unsigned == [Unauthenticated] * 4 + [Busy] * 2
    assert await outcome(Credentials("Bearer wrong")) is Unauthenticated
    assert await outcome(Credentials("Bearer sesame")) == "token"
    assert await outcome(Credentials(webhook="webhook:work")) == "webhook:work"


async def test_wrong_credentials_do_not_block_signed_webhooks():
    access = guarded(burst=1)
    for number in range(4):
        with pytest.raises((Unauthenticated, Busy)):
            await access.principal(Credentials(f"Bearer {number}"), source="10.0.0.1")
    found = await access.principal(Credentials(webhook="webhook:work"), source="10.0.0.1")
    assert found.name == "webhook:work"


async def test_many_wrong_credentials_take_bounded_memory():
    access = guarded(burst=1)

    async def tried(number):
        wrong = Credentials(f"Bearer {number}")
        with pytest.raises((Unauthenticated, Busy)):
            await access.principal(
                wrong, source=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            )

    for number in range(MAX_REMEMBERED + 50):
        await tried(number)
        await tried(number)
    assert len(access._blocked_until) <= MAX_REMEMBERED
    assert not access._accepted


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("unix", "unix"),
    ],
)
def test_wrong_credentials_are_counted_by_address_or_ipv6_network(source, expected):
    assert network(source) == expected


@pytest.mark.parametrize(
    ("chosen", "listen", "expected"),
    [
        ("auto", "127.0.0.1:50051", False),
        ("auto", "[::1]:50051", False),
        ("auto", "unix:/run/x.sock", False),
        ("auto", "0.0.0.0:50051", True),
        ("on", "127.0.0.1:50051", True),
        ("off", "0.0.0.0:50051", False),
    ],
)
def test_a_gateway_on_loopback_limits_nothing_unless_asked_to(chosen, listen, expected):
    assert are_on(Settings(limits=chosen, listen=listen)) is expected


@pytest.mark.parametrize(
    ("listen_mtls", "expected"), [("0.0.0.0:50053", True), ("127.0.0.1:50053", False)]
)
def test_the_address_for_client_certificates_also_decides_about_limits(listen_mtls, expected):
    assert are_on(Settings(listen="127.0.0.1:50051", listen_mtls=listen_mtls)) is expected


async def test_principals_do_not_use_up_each_others_limit():
    limiter = Limiter(MemoryCallLimits(), dict.fromkeys(Kind, CallLimit(per_minute=1, burst=1)))
    for name in ("ann", "ben"):
        who = Principal(name, Role.READER, EVERYTHING)
        async with limiter.admitted(who, "search"):
            pass
        async with limiter.admitted(who, "context"):
            pass
        with pytest.raises(Busy, match=f"{name} has reached its limit of 1 search calls"):
            async with limiter.admitted(who, "search"):
                pass


def test_every_service_function_has_a_kind_of_limit():
    functions = {name for name in service.__all__ if inspect.isroutine(getattr(service, name))}
    assert set(CAPABILITIES) == functions


def test_every_method_names_its_service_function():
    methods = {
        method.name
        for file in (search_pb2, index_pb2, graph_pb2, access_pb2)
        for found in file.DESCRIPTOR.services_by_name.values()
        for method in found.methods
    }
    assert set(FUNCTIONS) == methods
