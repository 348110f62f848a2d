"""Browsers have sessions at the HTTP port of a real gateway, and attacks on them fail."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from structlog.testing import capture_logs

from codelode.access import FRESH_S
from codelode.backends.documents import WebDocuments
from codelode.backends.memory.expiring_values import MemoryExpiringValues
from codelode.errors import Unavailable
from codelode.openid_flow import LoginRequest
from codelode.settings import Settings
from gateway.access.attempts import LOGINS_AT_ONCE
from gateway.sessions import LINK_S, Credential, sessions
from tests.http_gateways import RIGHT, TOKEN, answer_to_half_a_body, serving
from tests.issuers import AUDIENCE
from tests.oidc_provider import running_provider, through_the_pages
from tests.worlds import World

PAGE = "/search?q=load"


@asynccontextmanager
async def browsing(tmp_path, **settings):
    """A browser without credentials, and the gateway; it sends the origin as browsers do."""
    async with serving(tmp_path, **settings) as (client, gateway):
        del client.headers["authorization"]
        client.headers["origin"] = str(client.base_url).rstrip("/")
        yield client, gateway


@pytest.fixture
async def browser(tmp_path):
    async with browsing(tmp_path) as (client, _):
        yield client


def session_of(browser):
    return next((one for one in browser.cookies.jar if "codelode-session" in one.name), None)


async def signed_in(browser, secret=TOKEN, **form):
    return await browser.post("/sign-in", data={"secret": secret, **form})


async def new_key(browser, name="ann"):
    made = await browser.post("/api/v1/keys", json={"name": name, "role": "reader"}, headers=RIGHT)
    return made.json()["key"]


async def test_a_browser_signs_in_and_out(browser):
    before = await browser.get(PAGE)
    assert (before.status_code, before.headers["location"]) == (
        303,
        "/sign-in?next=%2Fsearch%3Fq%3Dload",
    )
    form = await browser.get(before.headers["location"])
    assert 'name="next" value="/search?q=load"' in form.text

    answer = await signed_in(browser, next=PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert "src/a.py" in (await browser.get(PAGE)).text

    kept = session_of(browser).value
    assert (await browser.post("/sign-out")).headers["location"] == "/sign-in"
    assert session_of(browser) is None
    assert (await replayed(browser, kept)).status_code == 303  # to the sign-in page


async def replayed(browser, session):
    """Return the answer to a page request with the cookie of a session."""
    return await browser.get(PAGE, headers=cookie_of(browser, session))


def cookie_of(browser, session):
    return {"cookie": f"codelode-session-{browser.base_url.port}={session}"}


@pytest.mark.parametrize(
    "secret", ["sesami", "codelode_0123456789abcdef_" + "x" * 43, "ü-sesame", "sesame sesame"]
)
async def test_a_wrong_secret_is_refused_with_a_page(browser, secret):
    answer = await signed_in(browser, secret)

    assert answer.status_code == 401
    assert 'role="alert"' in answer.text
    assert secret not in answer.text
    assert session_of(browser) is None


async def test_an_empty_secret_and_a_huge_form_are_refused(browser):
    assert (await signed_in(browser, " ")).status_code == 400
    huge = await signed_in(browser, "x" * 40_000)
    assert huge.status_code == 413
    assert "larger than 32,000 bytes" in huge.text


@pytest.mark.parametrize("path", ["/sign-in", "/repositories"])
async def test_a_form_that_the_page_does_not_have_is_refused(browser, path):
    await signed_in(browser)
    refused = await browser.post(path, data={f"field{number}": "x" for number in range(50)})

    assert refused.status_code == 400
    assert "is not a form of this page" in refused.text


async def test_a_form_that_does_not_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("gateway.api.web.forms.WITHIN_S", 0.2)
    async with browsing(tmp_path) as (_, gateway), asyncio.timeout(60):
        own = {"Sec-Fetch-Site": "same-origin"}
        answer = await answer_to_half_a_body(gateway, "/sign-in", **own)

    assert answer.startswith("HTTP/1.1 504 ")
    assert "was not sent within 0.2 s" in answer


async def test_the_cookie_is_bound_to_the_host_where_the_page_is_reached_by_tls(tmp_path):
    async with browsing(tmp_path, tls_terminated_by_proxy=True) as (browser, _):
        answer = await signed_in(browser)

    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-codelode-session=")
    assert "; Secure" in cookie
    assert "Path=/;" in cookie
    assert "omain" not in cookie


async def test_a_forged_cookie_is_refused_and_counted(tmp_path):
    async with browsing(tmp_path, limited=True, wrong_credentials_per_minute=6) as (browser, _):
        answers = [(await replayed(browser, f"forged{i}")) for i in range(4)]

    assert {one.status_code for one in answers[:1]} == {303}
    assert answers[-1].status_code == 429


async def test_the_store_alone_reveals_neither_credential_nor_session(tmp_path):
    values = MemoryExpiringValues()
    given = Settings(data=tmp_path, token=TOKEN)
    held = sessions(given, values, WebDocuments())
    id = await held.open(Credential(f"Bearer {TOKEN}"))

    ((name, (sealed, _)),) = values._held.items()
    assert id not in name
    assert TOKEN.encode() not in sealed
    assert await held.authorization(id) == f"Bearer {TOKEN}"
    assert (await signed_out(held, name)).startswith("you are signed out")
    other = await held.open(Credential("Bearer other"))
    (other_name,) = values._held.keys() - {name}
    values._held[other_name] = values._held[
        name
    ]  # as an attacker with write access to the store could
    assert await signed_out(held, other)


async def signed_out(held, id):
    with pytest.raises(Exception, match="signed out") as caught:
        await held.authorization(id)
    return str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # another port of this machine
        {"sec-fetch-site": "none"},
    ],
    ids=str,
)
async def test_another_site_changes_nothing_with_the_cookie(browser, headers):
    await signed_in(browser)

    key = {"name": "evil", "role": "admin"}
    assert (await browser.post("/api/v1/keys", json=key, headers=headers)).status_code == 401
    assert (await browser.delete("/api/v1/keys/ci", headers=headers)).status_code == 401
    assert (await browser.post("/sign-out", headers=headers)).status_code == 403
    assert (await browser.get(PAGE)).status_code == 200  # it is still signed in
    assert (
        await browser.post("/sign-in", data={"secret": TOKEN}, headers=headers)
    ).status_code == 403


async def test_scripts_of_the_page_call_the_api_with_the_cookie(browser):
    await signed_in(browser)
    for headers in ({}, {"sec-fetch-site": "same-origin", "origin": ""}):
        answer = await browser.post("/api/v1/search", json={"query": "load"}, headers=headers)
        assert answer.json()["hits"]


async def test_an_authorization_counts_before_the_cookie(browser):
    await signed_in(browser)
    wrong = {"authorization": "Bearer wrong"}
    answer = await browser.post("/api/v1/search", json={"query": "load"}, headers=wrong)
    assert answer.status_code == 401


async def test_signing_in_gives_a_new_session_and_ends_the_one_before(browser):
    port = browser.base_url.port
    chosen = {"cookie": f"codelode-session-{port}=chosen-by-somebody"}
    await browser.post("/sign-in", data={"secret": TOKEN}, headers=chosen)
    first = session_of(browser).value
    await signed_in(browser)
    assert len({first, session_of(browser).value, "chosen-by-somebody"}) == 3

    browser.cookies.clear()
    for ended in (first, "chosen-by-somebody"):
        assert (await replayed(browser, ended)).status_code == 303


@pytest.mark.parametrize(
    "there",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example/",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/\n/evil.example",
        "evil.example",
        "",
        "///evil.example",
    ],
    ids=repr,
)
async def test_signing_in_never_redirects_to_another_site(browser, there):
    assert 'name="next" value="/"' in (await browser.get("/sign-in", params={"next": there})).text
    assert (await signed_in(browser, next=there)).headers["location"] == "/"


async def test_a_key_that_is_revoked_is_refused_within_a_second(browser):
    key = await new_key(browser)
    await signed_in(browser, key)
    assert (await browser.get(PAGE)).status_code == 200

    await browser.delete("/api/v1/keys/ann", headers=RIGHT)
    assert FRESH_S < 1
    async with asyncio.timeout(60):
        while (answer := await browser.get(PAGE)).status_code == 200:
            await asyncio.sleep(0.01)
    assert "ended=1" in answer.headers["location"]
    assert session_of(browser) is None
    assert "You were signed out" in (await browser.get(answer.headers["location"])).text


async def test_a_session_has_the_rights_of_its_key_and_no_others(browser):
    await signed_in(browser, await new_key(browser))
    answer = await browser.post("/api/v1/keys", json={"name": "more", "role": "admin"})
    assert answer.status_code == 403
    assert "src/a.py" not in (await browser.get(PAGE)).text  # its repository has no label


# Single-use links


async def new_link(browser, headers=RIGHT):
    return await browser.post("/sign-in/link", headers=headers)


async def test_a_link_signs_one_browser_in_once(browser):
    made = (await new_link(browser)).json()
    assert made["expires_in_s"] == LINK_S

    answer = await browser.get(made["path"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (await browser.get(PAGE)).status_code == 200
    again = await browser.get(made["path"])
    assert again.status_code == 401
    assert "was used before" in again.text


async def test_only_callers_with_a_valid_token_get_a_sign_in_link(browser):
    assert (await new_link(browser, {})).status_code == 401
    assert (await new_link(browser, {"authorization": "Bearer wrong"})).status_code == 401
    await signed_in(browser)
    assert (await new_link(browser, {})).status_code == 401  # a cookie makes none


async def test_a_link_ends_after_a_minute(tmp_path):
    now = 0.0
    held = sessions(Settings(data=tmp_path), MemoryExpiringValues(lambda: now), WebDocuments())
    code, late = await held.link("Bearer x"), await held.link("Bearer x")
    now = LINK_S - 1
    assert (await held.taken(code)).authorization == "Bearer x"
    now = LINK_S
    with pytest.raises(Exception, match="older than 60 s"):
        await held.taken(late)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_site_cannot_sign_a_browser_in_by_a_link(browser, site):
    path = (await new_link(browser)).json()["path"]
    answer = await browser.get(path, headers={"sec-fetch-site": site})
    assert answer.status_code == 403
    assert (await browser.get(path, headers={"sec-purpose": "prefetch"})).status_code == 503
    assert (await browser.get(path, headers={"sec-fetch-site": "none"})).status_code == 303


async def test_no_secret_of_a_sign_in_is_logged(browser):
    with capture_logs() as logs:
        await signed_in(browser)
        await browser.get((await new_link(browser)).json()["path"])
        await browser.get("/sign-in/link?code=forged-code")
        await browser.get(PAGE)

    told = repr(logs)
    secrets = [TOKEN, session_of(browser).value, "forged-code"]
    assert [one for one in secrets if one in told] == []
    assert [one["code"] for one in logs if one.get("method") == "GET /sign-in/link"] == [
        "303",
        "401",
    ]


# Issuers of OpenID Connect


def with_issuer(issuer):
    return {"oidc_issuers": getattr(issuer, "url", issuer), "oidc_audience": AUDIENCE}


async def begun(browser, issuer, **query):
    """Return the parameters with which the browser is sent to the issuer."""
    answer = await browser.get("/sign-in/start", params={"issuer": issuer.url, **query})
    assert answer.status_code == 303
    url = urlsplit(answer.headers["location"])
    assert url.path == "/realm/auth"
    return {name: values[0] for name, values in parse_qs(url.query).items()}


async def back(browser, **query):
    return await browser.get("/sign-in/callback", params=query)


async def test_a_login_at_an_issuer_opens_a_session(tmp_path, issuer):
    async with browsing(tmp_path, **with_issuer(issuer)) as (browser, _):
        assert "/sign-in/start?issuer=" in (await browser.get("/sign-in")).text
        asked = await begun(browser, issuer, next=PAGE)
        issuer.granted = {"id_token": issuer.token(nonce=asked["nonce"])}
        answer = await back(browser, code="right", state=asked["state"])

        assert (answer.status_code, answer.headers["location"]) == (303, PAGE)
        assert "user:ann@example.org" in (await browser.get(PAGE)).text
    (form,) = issuer.forms
    assert form["redirect_uri"] == [asked["redirect_uri"]]
    proof = LoginRequest("", form["code_verifier"][0], "")
    assert (proof.challenge, "S256") == (asked["code_challenge"], asked["code_challenge_method"])


@pytest.mark.parametrize(
    ("query", "claims", "said"),
    [
        ({"state": "forged"}, {}, "not begun in this browser"),
        ({"state": ""}, {}, "not begun in this browser"),
        ({}, {"nonce": "other"}, "of another login"),
        ({}, {"iss": "https://evil.example"}, "of another login"),
        ({"iss": "https://evil.example"}, {}, "another issuer"),
        ({"code": None, "error": "access_denied"}, {}, "access_denied"),
        ({}, {"aud": "other"}, "is not accepted"),
        ({}, {"exp": 1}, "is not accepted"),
        ({}, None, "invalid_grant"),  # as for a verifier that is wrong
    ],
    ids=str,
)
async def test_an_invalid_login_opens_no_session(tmp_path, issuer, query, claims, said):
    async with browsing(tmp_path, **with_issuer(issuer)) as (browser, _):
        asked = await begun(browser, issuer)
        if claims is not None:
            issuer.granted = {"id_token": issuer.token(**{"nonce": asked["nonce"], **claims})}
        sent = {"code": "c", "state": asked["state"], **query}
        answer = await back(browser, **{name: one for name, one in sent.items() if one is not None})

        assert answer.status_code == 401
        assert said in answer.text
        assert session_of(browser) is None


async def test_a_login_works_once_and_only_in_the_browser_that_began_it(tmp_path, issuer):
    async with browsing(tmp_path, **with_issuer(issuer)) as (browser, _):
        asked = await begun(browser, issuer)
        issuer.granted = {"id_token": issuer.token(nonce=asked["nonce"])}
        kept = list(browser.cookies.jar)
        browser.cookies.clear()
        stolen = await back(browser, code="c", state=asked["state"])
        assert stolen.status_code == 401
        for one in kept:
            browser.cookies.jar.set_cookie(one)
        assert (await back(browser, code="c", state=asked["state"])).status_code == 303
        assert (await back(browser, code="c", state=asked["state"])).status_code == 401


async def test_only_known_issuers_are_asked_and_nobody_is_sent_elsewhere(tmp_path, issuer):
    async with browsing(tmp_path, **with_issuer(issuer)) as (browser, _):
        for unknown in ("", "https://evil.example"):
            answer = await browser.get("/sign-in/start", params={"issuer": unknown})
            assert answer.status_code == 404
        asked = await begun(browser, issuer, next="//evil.example")
        issuer.granted = {"id_token": issuer.token(nonce=asked["nonce"])}
        answer = await back(browser, code="c", state=asked["state"])
        assert answer.headers["location"] == "/"


async def test_an_issuer_that_is_away_is_reported(tmp_path, issuer):
    async with browsing(tmp_path, **with_issuer(issuer)) as (browser, _):
        issuer.is_away = True
        try:
            answer = await browser.get("/sign-in/start", params={"issuer": issuer.url})
        finally:
            issuer.is_away = False
        assert answer.status_code == 503
        assert "answers with status 503" in answer.text


async def forged_login(browser, number, issuer="0"):
    """Return the answer to a login that no browser began, with a cookie that the caller made up."""
    seed = f"forged{number}"
    return await browser.get(
        "/sign-in/callback",
        params={"code": "c", "state": LoginRequest.of(seed).state},
        headers={"cookie": f"codelode-login-{browser.base_url.port}={seed}.{issuer}.%2F"},
    )


def counting_logins(tmp_path, issuer):
    # 6 a minute and a burst of 1: two failures are counted before the address is blocked
    return browsing(tmp_path, limited=True, wrong_credentials_per_minute=6, **with_issuer(issuer))


async def test_failed_logins_of_an_address_are_refused_without_asking_the_issuer(tmp_path, issuer):
    async with counting_logins(tmp_path, issuer) as (browser, _):
        answers = [await forged_login(browser, number) for number in range(8)]

    assert [one.status_code for one in answers] == [401] * 2 + [429] * 6
    assert len(issuer.forms) == 2
    assert int(answers[-1].headers["retry-after"]) > 0
    assert "too many calls from 127.0.0.1 with logins were refused" in answers[-1].text


@pytest.mark.parametrize("number", ["1", "-1", "x", "", "²", "9" * 5_000])
async def test_logins_with_an_issuer_that_does_not_exist_are_limited(tmp_path, issuer, number):
    async with counting_logins(tmp_path, issuer) as (browser, _):
        answers = [await forged_login(browser, one, quote(number)) for one in range(3)]

    assert [one.status_code for one in answers] == [401, 401, 429]
    assert not issuer.forms


async def test_logins_that_fail_at_the_same_moment_are_limited(tmp_path, issuer):
    async with counting_logins(tmp_path, issuer) as (browser, _):
        answers = await asyncio.gather(*(forged_login(browser, number) for number in range(20)))

    assert {one.status_code for one in answers} == {401, 429}
    assert len(issuer.forms) <= 2 + LOGINS_AT_ONCE - 1


async def test_logins_count_as_failed_while_the_issuer_cannot_answer(tmp_path, issuer):
    async with counting_logins(tmp_path, issuer) as (browser, _):
        await begun(browser, issuer)  # has the gateway read the issuer's description
        issuer.is_away = True
        try:
            answers = [await forged_login(browser, number) for number in range(5)]
        finally:
            issuer.is_away = False

    assert [one.status_code for one in answers] == [503] * 2 + [429] * 3
    assert len(issuer.forms) == 2


async def test_successful_logins_do_not_count_as_failed(tmp_path, issuer):
    async with counting_logins(tmp_path, issuer) as (browser, _):
        for _ in range(5):
            asked = await begun(browser, issuer)
            issuer.granted = {"id_token": issuer.token(nonce=asked["nonce"])}
            answer = await back(browser, code="right", state=asked["state"])
            assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_failed_logins_do_not_stop_other_ways_to_sign_in(tmp_path, issuer):
    async with counting_logins(tmp_path, issuer) as (browser, _):
        for number in range(4):
            await forged_login(browser, number)
        assert (await signed_in(browser)).status_code == 303


async def test_forged_links_are_refused_without_being_looked_up(tmp_path):
    limits = {"limited": True, "wrong_credentials_per_minute": 6}
    async with browsing(tmp_path, **limits) as (browser, _):
        path = (await new_link(browser)).json()["path"]
        forged = [await browser.get(f"/sign-in/link?code=forged{number}") for number in range(4)]
        right = await browser.get(path)

    assert [one.status_code for one in (*forged, right)] == [401, 401, 429, 429, 429]


def held_with(tmp_path, issuer):
    given = Settings(data=tmp_path, **with_issuer(issuer))
    return sessions(given, MemoryExpiringValues(), WebDocuments())


def expiring(issuer, seconds):
    claims = issuer.claims()
    token = issuer.token(exp=claims["iat"] + seconds)
    return Credential(f"Bearer {token}", issuer.url, "refresh-1")


async def test_a_token_that_expires_soon_is_renewed_once(tmp_path, issuer):
    held = held_with(tmp_path, issuer)
    id = await held.open(expiring(issuer, 30))
    issuer.granted = {"id_token": issuer.token(jti="next"), "refresh_token": "refresh-2"}
    found = set(await asyncio.gather(*(held.authorization(id) for _ in range(10))))

    assert found == {f"Bearer {issuer.granted['id_token']}"}
    assert await held.authorization(id) in found
    assert [one["refresh_token"] for one in issuer.forms] == [["refresh-1"]]


async def test_a_refused_renewal_ends_the_session(tmp_path, issuer):
    held = held_with(tmp_path, issuer)
    id = await held.open(expiring(issuer, 30))

    assert "invalid_grant" in await signed_out(held, id)
    assert "invalid_grant" not in await signed_out(held, id)  # the issuer is not asked again
    assert len(issuer.forms) == 1


async def test_an_issuer_that_is_away_ends_no_session(tmp_path, issuer):
    held = held_with(tmp_path, issuer)
    soon, over = await held.open(expiring(issuer, 30)), await held.open(expiring(issuer, -30))
    issuer.is_away = True
    try:
        assert (await held.authorization(soon)).startswith("Bearer ")
        with pytest.raises(Unavailable):
            await held.authorization(over)
    finally:
        issuer.is_away = False
    issuer.granted = {"id_token": issuer.token()}
    assert await held.authorization(over) == f"Bearer {issuer.granted['id_token']}"


async def test_another_gateway_may_be_renewing_the_session(tmp_path, issuer):
    values = MemoryExpiringValues()
    given = Settings(data=tmp_path, **with_issuer(issuer))
    mine, others = (sessions(given, values, WebDocuments()) for _ in range(2))
    id = await mine.open(expiring(issuer, 30))
    issuer.granted = {"id_token": issuer.token(jti="next")}
    found = await asyncio.gather(mine.authorization(id), others.authorization(id))

    assert all(one.startswith("Bearer ") for one in found)
    assert len(issuer.forms) == 1


async def test_the_issuer_of_an_ended_session_forgets_its_refresh_token(tmp_path, issuer):
    held = held_with(tmp_path, issuer)
    await held.close(await held.open(expiring(issuer, 300)))
    await held.close("of no session")
    await held.close(await held.open(Credential("Bearer key")))
    await held.release()

    told = {"token": ["refresh-1"], "token_type_hint": ["refresh_token"], "client_id": [AUDIENCE]}
    assert issuer.forms == [told]


@pytest.mark.parametrize("endpoint", [None, "http://elsewhere.example/revoke"])
async def test_a_session_ends_even_if_its_token_cannot_be_revoked(tmp_path, issuer, endpoint):
    issuer.description = {"revocation_endpoint": endpoint}
    held = held_with(tmp_path, issuer)
    id = await held.open(expiring(issuer, 300))
    with capture_logs() as logs:
        await held.close(id)
        await held.release()

    assert "signed out" in await signed_out(held, id)
    assert issuer.forms == []
    told = [one["error"] for one in logs if one["event"] == "token_not_revoked"]
    assert told == (
        [f"{endpoint} is not fetched: its URL must start with https://"] if endpoint else []
    )


async def test_signing_out_succeeds_while_the_issuer_is_away(tmp_path, issuer):
    async with keeping(tmp_path, issuer) as (browser, held, _):
        asked = await begun(browser, issuer)
        token = issuer.token(nonce=asked["nonce"])
        issuer.granted = {"id_token": token, "refresh_token": "refresh-1"}
        await back(browser, code="c", state=asked["state"])
        issuer.is_away = True
        with capture_logs() as logs:
            answer = await browser.post("/sign-out")
            await held.release()

    assert answer.headers["location"] == "/sign-in"
    (told,) = [one["error"] for one in logs if one["event"] == "token_not_revoked"]
    assert told.endswith("answers with status 503")


@asynccontextmanager
async def keeping(tmp_path, issuer):
    """A browser, and the sessions of its gateway with their store."""
    values, given = MemoryExpiringValues(), Settings(data=tmp_path, **with_issuer(issuer))
    held = sessions(given, values, WebDocuments())
    dependencies = replace(World(given).dependencies, sessions=held)
    async with browsing(tmp_path, dependencies=dependencies, **with_issuer(issuer)) as (browser, _):
        yield browser, held, values


@pytest.mark.server
async def test_a_stolen_session_is_not_renewed_after_signing_out_at_a_real_provider(tmp_path):
    folder = tmp_path / "provider"
    folder.mkdir()
    with (
        running_provider(folder, ID_TOKEN_TTL="50") as provider,
        httpx.Client(follow_redirects=True, timeout=30) as walker,
    ):
        async with keeping(tmp_path, provider) as (client, held, values):
            start = f"{client.base_url}/sign-in/start?issuer={provider}"
            await asyncio.to_thread(through_the_pages, walker, start, name="ann")
            session, stolen = session_of(walker).value, dict(values._held)
            assert (await replayed(client, session)).status_code == 200
            stolen.update(values._held)  # renewed, because its token ends soon
            await client.post("/sign-out", headers=cookie_of(client, session))
            await held.release()
            values._held.update(stolen)
            answer = await replayed(client, session)

    assert answer.status_code == 303
    assert "/sign-in" in answer.headers["location"]


@pytest.mark.server
async def test_a_login_at_a_real_provider_opens_a_session_that_renews_itself(tmp_path):
    folder = tmp_path / "provider"
    folder.mkdir()
    with running_provider(folder, ID_TOKEN_TTL="50") as provider:
        async with browsing(tmp_path, **with_issuer(provider)) as (client, _):
            base = str(client.base_url)

            def walk():
                with httpx.Client(follow_redirects=True, timeout=30) as browser:
                    start = f"{base}/sign-in/start?issuer={provider}&next=/search?q=load"
                    first = through_the_pages(browser, start, name="ann")
                    return first, browser.get(first.url)  # its token ends soon

            with capture_logs() as logs:
                first, second = await asyncio.to_thread(walk)

    assert first.url.path == "/search"
    for page in (first, second):
        assert page.status_code == 200
        assert "user:ann@example.org" in page.text
    assert not re.search(r"eyJ|refresh", repr([one for one in logs if one["event"] == "http"]))
