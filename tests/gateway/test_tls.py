"""TLS between real clients and a real gateway: certificates, their replacement, and mistakes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

import pytest
from structlog.testing import capture_logs

from codelode import certificates
from codelode.client import AsyncClient, Client, Tls
from codelode.errors import CodelodeError, InvalidSettings, Unauthenticated, Unavailable
from codelode.settings import Settings
from gateway.app import Gateway
from gateway.tls import ServerCertificate
from tests.authorities import Authority

HOST = "127.0.0.1"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "tls")


@pytest.fixture
def issued(authority):
    return authority.issue("search.example", HOST)


@pytest.fixture
async def serve(dependencies, tmp_path):
    """Return a function that starts a gateway with the settings; it is stopped in the end."""
    started = []

    async def start(**settings):
        given = Settings(**{"listen": f"{HOST}:0", "data": tmp_path, **settings})
        gateway = Gateway(replace(dependencies, settings=given))
        await gateway.start()
        started.append(gateway)
        return gateway

    yield start
    for gateway in started:
        await gateway.stop(grace_s=0)


async def asked(address, **options):
    """Ask the gateway once over a new connection."""
    async with AsyncClient(address, timeout_s=10, **options) as client:
        return (await client.status()).chunks


async def refusal(address, **options):
    with pytest.raises(CodelodeError) as refused:
        await asked(address, **options)
    return refused.value


@pytest.fixture
async def secure(serve, issued):
    gateway = await serve(**issued.settings)
    return f"grpcs://{HOST}:{gateway.port}"


async def test_a_client_that_trusts_the_authority_is_served(secure, authority, monkeypatch):
    assert await asked(secure, tls=Tls(str(authority.root))) == 0
    monkeypatch.setenv("CODELODE_TLS_CA", str(authority.root))
    assert await asked(secure) == 0

    def blocking():
        with Client(secure) as client:
            return client.is_serving(), client.status().chunks

    assert await asyncio.to_thread(blocking) == (True, 0)


async def test_the_token_goes_over_tls(serve, issued, authority):
    gateway = await serve(**issued.settings, token="sesame")
    address, ca = f"grpcs://{HOST}:{gateway.port}", str(authority.root)

    assert await asked(address, tls=Tls(ca), token="sesame") == 0
    assert isinstance(await refusal(address, tls=Tls(ca), token="wrong"), Unauthenticated)


async def test_a_certificate_of_an_unknown_authority_is_refused_with_the_setting(secure, tmp_path):
    other = Authority(tmp_path / "other")
    for options in ({}, {"tls": Tls(str(other.root))}):
        error = await refusal(secure, **options)
        assert isinstance(error, InvalidSettings)
        assert "set CODELODE_TLS_CA" in str(error)
        assert secure in str(error)


async def test_a_certificate_for_another_name_is_refused(serve, authority):
    gateway = await serve(**authority.issue("search.example").settings)
    address, ca = f"grpcs://{HOST}:{gateway.port}", str(authority.root)

    error = await refusal(address, tls=Tls(ca))
    assert isinstance(error, InvalidSettings)
    assert "is for another name" in str(error)
    assert await asked(address, tls=Tls(ca, "search.example")) == 0


async def test_a_client_without_tls_is_told_the_address_with_tls(secure):
    error = await refusal(secure.removeprefix("grpcs://"))

    assert isinstance(error, Unavailable)
    assert secure in str(error)


async def test_a_client_with_tls_is_told_that_the_server_uses_none(gateway):
    error = await refusal(f"grpcs://{HOST}:{gateway.port}")

    assert isinstance(error, InvalidSettings)
    assert "the server does not use TLS" in str(error)


@pytest.mark.parametrize("file", ["certificate", "key"])
async def test_a_gateway_whose_certificate_cannot_be_read_does_not_start(serve, issued, file):
    getattr(issued, file).unlink()

    with pytest.raises(InvalidSettings, match=str(getattr(issued, file))):
        await serve(**issued.settings)


async def test_a_new_connection_gets_the_new_certificate_and_an_old_one_stays(
    secure, authority, issued
):
    ca = str(authority.root)
    async with AsyncClient(secure, tls=Tls(ca), timeout_s=10) as before:
        await before.status()
        authority.issue("elsewhere.example")

        assert "is for another name" in str(await refusal(secure, tls=Tls(ca)))
        assert await asked(secure, tls=Tls(ca, "elsewhere.example")) == 0
        await before.status()


async def test_files_that_cannot_be_used_leave_the_old_certificate_in_use(
    secure, authority, issued
):
    ca, right = str(authority.root), issued.key.read_bytes()
    with capture_logs() as logged:
        half = issued.key.with_suffix(".half")
        half.write_bytes(right[: len(right) // 2])
        half.replace(issued.key)  # at once: the gateway also looks by itself
        assert await asked(secure, tls=Tls(ca)) == 0
        issued.key.unlink()
        assert await asked(secure, tls=Tls(ca)) == 0
        authority.issue("elsewhere.example", days=(-9, -1))
        assert await asked(secure, tls=Tls(ca)) == 0
    said = [line for line in logged if line["event"] == "certificate_not_replaced"]
    reasons = [next(part for part in PARTS if part in line["reason"]) for line in said]
    # The gateway reports files again that it still cannot use when it looks by itself.
    assert [reason for reason, _ in groupby(reasons)] == [
        "no usable private key",
        "cannot read",
        "expired at",
    ]

    authority.issue("elsewhere.example")
    assert await asked(secure, tls=Tls(ca, "elsewhere.example")) == 0


PARTS = ("no usable private key", "cannot read", "expired at")


@pytest.mark.parametrize(
    ("days", "events"),
    [
        ((-1, 90), []),
        ((-80, 13), ["certificate_expires"]),
        ((-1, 5), []),
        ((-4, 2), ["certificate_expires"]),
    ],
    ids=["new", "of months, near its end", "of days, new", "of days, near its end"],
)
def test_a_certificate_that_ends_soon_is_reported_once_a_day(authority, days, events):
    issued = authority.issue("search.example", days=days)
    found = ServerCertificate(issued.certificate, issued.key)

    with capture_logs() as logged:
        found.look()
        found.look()

    assert [line["event"] for line in logged] == events


def test_a_replaced_certificate_is_noticed_before_anyone_connects(authority):
    issued = authority.issue("search.example", days=(-80, 13))
    found = ServerCertificate(issued.certificate, issued.key)
    authority.issue("search.example")

    with capture_logs() as logged:
        found.look()

    assert [line["event"] for line in logged] == ["certificate_replaced"]


def test_a_certificate_that_is_not_valid_yet_is_used_as_soon_as_it_is(authority, monkeypatch):
    issued = authority.issue("search.example", days=(-80, 5))
    found = ServerCertificate(issued.certificate, issued.key)
    authority.issue("search.example", days=(0.5, 90))

    with capture_logs() as logged:
        found.look()
        monkeypatch.setattr(certificates, "datetime", Tomorrow)
        found.look()

    events = [line["event"] for line in logged]
    assert events[0] == "certificate_not_replaced"
    assert events[-1] == "certificate_replaced"


class Tomorrow(datetime):
    """The clock, a day ahead."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=1)
