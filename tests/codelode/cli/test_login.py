"""`codelode login` and `codelode logout` work with the pages of a real provider."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from codelode.backends.documents import WebDocuments
from codelode.client import login as logins
from codelode.client.login import Login
from codelode.openid_flow import LoginRequest
from codelode.settings import Settings
from gateway.access.identity import Credentials
from gateway.access.openid import OpenIdConnect
from tests.guardian import GUARDIAN
from tests.oidc_provider import running_provider, through_the_pages

pytestmark = pytest.mark.slow


@pytest.fixture
def provider(tmp_path):
    folder = tmp_path / "provider"
    folder.mkdir()
    with running_provider(folder, ID_TOKEN_TTL="50") as issuer:
        yield issuer


@pytest.fixture
def logging_in(gateway, tmp_path):
    """Return a function that starts `codelode login` and returns it with the URL to open."""
    started = []

    def start(issuer):
        where = ("--server", gateway.address, "--issuer", issuer)
        process = GUARDIAN.popen(
            [sys.executable, "-m", "codelode", "login", "--no-browser", *where],
            env={**os.environ, "CODELODE_DATA": str(tmp_path / "data")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        line = process.stderr.readline()
        assert "Log in with the browser: " in line, line
        return process, line.partition("browser: ")[2].strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.server
def test_a_login_at_a_real_provider_reaches_the_gateway(
    codelode, gateway, provider, logging_in, tmp_path
):
    process, url = logging_in(provider)
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        page = through_the_pages(browser, url, name="ann")
    assert "Return to the terminal" in page.text
    status, out, err = ended(process)
    assert (status, out) == (0, f"logged in at {gateway.address} as ann@example.org\n"), err

    first = logins.logins(tmp_path / "data")[gateway.address]
    assert first.refresh_token
    assert codelode("status", "--server", gateway.address).status == 0  # its token ends soon
    kept = logins.logins(tmp_path / "data")[gateway.address]
    assert gateway.tokens == [f"Bearer {kept.token}"]
    assert kept.refresh_token != first.refresh_token  # it was renewed
    rules = Settings(oidc_issuers=provider, oidc_audience="codelode")
    found = OpenIdConnect.of(rules, WebDocuments()).identity(Credentials(f"Bearer {kept.token}"))
    assert asyncio.run(found).name == "user:ann@example.org"

    answer = codelode("logout", "--server", gateway.address)
    assert (answer.status, answer.out) == (0, f"logged out at {gateway.address}\n")
    assert logins.logins(tmp_path / "data") == {}


def test_only_the_browser_of_the_login_can_answer(gateway, issuer, logging_in):
    process, url = logging_in(issuer.url)
    asked = parameters(url)
    back = asked["redirect_uri"]
    for forged in ("", "?code=stolen", "?code=stolen&state=", "?code=stolen&state=%C3%A9"):
        assert httpx.get(f"{back}{forged}").status_code == 404
    elsewhere = back.replace("callback", "other")
    assert httpx.get(f"{elsewhere}?state={asked['state']}").status_code == 404
    issuer.granted = {"id_token": issuer.token(nonce=asked["nonce"]), "refresh_token": "r"}
    assert httpx.get(f"{back}?code=right&state={asked['state']}").status_code == 200

    status, out, err = ended(process)
    assert status == 0, err
    assert "as ann@example.org" in out
    (form,) = issuer.forms
    assert (form["code"], form["redirect_uri"]) == (["right"], [back])
    assert LoginRequest("", form["code_verifier"][0], "").challenge == asked["code_challenge"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("error=access_denied&error_description=not+you", "not you"),
        ("code=c&iss=https://evil.example", "another issuer"),
        ("x=y", "no code came"),
        ("code=c", "invalid_grant"),
    ],
)
def test_a_login_that_is_refused_says_why(issuer, logging_in, tmp_path, answer, said):
    process, url = logging_in(issuer.url)
    asked = parameters(url)
    httpx.get(f"{asked['redirect_uri']}?{answer}&state={asked['state']}")

    status, _, err = ended(process)
    assert status == 2
    assert said in err
    assert logins.logins(tmp_path / "data") == {}


def test_a_token_of_another_login_is_refused(issuer, logging_in):
    process, url = logging_in(issuer.url)
    asked = parameters(url)
    issuer.granted = {"id_token": issuer.token(nonce="other"), "refresh_token": "r"}
    httpx.get(f"{asked['redirect_uri']}?code=c&state={asked['state']}")

    status, _, err = ended(process)
    assert status == 2
    assert "of another login" in err


def parameters(url):
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def test_logging_out_tells_the_issuer(codelode, gateway, issuer, tmp_path):
    token = issuer.token(exp=int(time.time()) + 300)
    made = Login(issuer.url, "codelode", f"{issuer.url}/token", token, "refresh")
    logins.keep(gateway.address, made, tmp_path / "data")

    assert codelode("logout", "--server", gateway.address).status == 0

    told = {"token": ["refresh"], "token_type_hint": ["refresh_token"], "client_id": ["codelode"]}
    assert issuer.forms == [told]
    again = codelode("logout", "--server", gateway.address)
    assert (again.status, "there is no login" in again.err) == (2, True)


def test_the_first_login_needs_an_issuer(codelode, gateway):
    answer = codelode("login", "--server", gateway.address)

    assert answer.status == 2
    assert "--issuer" in answer.err
