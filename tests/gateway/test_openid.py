"""Tokens of OpenID Connect issuers are accepted; forged ones are refused."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import replace

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from codelode.access import Role
from codelode.backends.documents import MAX_BYTES, WebDocuments
from codelode.client import AsyncClient
from codelode.errors import InvalidSettings, Unauthenticated, Unavailable
from codelode.listeners import require_secure_listeners
from codelode.settings import Settings, load
from gateway.access.identity import Credentials
from gateway.access.openid import OpenIdConnect, Rules
from gateway.access.signing_keys import (
    MAX_AGE_S,
    REFRESH_S,
    UNKNOWN_KEY_PAUSE_S,
    SigningKeys,
)
from gateway.app import Gateway
from tests.issuers import AUDIENCE, Issuer, new_key
from tests.oidc_provider import running_provider
from tests.waiting import logged_principal


@pytest.fixture(scope="module")
def own_key():
    """Return a key of an attacker."""
    return new_key("own")


def settings(issuer, **given):
    return Settings(oidc_issuers=issuer.url, oidc_audience=AUDIENCE, **given)


def authenticator(issuer, **given):
    return OpenIdConnect.of(settings(issuer, **given), WebDocuments())


async def identity(issuer, token, **given):
    found = authenticator(issuer, **given)
    return await found.identity(Credentials(f"Bearer {token}"))


async def refusal(issuer, token, **given):
    with pytest.raises(Unauthenticated, match="the token of this call is not accepted: ") as said:
        await identity(issuer, token, **given)
    return str(said.value).partition("accepted: ")[2]


def encoded(value):
    text = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


async def test_a_token_says_who_the_caller_is(issuer):
    found = await identity(issuer, issuer.token())

    assert (found.name, found.role) == ("user:ann@example.org", Role.READER)
    assert found.groups == {"search", "payments"}


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["search"], Role.READER),
        (["ci", "search"], Role.INDEXER),
        (["ci", "Domain Admins"], Role.ADMIN),
        ("ci", Role.INDEXER),
        (None, Role.READER),
        ({"ci": True}, Role.READER),
        ([["ci"], 7], Role.READER),
    ],
)
async def test_groups_give_the_role(issuer, groups, role):
    given = {"oidc_indexers": "ci, builders", "oidc_admins": "Domain Admins"}

    assert (await identity(issuer, issuer.token(groups=groups), **given)).role is role


async def test_claims_can_have_other_names(issuer):
    given = {"oidc_name_claim": "sub", "oidc_groups_claim": "roles", "oidc_admins": "root"}
    token = issuer.token(email=None, roles=["root"], groups=["other"])

    found = await identity(issuer, token, **given)

    assert (found.name, found.role, found.groups) == ("user:248289761001", Role.ADMIN, {"root"})


@pytest.mark.parametrize("header", [{"typ": "JWT"}, {"typ": "at+jwt"}, {"x5t": "abc"}])
async def test_headers_of_real_issuers_are_accepted(issuer, header):
    assert await identity(issuer, issuer.token(header=header))


async def test_one_audience_of_several_suffices(issuer):
    assert await identity(issuer, issuer.token(aud=["account", AUDIENCE]))


async def test_a_token_with_an_elliptic_key_is_accepted(issuer):
    key = ECKey.generate_key("P-256", {"kid": "curve"})
    issuer.keys.append(key)

    assert await identity(issuer, issuer.token(key=key, alg="ES256"))


async def test_clocks_may_differ_a_little(issuer):
    now = int(time.time())
    late, early = issuer.token(exp=now - 30), issuer.token(nbf=now + 30, iat=now + 30)

    assert await identity(issuer, late)
    assert await identity(issuer, early)
    assert "expired" in await refusal(issuer, late, oidc_skew_s=0)
    assert await refusal(issuer, early, oidc_skew_s=0)


@pytest.mark.parametrize("authorization", ["", "Bearer sesame", "Basic eyJ.eyJ.x", "eyJ.eyJ.x"])
async def test_credentials_of_another_kind_are_ignored(issuer, authorization):
    assert await authenticator(issuer).identity(Credentials(authorization)) is None
    assert issuer.asked == []


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "tomorrow"}, "exp"),
        ({"nbf": int(time.time()) + 3600}, "not yet valid"),
        ({"iat": int(time.time()) + 3600}, "in the future"),
        ({"aud": "another"}, "aud"),
        ({"aud": ["another", "third"]}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": {"codelode": 1}}, "aud"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"iss": ["x"]}, "issuer"),
        ({"email": None}, "'email' (CODELODE_OIDC_NAME_CLAIM)"),
        ({"email": ""}, "'email'"),
        ({"email": "a\nadmin"}, "'email'"),
        ({"email": "a" * 300}, "'email'"),
        ({"email": ["ann@example.org"]}, "'email'"),
        ({"email_verified": False}, "verified"),
        ({"email_verified": "true"}, "verified"),
        ({"email_verified": None}, "verified"),
    ],
)
async def test_wrong_claims_are_refused(issuer, claims, reason):
    assert reason in await refusal(issuer, issuer.token(**claims))


@pytest.mark.parametrize("suffix", ["/", "/other"])
async def test_the_issuer_is_compared_exactly(issuer, suffix):
    assert "issuer" in await refusal(issuer, issuer.token(iss=f"{issuer.url}{suffix}"))


async def test_a_signature_of_another_key_is_refused(issuer, own_key):
    forged = issuer.token(key=own_key, header={"kid": "first"})

    assert "signature" in await refusal(issuer, forged)


async def test_a_changed_token_is_refused(issuer):
    header, _, signature = issuer.token().split(".")
    changed = encoded(issuer.claims(email="root@example.org"))

    assert "signature" in await refusal(issuer, f"{header}.{changed}.{signature}")
    assert await refusal(issuer, f"{header}.{changed}.")


@pytest.mark.parametrize("alg", ["none", "None", "nOnE", "", None, 7, ["RS256"]])
async def test_a_token_without_a_signature_is_refused(issuer, alg):
    token = f"{encoded({'alg': alg, 'kid': 'first'})}.{encoded(issuer.claims())}."

    assert "algorithm" in await refusal(issuer, token)


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
async def test_the_public_key_is_not_accepted_as_a_shared_secret(issuer, alg):
    """An attacker signs with the bytes of the public key, which everybody has."""
    public = issuer.keys[0]
    for secret in (public.as_pem(private=False), json.dumps(public.as_dict(private=False))):
        token = signed_with(secret, alg, issuer.claims())
        assert "algorithm" in await refusal(issuer, token)


def signed_with(secret, alg, claims):
    header = {"alg": alg, "kid": "first"}
    key = OctKey.import_key(base64.urlsafe_b64encode(as_bytes(secret)).decode(), {"use": "sig"})
    registry = jws.JWSRegistry(algorithms=[alg])
    return jws.serialize_compact(header, json.dumps(claims).encode(), key, [alg], registry)


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


async def test_an_allowed_algorithm_of_another_kind_than_the_key_is_refused(issuer):
    key = ECKey.generate_key("P-256", {"kid": "first"})
    forged = issuer.token(key=key, alg="ES256")

    assert await refusal(issuer, forged)


async def test_an_algorithm_that_is_not_in_the_list_is_refused(issuer):
    assert "algorithm" in await refusal(issuer, issuer.token(), oidc_algorithms="ES256")
    assert "algorithm" in await refusal(issuer, issuer.token(alg="RS512"))


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk", "x5c"])
async def test_keys_that_the_token_brings_are_ignored(issuer, own_key, name):
    stranger = Issuer()
    try:
        stranger.keys[:] = [own_key]
        brought = {
            "jku": f"{stranger.url}/keys",
            "x5u": f"{stranger.url}/keys",
            "jwk": own_key.as_dict(private=False),
            "x5c": ["MIIB"],
        }
        header = {name: brought[name]}
        forged = issuer.token(key=own_key, header={"kid": "first", **header})
        assert await refusal(issuer, forged)
        assert await refusal(issuer, issuer.token(key=own_key, header=header))
        assert stranger.asked == []
    finally:
        stranger.stop()


@pytest.mark.parametrize("kind", ["logout+jwt", "secevent+jwt", "JWE", 7])
async def test_a_token_for_another_purpose_is_refused(issuer, kind):
    header = {"alg": "RS256", "kid": "first", "typ": kind}
    token = f"{encoded(header)}.{encoded(issuer.claims())}.{encoded(b'x')}"

    assert "type" in await refusal(issuer, token)


async def test_a_critical_header_that_is_not_understood_is_refused(issuer):
    header = {"alg": "RS256", "kid": "first", "crit": ["exp"], "exp": 1}
    token = f"{encoded(header)}.{encoded(issuer.claims())}.{encoded(b'x' * 256)}"

    assert await refusal(issuer, token)


@pytest.mark.parametrize(
    "token",
    ["eyJ..", "eyJ.eyJ.eyJ", "eyJhIjoxfQ.bnVsbA.x", "eyJhIjoxfQ.WzFd.x", "eyJ\xff.eyJ.x"],
)
async def test_a_malformed_token_is_refused(issuer, token):
    assert await refusal(issuer, token)
    assert issuer.asked == []


async def test_deep_and_huge_tokens_are_refused_unread(issuer):
    deep = f"{encoded({'alg': 'RS256'})}.{encoded(b'[' * 8_000)}.x"
    huge = f"{encoded({'alg': 'RS256'})}.{'A' * 1_000_000}.x"

    assert await refusal(issuer, deep)
    assert "longer than" in await refusal(issuer, huge)
    assert issuer.asked == []


# Keys


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keys(issuer, clock):
    return SigningKeys(issuer.url, WebDocuments(), clock=clock)


async def test_keys_are_fetched_once_for_all_that_wait(issuer, keys):
    found = await asyncio.gather(*(keys.key("first") for _ in range(20)))

    assert {key.kid for key in found} == {"first"}
    assert issuer.fetches == 1


async def test_a_new_key_is_found_by_the_token_that_names_it(issuer, keys, clock, own_key):
    await keys.key("first")
    issuer.keys.append(own_key)
    clock.now += UNKNOWN_KEY_PAUSE_S + 1

    assert (await keys.key("own")).kid == "own"


async def test_forged_names_of_keys_cause_few_fetches(issuer, keys, clock):
    await keys.key("first")
    for n in range(1_000):
        clock.now += UNKNOWN_KEY_PAUSE_S / 100
        with pytest.raises(Unauthenticated):
            await keys.key(f"forged {n}")

    assert issuer.fetches <= 1 + 1_000 / 100
    assert issuer.fetches > 1


async def test_a_key_that_the_issuer_withdraws_is_forgotten(issuer, keys, clock, own_key):
    issuer.keys.append(own_key)
    await keys.key("own")
    del issuer.keys[1:]
    clock.now += REFRESH_S + 1

    assert (await keys.key("own")).kid == "own"  # begins to fetch, and does not wait
    async with asyncio.timeout(60):
        while await is_known(keys, "own"):
            await asyncio.sleep(0.01)


async def is_known(keys, name):
    try:
        await keys.key(name)
    except Unauthenticated:
        return False
    return True


async def test_while_the_issuer_is_away_the_last_keys_are_used_for_a_while(issuer, keys, clock):
    await keys.key("first")
    issuer.is_away = True
    began = clock.now
    while clock.now < began + MAX_AGE_S - 30:
        clock.now += 30
        assert (await keys.key("first")).kid == "first"
    clock.now = began + MAX_AGE_S + 1
    with pytest.raises(Unavailable, match="answers with status 503"):
        await keys.key("first")
    with pytest.raises(Unavailable):
        await keys.key("forged")

    issuer.is_away = False
    clock.now += 61
    assert (await keys.key("first")).kid == "first"


async def test_an_unreachable_issuer_is_asked_at_growing_intervals(issuer, keys, clock):
    issuer.is_away = True
    for _ in range(600):
        with pytest.raises(Unavailable):
            await keys.key("first")
        clock.now += 1

    assert 5 < len(issuer.asked) < 20


async def test_an_unknown_key_is_not_refused_while_the_issuer_is_away(issuer, keys, clock):
    await keys.key("first")
    issuer.is_away = True
    clock.now += UNKNOWN_KEY_PAUSE_S + 1

    with pytest.raises(Unavailable):
        await keys.key("second")


async def test_a_token_without_a_key_id_needs_an_issuer_with_one_key(issuer, keys, clock, own_key):
    assert (await keys.key(None)).kid == "first"
    issuer.keys.append(own_key)
    fresh = SigningKeys(issuer.url, WebDocuments(), clock=clock)
    with pytest.raises(Unauthenticated):
        await fresh.key(None)


async def test_keys_that_cannot_verify_safely_are_left_out(issuer, keys):
    issuer.further = [
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"},
        {**issuer.keys[0].as_dict(private=False), "kid": "encryption", "use": "enc"},
        {"kty": "RSA", "kid": "damaged", "n": "AQAB"},
        {"kty": "AKP", "kid": "future"},
        *("text", None, 7),
    ]

    assert (await keys.key("first")).kid == "first"
    for name in ("shared", "encryption", "damaged", "future"):
        with pytest.raises(Unauthenticated):
            await keys.key(name)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b'{"keys": []}', b'{"keys": 7}'),
        *(b"[" * 100_000, b" " * (MAX_BYTES + 1)),
    ],
    ids=["empty", "page", "list", "no keys", "no list", "deep", "huge"],
)
async def test_an_invalid_key_set_makes_the_issuer_unavailable(issuer, keys, body):
    issuer.body = body

    with pytest.raises(Unavailable, match=issuer.url):
        await keys.key("first")


@pytest.mark.parametrize(
    "description",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://keys.example/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
    ],
)
async def test_a_misleading_discovery_document_is_refused(issuer, keys, description):
    issuer.description = description

    with pytest.raises(Unavailable):
        await keys.key("first")
    assert issuer.fetches == 0


# A real provider


@pytest.fixture
def provider(tmp_path):
    with running_provider(tmp_path) as issuer:
        yield issuer


@pytest.mark.server
async def test_tokens_of_a_real_provider_are_accepted(provider):
    given = {"oidc_issuers": provider, "oidc_audience": AUDIENCE, "oidc_admins": "search"}
    found = OpenIdConnect.of(Settings(**given), WebDocuments())
    token = await asyncio.to_thread(token_of_client, provider)

    identity = await found.identity(Credentials(f"Bearer {token}"))

    assert (identity.name, identity.role) == ("user:ci@example.org", Role.ADMIN)
    other = OpenIdConnect.of(Settings(**{**given, "oidc_audience": "other"}), WebDocuments())
    with pytest.raises(Unauthenticated, match="aud"):
        await other.identity(Credentials(f"Bearer {token}"))


def token_of_client(issuer):
    """Return the token that a program gets with its own secret."""
    where = httpx.get(f"{issuer}/.well-known/openid-configuration").json()["token_endpoint"]
    form = {"grant_type": "client_credentials"}
    return httpx.post(where, data=form, auth=("ci", "secret")).json()["access_token"]


# Settings and the whole gateway


@pytest.mark.parametrize(
    "given",
    [
        {"oidc_issuers": "login.example.com"},
        {"oidc_issuers": "http://login.example.com"},
        {"oidc_algorithms": "HS256"},
        {"oidc_algorithms": "RS256,none"},
        {"oidc_algorithms": ""},
    ],
)
def test_unsafe_settings_are_refused_by_name(given):
    (name,) = given
    with pytest.raises(InvalidSettings, match=f"CODELODE_{name.upper()}="):
        load(**given)


def test_an_issuer_needs_an_audience(issuer):
    with pytest.raises(InvalidSettings, match="CODELODE_OIDC_AUDIENCE"):
        require_secure_listeners(Settings(oidc_issuers=issuer.url))


def test_configuring_an_issuer_counts_as_authentication(issuer):
    require_secure_listeners(settings(issuer, listen="0.0.0.0:1", tls_terminated_by_proxy=True))


def test_the_rules_are_those_of_the_settings(issuer):
    given = settings(issuer, oidc_algorithms="ES256, RS256", oidc_admins="a, b c")

    rules = Rules.of(given)

    assert rules.algorithms == ("ES256", "RS256")
    assert rules.admins == {"a", "b c"}


@pytest.fixture
async def gateway(dependencies, issuer, tmp_path):
    given = settings(issuer, listen="127.0.0.1:0", data=tmp_path, token="sesame")
    gateway = Gateway(replace(dependencies, settings=given))
    await gateway.start()
    yield gateway
    await gateway.stop(grace_s=0)


async def principal(gateway, token):
    async with AsyncClient(f"127.0.0.1:{gateway.port}", token=token, timeout_s=10) as client:
        return await logged_principal(client.status())


async def test_a_gateway_accepts_tokens_of_the_issuer_and_its_own(gateway, issuer):
    assert await principal(gateway, issuer.token()) == "user:ann@example.org"
    assert await principal(gateway, "sesame") == "token"
    for wrong in (
        "",
        "wrong",
        issuer.token(aud="another"),
        "eyJ.eyJ.x",
        f"eyJ.{'A' * 13_000}.x",
        f"eyJ.{'A' * 99_000}.x",
    ):
        with pytest.raises(Unauthenticated):
            await principal(gateway, wrong)


async def test_while_the_issuer_is_away_callers_are_asked_to_try_again(gateway, issuer):
    issuer.is_away = True

    with pytest.raises(Unavailable, match="cannot be checked now"):
        await principal(gateway, issuer.token())
    assert await principal(gateway, "sesame") == "token"


async def test_without_a_shared_token_nobody_is_anonymous(dependencies, issuer, tmp_path):
    given = settings(issuer, listen="127.0.0.1:0", data=tmp_path)
    gateway = Gateway(replace(dependencies, settings=given))
    await gateway.start()
    try:
        for wrong in ("", "wrong"):
            with pytest.raises(Unauthenticated):
                await principal(gateway, wrong)
        assert await principal(gateway, issuer.token()) == "user:ann@example.org"
    finally:
        await gateway.stop(grace_s=0)
