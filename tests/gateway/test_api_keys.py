"""API keys over gRPC: who is admitted, with which rights, and for how long."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import sys
import time
from dataclasses import replace

import grpc
import pytest
import structlog
from grpc import aio

from codelode import api_keys
from codelode.access import EVERYTHING, FRESH_S, Label, Principal, Role, Visibility
from codelode.api_keys import ApiKey
from codelode.backends.memory.api_keys import MemoryApiKeys
from codelode.errors import Denied, InvalidQuery, NotFound, Unauthenticated, Unavailable
from codelode.model import DEFAULT_REF, Repository
from codelode.settings import Settings
from codelode.v1 import access_pb2, index_pb2
from gateway import access, fresh, service
from gateway.access import Access
from gateway.access.api_keys import EXPIRED_KEY, KEYS_HELD, WRONG_KEY, KeyAuthenticator
from gateway.access.identity import Credentials
from gateway.access.shared_token import SharedToken
from gateway.access.visibility import Visibilities
from gateway.app import Gateway
from gateway.fresh import FreshCache
from gateway.service.requests import CreateKeyRequest

TOKEN = "the-shared-token-of-this-test"
ADMIN = Principal("token", Role.ADMIN, EVERYTHING)
AGES = 100 * 365 * 86_400


def call(channel, method, request, response, key=TOKEN):
    send = channel.unary_unary(
        f"/codelode.v1.{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )
    return send(request, metadata=(("authorization", f"Bearer {key}"),))


def listed(channel, key):
    request = index_pb2.ListRepositoriesRequest()
    method = "IndexService/ListRepositories"
    return call(channel, method, request, index_pb2.ListRepositoriesResponse, key)


async def made(channel, name, key=TOKEN, **fields):
    request = access_pb2.CreateKeyRequest(name=name, **{"role": "reader", **fields})
    response = await call(
        channel, "AccessService/CreateKey", request, access_pb2.CreateKeyResponse, key
    )
    return response.key


def revoked(channel, name, key=TOKEN):
    request = access_pb2.RevokeKeyRequest(name=name)
    return call(channel, "AccessService/RevokeKey", request, access_pb2.RevokeKeyResponse, key)


async def refusal(awaitable):
    with pytest.raises(aio.AioRpcError) as caught:
        await awaitable
    return caught.value.code(), caught.value.details()


@pytest.fixture
def settings(tmp_path):
    return Settings(listen="127.0.0.1:0", data=tmp_path, token=TOKEN)


@pytest.fixture
async def other_channel(dependencies):
    """A second gateway of the cluster."""
    gateway = Gateway(dependencies)
    await gateway.start()
    async with aio.insecure_channel(f"127.0.0.1:{gateway.port}") as opened:
        yield opened
    await gateway.stop(grace_s=0)


@pytest.fixture
def keys(dependencies):
    return dependencies.keys


def split(key):
    """Return the id and the secret of a key."""
    found = api_keys.parts(key)
    assert found is not None
    return found


def stored(keys, name="ci", **fields):
    """Store a key; return its text."""
    id, secret = api_keys.generate()
    values = {"role": Role.READER, "bounds": (), "created_at": 0.0, "created_by": "token"}
    keys.add(ApiKey(id=id, name=name, digest=api_keys.digest(secret), **{**values, **fields}))
    return api_keys.text(id, secret)


# Admission


async def test_a_created_key_is_admitted_and_named_in_the_log(channel, dependencies):
    key = await made(channel, "ci", role="indexer", expires_in_s=3_600)

    with structlog.testing.capture_logs(
        processors=[structlog.contextvars.merge_contextvars]
    ) as lines:
        await listed(channel, key)
        await asyncio.sleep(0)
    assert [line["principal"] for line in lines if line["event"] == "rpc"] == ["key:ci"]
    (one,) = dependencies.keys.all()
    assert (one.name, one.role, one.created_by) == ("ci", Role.INDEXER, "token")
    assert 3_500 < one.expires_at - one.created_at <= 3_600


async def test_wrong_keys_are_unauthenticated_in_the_same_words(channel, keys):
    key = stored(keys)
    id, secret = split(key)
    wrong = [
        api_keys.text(id, secret[:-1] + ("A" if secret[-1] != "A" else "B")),
        api_keys.text("0" * 16, secret),
        *("codelode_", f"{key} ", f"{key}x", key[:-1], key.upper().replace("CODELODE", "codelode")),
    ]

    for one in wrong:
        assert await refusal(listed(channel, one)) == (
            grpc.StatusCode.UNAUTHENTICATED,
            WRONG_KEY,
        )
    await listed(channel, key)


async def test_without_credentials_a_caller_is_unauthenticated(channel):
    code, _ = await refusal(listed(channel, ""))

    assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_a_key_is_checked_even_where_no_token_is_required(dependencies, tmp_path):
    open_to_all = replace(dependencies, settings=Settings(listen="127.0.0.1:0", data=tmp_path))
    gateway = Gateway(open_to_all)
    await gateway.start()
    async with aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel:
        code, _ = await refusal(listed(channel, api_keys.text(*api_keys.generate())))
        key = stored(dependencies.keys)
        of_reader, _ = await refusal(made(channel, "other", key))
    await gateway.stop(grace_s=0)

    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert of_reader is grpc.StatusCode.PERMISSION_DENIED


async def test_an_expired_key_is_refused_and_only_its_owner_learns_the_reason(keys):
    now = [1_000.0]
    check = KeyAuthenticator(keys, now=lambda: now[0])
    key = stored(keys, expires_at=2_000.0)
    other = api_keys.text(split(key)[0], api_keys.generate()[1])

    assert (await check.identity(Credentials(f"Bearer {key}"))).name == "key:ci"
    now[0] = 2_000.0
    for given, message in ((key, EXPIRED_KEY), (other, WRONG_KEY)):
        with pytest.raises(Unauthenticated) as caught:
            await check.identity(Credentials(f"Bearer {given}"))
        assert str(caught.value) == message


# Revocation


async def test_a_revoked_key_is_refused_by_every_gateway_when_the_call_returns(
    channel, other_channel
):
    key = await made(channel, "ci")
    for one in (channel, other_channel):
        await listed(one, key)

    await revoked(channel, "ci")

    for one in (channel, other_channel):
        assert (await refusal(listed(one, key)))[0] is grpc.StatusCode.UNAUTHENTICATED


async def test_an_open_stream_ends_when_its_key_is_revoked(channel, keys, ledger, monkeypatch):
    monkeypatch.setattr(access, "RECHECK_S", 0.05)
    ledger.register(Repository("acme/http", "https://host.example/acme/http"))
    run = ledger.create("acme/http", DEFAULT_REF)
    open_stream = channel.unary_stream(
        "/codelode.v1.IndexService/WatchRun",
        request_serializer=index_pb2.WatchRunRequest.SerializeToString,
        response_deserializer=index_pb2.WatchRunResponse.FromString,
    )
    key = stored(keys, role=Role.ADMIN)
    watch = open_stream(
        index_pb2.WatchRunRequest(run_id=run.id),
        metadata=(("authorization", f"Bearer {key}"),),
    )
    assert (await watch.read()).run.id == run.id

    await revoked(channel, "ci")

    assert await refusal(watch.read()) == (grpc.StatusCode.UNAUTHENTICATED, WRONG_KEY)


def test_streams_are_checked_again_within_five_seconds():
    assert access.RECHECK_S + FRESH_S < 4


async def test_a_stream_ends_when_rights_shrink_but_not_while_they_cannot_be_checked(
    ledger, monkeypatch
):
    class Away(MemoryApiKeys):
        is_away, refused = False, 0

        def get(self, id):
            if self.is_away:
                self.refused += 1
                raise Unavailable("Redis does not answer")
            return super().get(id)

    monkeypatch.setattr(access, "RECHECK_S", 0.01)
    monkeypatch.setattr(fresh, "FRESH_S", 0.0)
    keys = Away()
    given = Access([KeyAuthenticator(keys)], Visibilities(ledger))
    credentials = Credentials(f"Bearer {stored(keys, role=Role.ADMIN, bounds=(('acme/*',),))}")
    ledger.register(Repository("acme/http", "https://host.example/acme/http"))
    principal = await given.principal(credentials)

    keys.is_away = True
    async with given.rechecked(credentials, principal):
        while keys.refused < 3:
            await asyncio.sleep(0)
    keys.is_away = False
    ledger.unregister("acme/http")
    with pytest.raises(Unavailable, match="rights were reduced"):
        async with given.rechecked(credentials, principal):
            await asyncio.Event().wait()


async def test_a_stream_ends_when_the_check_of_its_rights_fails_unexpectedly(ledger, monkeypatch):
    class Broken(MemoryApiKeys):
        is_broken = False

        def get(self, id):
            if self.is_broken:
                raise RuntimeError("a defect")
            return super().get(id)

    monkeypatch.setattr(access, "RECHECK_S", 0.01)
    monkeypatch.setattr(fresh, "FRESH_S", 0.0)
    keys = Broken()
    given = Access([KeyAuthenticator(keys)], Visibilities(ledger))
    credentials = Credentials(f"Bearer {stored(keys, role=Role.ADMIN)}")
    principal = await given.principal(credentials)

    keys.is_broken = True
    with pytest.raises(RuntimeError, match="a defect"):
        async with given.rechecked(credentials, principal):
            await asyncio.Event().wait()


# What a creator may give


def creator(**fields):
    values = {"visible": Visibility.of(["payments/api"]), "bounds": (("payments/*",),)}
    return Principal("key:boss", Role.ADMIN, **{**values, **fields})


async def test_a_key_is_bound_by_the_bounds_of_its_creator(dependencies, keys):
    request = CreateKeyRequest("child", "reader", repositories=("**",))

    created = await service.create_key(dependencies, creator(), request)

    assert [bound.globs for bound in created.created.bounds] == [("payments/*",), ("**",)]
    seen = [Repository(name, "u") for name in ("payments/api", "legal/x")]
    for one in seen:
        dependencies.ledger.register(one)
        dependencies.ledger.set_label(one.name, Label.INTERNAL)
    given = Access([KeyAuthenticator(keys)], Visibilities(dependencies.ledger))
    principal = await given.principal(Credentials(f"Bearer {created.key}"))
    assert principal.visible == Visibility.of(["payments/api"])


async def test_a_key_cannot_outlive_its_creator(dependencies, keys):
    now = 10.0 + time.time()
    short = creator(expires_at=now)

    for life_s in (0.0, 3_600.0):
        with pytest.raises(Denied, match="may not outlive"):
            await service.create_key(
                dependencies, short, CreateKeyRequest("child", "reader", expires_in_s=life_s)
            )
    assert keys.all() == ()
    await service.create_key(
        dependencies, short, CreateKeyRequest("child", "reader", expires_in_s=1.0)
    )
    assert keys.all()[0].expires_at <= now


async def test_a_creator_with_bounds_sees_and_revokes_only_keys_within_them(dependencies, keys):
    boss = creator()
    for principal, name in ((ADMIN, "of-all"), (boss, "of-payments")):
        await service.create_key(dependencies, principal, CreateKeyRequest(name, "reader"))

    assert [key.name for key in await service.list_keys(dependencies, boss)] == ["of-payments"]
    refusals = []
    for name in ("of-all", "nowhere"):
        with pytest.raises(NotFound) as caught:
            await service.revoke_key(dependencies, boss, name)
        refusals.append(str(caught.value).replace(name, "NAME"))
    assert refusals[0] == refusals[1]
    await service.revoke_key(dependencies, boss, "of-payments")
    assert [key.name for key in keys.all()] == ["of-all"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"role": "root"}, "role"),
        ({"role": ""}, "role"),
        ({"repositories": ["a b"]}, "repositories"),
        ({"repositories": [""]}, "repositories"),
        ({"repositories": ["***"]}, "repositories"),
        ({"repositories": ["x"] * 101}, "repositories"),
        ({"expires_in_s": -1.0}, "expires_in_s"),
        ({"expires_in_s": math.nan}, "expires_in_s"),
        ({"expires_in_s": AGES}, "expires_in_s"),
    ],
)
async def test_a_malformed_key_is_refused_with_its_field(dependencies, keys, fields, field):
    request = CreateKeyRequest(**{"name": "ci", "role": "reader", **fields})

    with pytest.raises(InvalidQuery) as caught:
        await service.create_key(dependencies, ADMIN, request)

    assert caught.value.field == field
    assert keys.all() == ()


async def test_a_name_that_is_taken_is_refused(dependencies):
    await service.create_key(dependencies, ADMIN, CreateKeyRequest("ci", "reader"))

    with pytest.raises(InvalidQuery, match="another key"):
        await service.create_key(dependencies, ADMIN, CreateKeyRequest("ci", "reader"))


# Use


async def test_the_last_use_is_recorded_once_a_minute(dependencies):
    class Counted(MemoryApiKeys):
        recorded = 0

        def used(self, id, at):
            self.recorded += 1
            super().used(id, at)

    now, keys = [1_000.0], Counted()
    check = KeyAuthenticator(keys, now=lambda: now[0])
    credentials = Credentials(f"Bearer {stored(keys)}")

    async def used(times):
        for _ in range(times):
            await check.identity(credentials)
        await asyncio.gather(*check._recording)

    await used(50)
    assert (keys.recorded, keys.all()[0].used_at) == (1, 1_000.0)
    now[0] += 59
    await used(50)
    assert keys.recorded == 1
    now[0] += 1
    await used(50)
    assert (keys.recorded, keys.all()[0].used_at) == (2, 1_060.0)


async def test_a_key_works_while_its_use_cannot_be_recorded(keys):
    class Full(MemoryApiKeys):
        def used(self, id, at):
            raise Unavailable("Redis has reached its maxmemory")

    full = Full()
    check = KeyAuthenticator(full)
    credentials = Credentials(f"Bearer {stored(full)}")

    assert await check.identity(credentials)
    await asyncio.gather(*check._recording)
    assert await check.identity(credentials)


# Attacks

#: Wrong keys that are tried at once.
TOGETHER = 100


@pytest.mark.slow
async def test_many_wrong_keys_take_bounded_memory_and_one_lookup_each():
    class Counted(MemoryApiKeys):
        lookups = 0

        def get(self, id):
            self.lookups += 1
            return super().get(id)

    keys = Counted()
    check = KeyAuthenticator(keys)
    right = Credentials(f"Bearer {stored(keys)}")
    id, _ = split(right.authorization.removeprefix("Bearer "))

    async def is_refused(id, secret):
        """Return whether the key is refused; `pytest.raises` takes longer than the check."""
        try:
            await check.identity(Credentials(f"Bearer {api_keys.text(id, secret)}"))
        except Unauthenticated:
            return True
        return False

    async def tried(numbers):
        for at in range(numbers.start, numbers.stop, TOGETHER):
            some = range(at, min(at + TOGETHER, numbers.stop))
            wrong = [(of, f"{one:043d}") for one in some for of in (f"{one:016x}", id)]
            assert all(await asyncio.gather(*(is_refused(*each) for each in wrong)))

    await tried(range(2 * KEYS_HELD))
    gc.collect()
    before = sys.getallocatedblocks()
    await tried(range(2 * KEYS_HELD, 50_000))
    gc.collect()

    assert len(check._known._held) <= KEYS_HELD
    assert sys.getallocatedblocks() - before < 2_000  # one of each key would be 96,000
    assert keys.lookups < 50_000 + 1_000  # those of the right id are answered from memory
    assert await check.identity(right)


async def test_malformed_keys_are_not_looked_up():
    class Unasked(MemoryApiKeys):
        def get(self, id):
            raise AssertionError(id)

    check = KeyAuthenticator(Unasked())
    for text in ("codelode_", "codelode_x_y", "codelode_" + "a" * 10_000, "codelode_\0_é"):
        with pytest.raises(Unauthenticated):
            await check.identity(Credentials(f"Bearer {text}"))


async def test_secrets_are_in_no_answer_log_line_error_job_or_store(
    channel, keys, jobs, ledger, caplog
):
    with structlog.testing.capture_logs() as lines:
        key = await made(channel, "ci", role="admin")
        start = index_pb2.StartRunRequest(url="https://host.example/acme/http")
        await call(channel, "IndexService/StartRun", start, index_pb2.StartRunResponse, key)
        secret = split(key)[1]
        request = access_pb2.ListKeysRequest()
        shown = await call(channel, "AccessService/ListKeys", request, access_pb2.ListKeysResponse)
        errors = [
            await refusal(listed(channel, f"{key}x")),
            await refusal(made(channel, "ci")),
            await refusal(made(channel, "new", key, role="root")),
        ]
        await asyncio.sleep(0)

    assert jobs.sent
    told = [str(lines), caplog.text, str(shown), str(errors)]
    told += [repr([vars(one) for one in (keys, ledger)]), repr(jobs.sent)]
    assert not [text for text in told if secret in text]


async def test_a_key_in_place_of_its_name_is_in_no_error_and_no_log_line(channel, keys):
    given = stored(keys)
    with structlog.testing.capture_logs() as lines:
        errors = [await refusal(revoked(channel, given)), await refusal(made(channel, given[:-1]))]
        errors.append(await refusal(made(channel, given)))
        await asyncio.sleep(0)

    assert all("holds a key" in str(error) for error in errors)
    assert split(given)[1][:-1] not in f"{errors}{lines}"


@pytest.mark.server
def test_redis_holds_only_a_hash_of_a_key(redis):
    from codelode.backends.redis.api_keys import RedisApiKeys

    key = stored(RedisApiKeys(redis))
    id, secret = split(key)

    found = [redis.dump(name) for name in redis.scan_iter()]
    found += [
        json.dumps({k.decode(): v.decode() for k, v in redis.hgetall(name).items()}).encode()
        for name in redis.scan_iter()
    ]
    assert any(id.encode() in one for one in found)
    assert not any(secret.encode() in one for one in found)


# The cache of what was just read


async def test_concurrent_callers_share_a_reading_and_errors_are_not_kept():
    read = []

    def reading(key):
        read.append(key)
        if len(read) == 1:
            raise Unavailable("away")
        return len(read)

    now = [0.0]
    cache = FreshCache(reading, clock=lambda: now[0])
    failed = [*await asyncio.gather(cache.get("k"), cache.get("k"), return_exceptions=True)]

    assert [type(one) for one in failed] == [Unavailable, Unavailable]
    assert [*await asyncio.gather(cache.get("k"), cache.get("k"))] == [2, 2]
    now[0] = FRESH_S - 0.001
    assert await cache.get("k") == 2
    now[0] = FRESH_S
    assert await cache.get("k") == 3


async def test_a_caller_that_gives_up_does_not_affect_the_others():
    cache = FreshCache(lambda key: key)
    first = asyncio.create_task(cache.get("k"))
    second = asyncio.create_task(cache.get("k"))
    await asyncio.sleep(0)
    first.cancel()

    assert await second == "k"


async def test_the_shared_token_stays_an_admin_who_sees_everything(ledger, keys):
    given = Access([KeyAuthenticator(keys), SharedToken(TOKEN)], Visibilities(ledger))

    principal = await given.principal(Credentials(f"Bearer {TOKEN}"))

    assert principal == Principal("token", Role.ADMIN, EVERYTHING)
