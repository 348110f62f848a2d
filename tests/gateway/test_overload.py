"""A gateway at its limit refuses calls before it does any work for them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import islice

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from codelode.v1 import index_pb2, index_pb2_grpc
from gateway.access import Access
from gateway.access.attempts import GuardedAccess
from gateway.access.shared_token import SharedToken
from gateway.access.visibility import Visibilities
from gateway.access.webhooks import WebhookConnections
from gateway.admission import Admission
from gateway.api.rest.calls import Face, Faced
from gateway.api.rpc.interceptors import Interceptor
from gateway.api.rpc.services import IndexService
from gateway.api.web.app import application
from gateway.calls import Calls
from gateway.highlighting import Highlighter
from gateway.service import limits

RUNNING, WAITING, CALLERS = 2, 8, 200


class CountedToken(SharedToken):
    """Counts the calls whose credentials it checks."""

    checked = 0

    async def identity(self, credentials):
        CountedToken.checked += 1
        return await super().identity(credentials)


@pytest.fixture
def calls(dependencies, settings):
    """Admits two calls at once, lets eight wait, and counts whose credentials are checked."""
    CountedToken.checked = 0
    access = Access([CountedToken("")], Visibilities(dependencies.ledger))
    return Calls(
        GuardedAccess(access, None, limits.wrong_credentials(settings)),
        limits.limiter(settings, None),
        admission=Admission(running=RUNNING, waiting=WAITING),
    )


def retry_ms(error):
    """Return the retry delay of the refusal, in milliseconds."""
    told = error_details_pb2.RetryInfo()
    return rpc_status.from_call(error).details[0].Unpack(told) and told.retry_delay.ToMilliseconds()


@asynccontextmanager
async def over_grpc(dependencies, calls):
    """Yield a function that lists the repositories: the name of the status, and when to retry."""
    server = aio.server(interceptors=[Interceptor(calls)])
    index_pb2_grpc.add_IndexServiceServicer_to_server(IndexService(dependencies), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        listed = index_pb2_grpc.IndexServiceStub(channel).ListRepositories

        async def ask():
            try:
                await listed(index_pb2.ListRepositoriesRequest(), timeout=60)
            except aio.AioRpcError as error:
                return error.code(), retry_ms(error)
            return grpc.StatusCode.OK, 0

        yield ask, (grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED)
    await server.stop(0)


@asynccontextmanager
async def over_http(dependencies, calls):
    """Do the same over HTTP: yield the statuses, and the header with the retry delay."""
    face = Face(dependencies, calls, lambda: True, WebhookConnections(""), Highlighter())
    transport = httpx.ASGITransport(Faced(application(), face))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def ask():
            response = await client.get("/api/v1/repositories")
            return response.status_code, int(response.headers.get("retry-after", 0))

        yield ask, (200, 429)


@pytest.mark.parametrize("face", [over_grpc, over_http])
async def test_calls_beyond_the_capacity_are_refused_while_the_others_work(
    face, dependencies, ledger, calls
):
    ledger.answers.clear()  # no call ends before all others are refused
    async with face(dependencies, calls) as (ask, (answered, refused)):
        asked = [asyncio.create_task(ask()) for _ in range(CALLERS)]
        first = islice(asyncio.as_completed(asked), CALLERS - RUNNING - WAITING)
        told = [await one for one in first]
        ledger.answers.set()
        outcomes = [await one for one in asked]

    assert {code for code, _ in told} == {refused}
    assert all(retry > 0 for _, retry in told)
    assert [code for code, _ in outcomes].count(answered) == RUNNING + WAITING
    assert CountedToken.checked == RUNNING + WAITING
