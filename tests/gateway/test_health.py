"""Health probes are answered at once and correctly, however busy the gateway is.

The tests and the gateway share one event loop, so a test that waits without `await` blocks it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from codelode.errors import InvalidSettings
from codelode.settings import Settings
from gateway import health
from gateway.app import Gateway
from gateway.probes import HEALTHY, UNHEALTHY, changes

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SEARCH = "codelode.v1.SearchService"

#: Longer than any pause of a busy machine, seconds.
LONG_S = 300.0


@pytest.fixture
def started(dependencies, tmp_path):
    """`async with started() as gateway`, with a process that answers probes on a free port."""

    @asynccontextmanager
    async def start(listen="127.0.0.1:0"):
        settings = Settings(listen="127.0.0.1:0", health_listen=listen, data=tmp_path)
        gateway = Gateway(replace(dependencies, settings=settings))
        await gateway.start()
        try:
            yield gateway
        finally:
            await gateway.stop(grace_s=0)

    return start


def probed(address, service=""):
    """Return the status that a probe gets, without the event loop."""
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(request, timeout=LONG_S, wait_for_ready=True).status


def on(port):
    return f"127.0.0.1:{port}"


async def test_a_probe_is_answered_while_the_event_loop_is_blocked(started, monkeypatch):
    monkeypatch.setattr(health, "TIMEOUT_S", LONG_S)
    async with started() as gateway:
        assert await asyncio.to_thread(probed, on(gateway.port)) == SERVING
        for service in ("", SEARCH):
            assert probed(on(gateway.health_port), service) == SERVING


async def test_an_event_loop_that_is_blocked_for_too_long_is_reported_while_and_after_it_is(
    started, monkeypatch, wait_for
):
    monkeypatch.setattr(health, "INTERVAL_S", 0.05)
    async with started() as gateway, watching(on(gateway.port)) as seen:
        assert await seen() == SERVING
        address = on(gateway.health_port)
        wait_for(lambda: probed(address) == NOT_SERVING, "the process to notice")
        assert await seen() == NOT_SERVING
        assert await seen() == SERVING


async def test_probes_follow_redis_and_the_shutdown(started, ledger, monkeypatch):
    monkeypatch.setattr(health, "INTERVAL_S", 0.05)
    monkeypatch.setattr(health, "TIMEOUT_S", LONG_S)
    async with started() as gateway, watching(on(gateway.health_port)) as seen:
        assert await seen() == SERVING
        ledger.is_away = True
        assert await seen() == NOT_SERVING
        ledger.is_away = False
        assert await seen() == SERVING
        stopping = asyncio.create_task(gateway.stop(grace_s=0))
        assert await seen() == NOT_SERVING
        await stopping
        assert not children()


@asynccontextmanager
async def watching(address):
    async with grpc.aio.insecure_channel(address) as channel:
        answers = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())

        async def status():
            return (await asyncio.wait_for(answers.read(), LONG_S)).status

        yield status


def children():
    """Return the ids of the processes that answer probes for this one."""
    lists = Path("/proc/self/task").glob("*/children")
    pids = {int(pid) for one in lists for pid in one.read_text().split()}
    return {pid for pid in pids if b"gateway.probes" in command_of(pid)}


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended since
        return b""


async def test_a_process_that_dies_is_replaced_on_its_port(started, monkeypatch, wait_for):
    monkeypatch.setattr(health, "INTERVAL_S", 0.05)
    monkeypatch.setattr(health, "TIMEOUT_S", LONG_S)
    async with started() as gateway:
        address, first = on(gateway.health_port), children()
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(wait_for, lambda: children() - first, "another process")
        await asyncio.to_thread(wait_for, lambda: probed(address) == SERVING, "its answer")
    assert not children()


async def test_a_socket_can_be_probed(started, tmp_path):
    address = f"unix:{tmp_path}/health.sock"
    async with started(address):
        assert await asyncio.to_thread(probed, address) == SERVING


async def test_a_taken_address_is_refused_by_name(started):
    async with started() as gateway:
        with pytest.raises(InvalidSettings, match=r"CODELODE_HEALTH_LISTEN=.*another gateway"):
            async with started(on(gateway.health_port)):
                raise AssertionError


async def test_a_malformed_address_is_refused_with_an_example(started):
    with pytest.raises(InvalidSettings, match=r"CODELODE_HEALTH_LISTEN='x' .*127\.0\.0\.1:50052"):
        async with started("x"):
            raise AssertionError


async def test_the_probe_process_gets_no_settings(started, monkeypatch):
    monkeypatch.setenv("CODELODE_TOKEN", "secret")
    async with started():
        (pid,) = children()
        assert "secret" not in Path(f"/proc/{pid}/environ").read_text()


@contextmanager
def reports():
    """A pipe like that between gateway and probe process, and the changes that it receives."""
    read, write = os.pipe()
    try:
        yield read, lambda said: os.write(write, said), lambda: os.close(write)
    finally:
        os.close(read)


def test_health_is_what_the_last_report_says_until_the_reports_end():
    with reports() as (read, say, close):
        seen = changes(read, silence_s=LONG_S)
        say(UNHEALTHY + HEALTHY)
        assert next(seen) is True
        say(HEALTHY + UNHEALTHY)
        assert next(seen) is False
        say(HEALTHY)
        assert next(seen) is True
        close()
        assert list(seen) == []


def test_missing_reports_mean_unhealthy():
    with reports() as (read, say, close):
        seen = changes(read, silence_s=0.1)
        say(HEALTHY)
        assert [next(seen), next(seen)] == [True, False]
        say(HEALTHY)
        assert next(seen) is True
        close()
