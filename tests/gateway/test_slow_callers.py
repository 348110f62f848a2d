"""Callers who take or send slowly keep nobody else waiting, and lose their rights at once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import httpx
import pytest
from grpc import aio

from codelode.access import Role
from codelode.errors import Busy, Unauthenticated
from codelode.v1 import (
    access_pb2,
    access_pb2_grpc,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)
from gateway import access, fresh
from gateway.access import Access
from gateway.access.api_keys import KeyAuthenticator
from gateway.access.attempts import GuardedAccess
from gateway.access.identity import Credentials
from gateway.access.visibility import Visibilities
from gateway.access.webhooks import WebhookConnections
from gateway.admission import WAITING, Admission
from gateway.api.rest import calls as rest_calls
from gateway.api.rest.calls import Face, Faced
from gateway.api.rpc.interceptors import Interceptor
from gateway.api.rpc.services import AccessService, IndexService, SearchService
from gateway.api.web.app import application
from gateway.calls import Calls, Received
from gateway.highlighting import Highlighter
from gateway.service import limits
from tests.gateway.test_api_keys import stored
from tests.worlds import indexed

RUNNING = 2
#: So much text that gRPC buffers only a part of an answer: 200 files with 8 MB of matching lines.
FILES = {
    f"f{number}.txt": "".join(f"needle {number} {line} {'.' * 70}\n" for line in range(500))
    for number in range(200)
}
LINES = 200 * 500
#: Options of a channel that reads no further than its caller does.
UNBUFFERED = [("grpc.http2.lookahead_bytes", 65_536), ("grpc.http2.bdp_probe", 0)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return indexed(tmp_path_factory.mktemp("data"), FILES)


@pytest.fixture
def keys(world):
    return world.dependencies.keys


@pytest.fixture
def key(keys):
    yield stored(keys, role=Role.ADMIN)
    for one in keys.all():
        keys.remove(one.id)


class Recorded(list):
    """An audit log in memory."""

    record = list.append


class WatchedKeys(KeyAuthenticator):
    """Tells when a key was refused."""

    def __init__(self, keys):
        super().__init__(keys)
        self.refused = asyncio.Event()

    async def identity(self, credentials):
        try:
            return await super().identity(credentials)
        except Unauthenticated:
            self.refused.set()
            raise


@pytest.fixture
def authenticator(keys):
    return WatchedKeys(keys)


@pytest.fixture
def admission(request):
    return Admission(running=RUNNING, waiting=getattr(request, "param", WAITING))


@pytest.fixture
def recorded():
    return Recorded()


@pytest.fixture
def calls(world, authenticator, admission, recorded, monkeypatch):
    monkeypatch.setattr(access, "RECHECK_S", 0.01)
    monkeypatch.setattr(fresh, "FRESH_S", 0.0)
    dependencies = world.dependencies
    given = Access([authenticator], Visibilities(dependencies.ledger))
    return Calls(
        GuardedAccess(given, None, limits.wrong_credentials(dependencies.settings)),
        limits.limiter(dependencies.settings, None),
        recorded,
        admission=admission,
    )


@asynccontextmanager
async def serving(dependencies, calls):
    """Yield an open channel to a gateway."""
    server = aio.server(interceptors=[Interceptor(calls)])
    index_pb2_grpc.add_IndexServiceServicer_to_server(IndexService(dependencies), server)
    search_pb2_grpc.add_SearchServiceServicer_to_server(SearchService(dependencies), server)
    access_pb2_grpc.add_AccessServiceServicer_to_server(AccessService(dependencies), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}", UNBUFFERED) as channel:
        yield channel
    await server.stop(0)


async def begun(channel, key):
    """Begin to find all lines, and take the first part of the answer; return the other parts."""
    asked = search_pb2.GrepRequest(pattern="needle", limit=LINES)
    stub = search_pb2_grpc.SearchServiceStub(channel)
    parts = aiter(stub.Grep(asked, timeout=60, metadata=[("authorization", f"Bearer {key}")]))
    assert (await anext(parts)).files
    return parts


async def summary(parts):
    """Take the other parts; return the last one, which has the number of lines."""
    return [part async for part in parts][-1].summary


async def test_answers_that_nobody_takes_leave_the_turns_to_others(world, calls, key):
    async with serving(world.dependencies, calls) as channel:
        stalled = [await begun(channel, key) for _ in range(RUNNING + 1)]

        listed = await index_pb2_grpc.IndexServiceStub(channel).ListRepositories(
            index_pb2.ListRepositoriesRequest(),
            timeout=30,
            metadata=[("authorization", f"Bearer {key}")],
        )
        assert [one.name for one in listed.repositories] == ["acme/app"]
        for parts in stalled:
            assert (await summary(parts)).count == LINES


@pytest.mark.parametrize("admission", [0], indirect=True)
async def test_an_answer_that_has_begun_goes_on_although_new_calls_are_refused(
    world, calls, admission, recorded, key
):
    async with serving(world.dependencies, calls) as channel:
        parts = await begun(channel, key)
        async with AsyncExitStack() as others:
            for _ in range(RUNNING):  # after the present part, if one is being made
                await others.enter_async_context(admission.admitted(None, goes_on=True))
            with pytest.raises(aio.AioRpcError) as refused:
                await begun(channel, key)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            ending = asyncio.create_task(summary(parts))
            await asyncio.sleep(0)
        assert (await ending).count == LINES
    assert [(one.function, one.error) for one in recorded] == [("grep", None)]


async def test_a_call_that_a_limit_refuses_while_it_works_is_recorded(calls, recorded, key, world):
    received = Received(
        face="rpc",
        method="Search",
        function="search",
        request_id="1",
        source="10.0.0.1",
        credentials=Credentials(f"Bearer {key}"),
        remaining_s=lambda: None,
        code=str,
    )
    with pytest.raises(Busy):
        async with calls.admitted(received):
            raise Busy("a further call of it is refused", retry_s=1.0)

    (one,) = recorded
    assert (one.function, type(one.error)) == ("search", Busy)


async def test_an_answer_ends_when_its_caller_loses_all_rights(
    world, calls, authenticator, keys, key
):
    async with serving(world.dependencies, calls) as channel:
        parts = await begun(channel, key)
        for one in keys.all():
            keys.remove(one.id)
        await authenticator.refused.wait()

        with pytest.raises(aio.AioRpcError) as refused:
            await summary(parts)
        await calls.idle.wait()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_key_is_revoked_although_its_calls_take_all_turns(
    world, calls, admission, keys, key
):
    async with serving(world.dependencies, calls) as channel, AsyncExitStack() as slow:
        for _ in range(RUNNING):
            await slow.enter_async_context(admission.admitted(None))

        (revoked,) = keys.all()
        await access_pb2_grpc.AccessServiceStub(channel).RevokeKey(
            access_pb2.RevokeKeyRequest(name=revoked.name),
            timeout=30,
            metadata=[("authorization", f"Bearer {key}")],
        )
    assert keys.all() == ()


async def test_bodies_that_arrive_slowly_leave_the_turns_to_others(world, calls, key):
    face = Face(world.dependencies, calls, lambda: True, WebhookConnections(""), Highlighter())
    transport = httpx.ASGITransport(Faced(application(), face))
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    reading, may_end = asyncio.Semaphore(0), asyncio.Event()

    async def body():
        yield b'{"query": '
        reading.release()
        await may_end.wait()
        yield b'"needle"}'

    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as client:
        posts = [
            asyncio.create_task(client.post("/api/v1/search", content=body()))
            for _ in range(RUNNING + 1)
        ]
        for _ in posts:
            await reading.acquire()
        listed = await client.get("/api/v1/repositories")
        may_end.set()
        answers = await asyncio.gather(*posts)

    assert listed.status_code == 200
    assert [answer.status_code for answer in answers] == [200] * len(posts)
    assert all(answer.json()["hits"] for answer in answers)


async def test_a_body_that_does_not_arrive_is_refused(world, calls, key, monkeypatch):
    monkeypatch.setattr(rest_calls, "BODY_S", 0.01)
    face = Face(world.dependencies, calls, lambda: True, WebhookConnections(""), Highlighter())
    transport = httpx.ASGITransport(Faced(application(), face))
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    async def body():
        yield b"{"
        await asyncio.Event().wait()

    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as client:
        answer = await client.post("/api/v1/search", content=body())

    assert answer.status_code == 504
    assert "was not sent within 0.01 s" in answer.json()["detail"]
