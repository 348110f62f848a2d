"""The gateway process: its addresses, token, health, reflection, and shutdown."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from codelode.client import Client
from codelode.environment import UNUSABLE_SETTINGS
from codelode.errors import InvalidSettings, Unauthenticated
from codelode.listeners import require_secure_listeners
from codelode.settings import Settings
from codelode.v1 import index_pb2, index_pb2_grpc
from gateway import health
from gateway.app import Gateway

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

LONG = "sesame-of-16-chr"  # the shortest token for other machines
PROXIED = {"tls_terminated_by_proxy": True}


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:50051", "localhost:0", "[::1]:50051", "127.8.0.1:1", "unix:/run/x.sock"]
)
def test_loopback_addresses_are_accepted(listen):
    require_secure_listeners(Settings(listen=listen))


@pytest.mark.parametrize("listen", ["0.0.0.0:50051", "[::]:50051", "10.0.0.1:1", "host.example:1"])
def test_other_addresses_are_refused_without_authentication(listen):
    with pytest.raises(InvalidSettings, match="without authentication"):
        require_secure_listeners(Settings(listen=listen, tls_terminated_by_proxy=True))
    require_secure_listeners(Settings(listen=listen, token=LONG, tls_terminated_by_proxy=True))


@pytest.mark.parametrize("listen", ["0.0.0.0:50051", "[::]:50051", "10.0.0.1:1", "host.example:1"])
def test_other_addresses_are_refused_without_tls(listen):
    with pytest.raises(InvalidSettings, match=r"without TLS .* --tls-terminated-by-proxy"):
        require_secure_listeners(Settings(listen=listen, token=LONG))
    files = {"tls_certificate": "/tls/tls.crt", "tls_key": "/tls/tls.key"}
    require_secure_listeners(Settings(listen=listen, token=LONG, **files))


@pytest.mark.slow
def test_the_program_has_an_option_for_a_proxy_that_terminates_tls(tmp_path):
    """The program accepts the option: it then fails only because the port is in use."""
    with socket.create_server(("0.0.0.0", 0)) as taken:
        listen = f"0.0.0.0:{taken.getsockname()[1]}"
        own = {"CODELODE_LISTEN": listen, "CODELODE_TOKEN": LONG}
        environment = {**os.environ, **own, "CODELODE_DATA": str(tmp_path)}

        def stderr(*options):
            command = [sys.executable, "-m", "gateway", *options]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert ended.returncode == UNUSABLE_SETTINGS
            return ended.stderr

        assert "give --tls-terminated-by-proxy" in stderr()
        assert "cannot be bound" in stderr("--tls-terminated-by-proxy")


def test_one_error_names_everything_that_is_missing():
    with pytest.raises(InvalidSettings, match=r"without authentication .*; without TLS "):
        require_secure_listeners(Settings(listen="0.0.0.0:50051"))


@pytest.mark.parametrize("name", ["listen", "http_listen"])
@pytest.mark.parametrize("token", ["a", LONG[1:]])
def test_other_addresses_are_refused_with_a_token_that_can_be_guessed(tmp_path, name, token):
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    for place in ({"token": token}, {"token_file": str(file)}):
        open_ = Settings(**{name: "0.0.0.0:1"}, **place, **PROXIED)
        with pytest.raises(
            InvalidSettings, match=rf"CODELODE_{name.upper()}='0.0.0.0:1': "
        ) as told:
            require_secure_listeners(open_)
        assert "a shared token of fewer than 16 characters" in str(told.value)
        assert "`openssl rand -hex 32`, or CODELODE_TOKEN_FILE" in str(told.value)
        if len(token) > 1:
            assert token not in str(told.value)
    require_secure_listeners(Settings(**{name: "0.0.0.0:1"}, token=LONG, **PROXIED))


@pytest.mark.parametrize(
    "reach",
    [
        {"listen": "127.0.0.1:1", "http_listen": "[::1]:2"},
        {"listen": "unix:/run/x.sock"},
        {"listen": "0.0.0.0:1", "published_host": "127.0.0.1"},
    ],
    ids=str,
)
def test_any_token_is_accepted_where_only_this_machine_can_call(reach):
    require_secure_listeners(Settings(**reach, token="a"))


def test_a_token_that_looks_like_an_api_key_is_refused():
    with pytest.raises(InvalidSettings, match="must not begin with 'codelode_'"):
        require_secure_listeners(Settings(token="codelode_of-the-whole-team"))


@pytest.mark.parametrize("given", ["tls_certificate", "tls_key"])
def test_certificate_and_key_must_be_set_together(given):
    with pytest.raises(InvalidSettings, match="set both"):
        require_secure_listeners(Settings(**{given: "/tls/file"}))


@pytest.mark.parametrize("listen", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "[::1]:99999"])
def test_a_malformed_address_is_refused_with_an_example(listen):
    with pytest.raises(InvalidSettings, match=r"127\.0\.0\.1:50051"):
        require_secure_listeners(Settings(listen=listen))


@pytest.mark.parametrize("place", ["token", "token_file"])
async def test_only_callers_with_the_token_are_served(dependencies, tmp_path, place):
    (tmp_path / "token").write_text("sesame\n")
    token = {"token": "sesame", "token_file": str(tmp_path / "token")}[place]
    settings = Settings(listen="127.0.0.1:0", data=tmp_path, **{place: token})
    gateway = Gateway(replace(dependencies, settings=settings))
    await gateway.start()

    def asked(token: str) -> int:
        with Client(f"127.0.0.1:{gateway.port}", token=token) as client:
            assert client.is_serving()  # health probes have no token
            return client.status().chunks

    try:
        assert await asyncio.to_thread(asked, "sesame") == 0
        with pytest.raises(Unauthenticated, match=r"requires a token: set .* CODELODE_TOKEN"):
            await asyncio.to_thread(asked, "")
        for wrong in ("sesam", "sesame ", "Bearer sesame"):
            with pytest.raises(Unauthenticated, match=r"of this call is wrong: .* CODELODE_TOKEN"):
                await asyncio.to_thread(asked, wrong)
    finally:
        await gateway.stop(grace_s=0)


@pytest.mark.parametrize("content", [None, " \n"], ids=["missing", "blank"])
async def test_a_gateway_does_not_start_if_its_token_file_is_missing_or_blank(
    dependencies, tmp_path, content
):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    settings = Settings(listen="127.0.0.1:0", data=tmp_path, token_file=str(file))

    with pytest.raises(InvalidSettings, match=str(file)):
        Gateway(replace(dependencies, settings=settings))


async def test_the_error_names_a_port_that_is_in_use(gateway, dependencies, tmp_path):
    taken = Settings(listen=f"127.0.0.1:{gateway.port}", data=tmp_path)

    with pytest.raises(InvalidSettings, match=f"{gateway.port}.*another gateway"):
        await Gateway(replace(dependencies, settings=taken)).start()


async def watch_health(channel, service=""):
    stub = health_pb2_grpc.HealthStub(channel)
    async for response in stub.Watch(health_pb2.HealthCheckRequest(service=service)):
        yield response.status


@pytest.mark.parametrize("service", ["", "codelode.v1.SearchService", "codelode.v1.IndexService"])
async def test_a_started_gateway_is_healthy(gateway, channel, service):
    stub = health_pb2_grpc.HealthStub(channel)

    response = await stub.Check(health_pb2.HealthCheckRequest(service=service))

    assert response.status == SERVING


async def test_a_gateway_is_unhealthy_while_redis_is_away(gateway, channel, ledger, monkeypatch):
    monkeypatch.setattr(health, "INTERVAL_S", 0.01)
    seen = watch_health(channel)
    assert await anext(seen) == SERVING

    ledger.is_away = True
    assert await asyncio.wait_for(anext(seen), 5) == NOT_SERVING
    ledger.is_away = False
    assert await asyncio.wait_for(anext(seen), 5) == SERVING


async def test_a_gateway_is_unhealthy_while_no_thread_is_free(
    gateway, channel, ledger, monkeypatch
):
    monkeypatch.setattr(health, "INTERVAL_S", 0.01)
    monkeypatch.setattr(health, "TIMEOUT_S", 0.5)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    seen = watch_health(channel)
    assert await anext(seen) == SERVING

    ledger.answers.clear()
    stub = index_pb2_grpc.IndexServiceStub(channel)
    calls = [stub.ListRepositories(index_pb2.ListRepositoriesRequest()) for _ in range(2)]
    try:
        assert await asyncio.wait_for(anext(seen), 30) == NOT_SERVING
    finally:
        ledger.answers.set()
    await asyncio.gather(*calls)
    assert await asyncio.wait_for(anext(seen), 30) == SERVING


async def test_a_gateway_without_redis_starts_and_is_unhealthy(dependencies, ledger):
    ledger.is_away = True
    gateway = Gateway(dependencies)
    await gateway.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel:
        response = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    await gateway.stop(grace_s=0)

    assert response.status == NOT_SERVING


async def test_a_stopping_gateway_first_reports_that_it_is_unhealthy(gateway, channel):
    seen = watch_health(channel)
    assert await anext(seen) == SERVING

    stopping = asyncio.create_task(gateway.stop())

    assert await asyncio.wait_for(anext(seen), 5) == NOT_SERVING
    await seen.aclose()
    await stopping


async def test_reflection_lists_the_services(gateway, channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    call = stub.ServerReflectionInfo(iter([request]))

    response = await call.read()
    call.cancel()

    names = {service.name for service in response.list_services_response.service}
    assert {"codelode.v1.SearchService", "codelode.v1.IndexService"} <= names
