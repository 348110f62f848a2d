"""Callers authenticate by a client certificate over real TLS; forged ones are refused."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from codelode.client import AsyncClient, Tls
from codelode.errors import InvalidSettings, Unauthenticated, Unavailable
from codelode.listeners import require_secure_listeners
from codelode.settings import Settings
from codelode.v1 import index_pb2, index_pb2_grpc
from gateway.app import Gateway
from tests.authorities import Authority
from tests.http_gateways import serving
from tests.waiting import logged_principal

HOST = "127.0.0.1"


@pytest.fixture
def servers(tmp_path):
    return Authority(tmp_path / "servers")


@pytest.fixture
def clients(tmp_path):
    return Authority(tmp_path / "clients")


@pytest.fixture
def files(servers, clients):
    own = servers.issue("search.example", HOST).settings
    return {**own, "tls_client_ca": str(clients.root), "listen_mtls": f"{HOST}:0"}


@pytest.fixture
def token():
    return ""


@pytest.fixture
async def gateway(dependencies, files, token, tmp_path):
    given = Settings(listen=f"{HOST}:0", data=tmp_path, token=token, **files)
    gateway = Gateway(replace(dependencies, settings=given))
    await gateway.start()
    yield gateway
    await gateway.stop(grace_s=0)


@pytest.fixture
def ask(gateway, servers):
    """Return a function that asks with a certificate and returns the principal that was seen."""

    async def asked(issued=None, *, port=None, token=""):
        own = () if issued is None else (str(issued.certificate), str(issued.key))
        tls = Tls(str(servers.root), "", *own)
        address = f"grpcs://{HOST}:{port or gateway.mtls_port}"
        async with AsyncClient(address, timeout_s=10, token=token, tls=tls) as client:
            return await logged_principal(client.status())

    return asked


@pytest.mark.parametrize("name", ["ci.example", "bob@example.com", "10.0.0.7"])
async def test_a_caller_is_named_after_the_first_alternative_name(ask, clients, name):
    issued = clients.issue(name, "other.example", common_name="admin")

    assert await ask(issued) == f"certificate:{name}"


async def test_a_client_finds_its_certificate_in_the_environment(ask, clients, monkeypatch):
    issued = clients.issue("ci.example")
    monkeypatch.setenv("CODELODE_TLS_CLIENT_CERTIFICATE", str(issued.certificate))
    with pytest.raises(InvalidSettings, match="set both"):
        await ask()
    monkeypatch.setenv("CODELODE_TLS_CLIENT_KEY", str(issued.key))

    assert await ask() == "certificate:ci.example"


async def test_a_client_without_a_certificate_cannot_connect(ask):
    with pytest.raises(Unavailable, match="set CODELODE_TLS_CLIENT_CERTIFICATE and"):
        await ask()


async def test_a_certificate_of_another_authority_is_refused(ask, servers, tmp_path):
    for authority in (Authority(tmp_path / "stranger"), servers):
        with pytest.raises(Unavailable, match="signed by an authority which it trusts"):
            await ask(authority.issue("ci.example", file="client"))


async def test_a_certificate_without_an_alternative_name_identifies_no_caller(ask, clients):
    with pytest.raises(Unauthenticated):
        await ask(clients.issue(common_name="admin"))


async def test_with_client_certificates_no_caller_is_anonymous(ask, clients, gateway):
    with pytest.raises(Unauthenticated):
        await ask(port=gateway.port)
    with pytest.raises(Unauthenticated):  # that address does not verify certificates
        await ask(clients.issue("ci.example"), port=gateway.port)


@pytest.mark.parametrize("token", ["sesame"])
async def test_a_token_counts_before_the_certificate(ask, clients, gateway):
    issued = clients.issue("ci.example")

    assert await ask(issued) == "certificate:ci.example"
    assert await ask(issued, token="sesame") == "token"
    assert await ask(port=gateway.port, token="sesame") == "token"
    with pytest.raises(Unauthenticated):
        await ask(issued, token="wrong")


async def test_a_replaced_authority_counts_from_the_next_connection_on(ask, clients, tmp_path):
    issued = clients.issue("ci.example")
    assert await ask(issued) == "certificate:ci.example"
    other = Authority(tmp_path / "next")
    other.root.replace(clients.root)

    with pytest.raises(Unavailable):
        await ask(issued)
    assert await ask(other.issue("ci.example")) == "certificate:ci.example"


#: Headers in which proxies tell a server the certificate of the caller.
FORGED = (
    ("x-forwarded-client-cert", "By=x;Hash=0;Subject=CN=admin;URI=admin"),
    ("x-client-cert", "admin"),
    ("x-ssl-client-s-dn", "CN=admin"),
    ("x509_subject_alternative_name", "admin"),
    ("x-forwarded-for", HOST),
    ("x-forwarded-user", "admin"),
)


async def test_headers_of_a_proxy_identify_no_caller(dependencies, tmp_path):
    behind = Settings(
        listen=f"{HOST}:0", data=tmp_path, token="sesame", tls_terminated_by_proxy=True
    )
    gateway = Gateway(replace(dependencies, settings=behind))
    await gateway.start()
    try:
        async with grpc.aio.insecure_channel(f"{HOST}:{gateway.port}") as channel:
            status = index_pb2_grpc.IndexServiceStub(channel).GetStatus
            for header in FORGED:
                with pytest.raises(grpc.RpcError) as refused:
                    await status(index_pb2.GetStatusRequest(), metadata=(header,))
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    finally:
        await gateway.stop(grace_s=0)


async def test_headers_of_a_proxy_identify_no_caller_over_http(tmp_path):
    async with serving(tmp_path, tls_terminated_by_proxy=True) as (client, _):
        del client.headers["authorization"]
        for header in FORGED:
            for path in ("/api/v1/status", "/repositories"):
                answer = await client.get(path, headers=dict([header]))
                is_sent_to_sign_in = answer.headers.get("location", "").startswith("/sign-in")
                assert answer.status_code == 401 or is_sent_to_sign_in
                assert "acme/app" not in answer.text
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            answer = await client.post("/mcp", headers=dict([header]), json=asked)
            assert answer.status_code == 401


@pytest.mark.parametrize(
    "missing", ["listen_mtls", "tls_client_ca", ("tls_certificate", "tls_key")]
)
def test_the_error_names_the_settings_that_client_certificates_need(files, missing):
    left = {name: value for name, value in files.items() if name not in missing}

    with pytest.raises(InvalidSettings, match="client certificates need all of"):
        require_secure_listeners(Settings(**left))


def test_a_malformed_address_for_client_certificates_is_named(files):
    with pytest.raises(InvalidSettings, match="CODELODE_LISTEN_MTLS='50053' must have the form"):
        require_secure_listeners(Settings(**{**files, "listen_mtls": "50053"}))


def test_the_address_for_client_certificates_may_be_reached_by_others(files):
    require_secure_listeners(Settings(**{**files, "listen_mtls": "0.0.0.0:50053"}))


def test_others_do_not_reach_that_address_with_a_token_that_can_be_guessed(files):
    def required(listen, token):
        require_secure_listeners(Settings(**{**files, "listen_mtls": listen, "token": token}))

    with pytest.raises(
        InvalidSettings, match=r"LISTEN_MTLS='0.0.0.0:1': .* of fewer than 16 characters"
    ):
        required("0.0.0.0:1", "sesame")
    required("0.0.0.0:1", "sesame-of-16-chr")
    required("127.0.0.1:1", "sesame")
