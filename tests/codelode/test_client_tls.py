"""A client sends its token to other machines only over TLS; errors explain the address format."""

from __future__ import annotations

import pytest

from codelode.client import AsyncClient, Client, Tls
from codelode.errors import InvalidSettings


@pytest.fixture(params=[Client, AsyncClient], ids=["blocking", "asynchronous"])
def connect(request):
    return request.param


@pytest.mark.parametrize("address", ["search.example:50051", "10.0.0.1:1", "[2001:db8::1]:1"])
def test_a_token_is_not_sent_to_another_machine_without_tls(connect, monkeypatch, address):
    with pytest.raises(InvalidSettings, match=r"write grpcs://.*CODELODE_TOKEN_WITHOUT_TLS=true"):
        connect(address, token="sesame")
    monkeypatch.setenv("CODELODE_TOKEN", "sesame")
    with pytest.raises(InvalidSettings, match="is not sent") as refused:
        connect(address)
    assert "sesame" not in str(refused.value)

    connect(address, token="")
    connect(f"grpcs://{address}")
    monkeypatch.setenv("CODELODE_TOKEN_WITHOUT_TLS", "true")
    connect(address)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "[::1]:1"])
def test_a_token_is_sent_on_loopback(connect, address):
    connect(address, token="sesame")


@pytest.mark.parametrize(
    "address",
    ["https://host:1", "grpcs://host", "grpcs://", "grpcs://grpcs://host:1", "grpc://h:1"],
)
def test_another_form_of_address_is_refused_with_the_right_ones(connect, address):
    with pytest.raises(InvalidSettings, match=r"write HOST:PORT, .* or grpcs://HOST:PORT"):
        connect(address)


def test_a_file_of_authorities_that_cannot_be_read_is_named(connect, tmp_path):
    with pytest.raises(InvalidSettings, match=str(tmp_path / "ca.pem")):
        connect("grpcs://host:1", tls=Tls(str(tmp_path / "ca.pem")))
