"""A client finds its login by the address of the gateway, and renews it."""

from __future__ import annotations

import asyncio
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from codelode.client import AsyncClient, Client, login
from codelode.client.login import Login
from codelode.cluster import login_file
from codelode.errors import InvalidSettings, Unauthenticated, Unavailable


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("CODELODE_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def logged_in(issuer, gateway, data):
    """Return a function that stores a login at the gateway, with a token that lasts so long."""

    def keep(seconds=300, refresh="first", address=gateway.address):
        token = issuer.token(exp=int(time.time() + seconds))
        made = Login(issuer.url, "codelode", f"{issuer.url}/token", token, refresh)
        login.keep(address, made, data)
        return token

    return keep


def asked(address):
    with Client(address) as client:
        client.status()


def test_a_client_sends_the_token_of_its_login(logged_in, gateway):
    token = logged_in()

    asked(gateway.address)

    async def once():
        async with AsyncClient(gateway.address) as client:
            await client.status()

    asyncio.run(once())
    assert gateway.tokens == [f"Bearer {token}"] * 2


def test_only_this_user_can_read_a_login(logged_in, data):
    logged_in()

    file = login_file(data)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_login_at_one_gateway_is_not_sent_to_another(logged_in, gateway):
    logged_in(address="grpcs://search.example:50051")

    asked(gateway.address)

    assert gateway.tokens == []


def test_a_login_is_not_sent_to_another_machine_without_tls(logged_in):
    logged_in(address="search.example:50051")

    with pytest.raises(InvalidSettings, match="without TLS"):
        Client("search.example:50051")


@pytest.mark.parametrize("name", ["CODELODE_TOKEN", "CODELODE_TOKEN_FILE"])
def test_a_token_of_the_environment_counts_before_a_login(
    logged_in, gateway, monkeypatch, tmp_path, name
):
    logged_in()
    (tmp_path / "own").write_text("own")
    monkeypatch.setenv(name, {"CODELODE_TOKEN": "own"}.get(name, str(tmp_path / "own")))

    asked(gateway.address)

    assert gateway.tokens == ["Bearer own"]


def test_an_expiring_token_is_renewed_once_for_all_threads(logged_in, gateway, issuer, data):
    logged_in(seconds=10)
    fresh = issuer.token()
    issuer.granted = {"id_token": fresh, "refresh_token": "second"}

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(asked, [gateway.address] * 8))

    assert set(gateway.tokens) == {f"Bearer {fresh}"}
    (form,) = issuer.forms
    assert form == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["first"],
        "client_id": ["codelode"],
    }
    assert login.logins(data)[gateway.address].refresh_token == "second"


def test_a_client_that_lives_longer_than_its_token_renews_it(logged_in, gateway, issuer, data):
    first = logged_in()
    with Client(gateway.address) as client:
        client.status()
        logged_in(seconds=10)
        fresh = issuer.token()
        issuer.granted = {"id_token": fresh}
        client.status()

    assert gateway.tokens == [f"Bearer {first}", f"Bearer {fresh}"]
    assert login.logins(data)[gateway.address].refresh_token == "first"


@pytest.mark.parametrize("refresh", ["first", ""], ids=["refused", "none"])
def test_the_error_for_an_expired_login_names_the_command(logged_in, gateway, refresh):
    logged_in(seconds=-10, refresh=refresh)

    with pytest.raises(Unauthenticated, match=f"codelode login --server {gateway.address}"):
        asked(gateway.address)
    assert gateway.tokens == []
    with Client(gateway.address) as client:
        assert client.is_serving()  # which everybody may ask


def test_while_the_issuer_is_away_a_login_may_be_tried_again(logged_in, gateway, issuer, data):
    logged_in(seconds=-10)
    issuer.is_away = True

    with pytest.raises(Unavailable, match="status 503"):
        asked(gateway.address)
    assert login.logins(data)[gateway.address].refresh_token == "first"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": {"issuer": 1}}', '{"x": 1}'])
def test_a_damaged_file_is_named(data, gateway, content):
    login_file(data).parent.mkdir()
    login_file(data).write_text(content)

    with pytest.raises(InvalidSettings, match=f"{login_file(data)} cannot be read"):
        Client(gateway.address)


@pytest.mark.parametrize("url", ["http://login.example", "file:///etc/passwd", "login.example"])
def test_an_issuer_is_asked_over_https_only(url):
    with pytest.raises(InvalidSettings, match="must start with https"):
        login.described(url)


def test_an_issuer_with_another_name_in_its_description_is_refused(issuer):
    with pytest.raises(InvalidSettings, match="calls itself"):
        login.described(f"{issuer.url}/")
