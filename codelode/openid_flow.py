"""The authorization code flow of OpenID Connect with PKCE, for commands and for the web page.

The caller sends the browser to the issuer with `LoginRequest.url`, and later exchanges the code
that the browser brings back for tokens (`code_form`). `tokens` checks that they belong to this
login; the gateway checks the rest, as for every token. This module imports only the standard
library, because clients use it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from codelode.errors import InvalidSettings, Unauthenticated

SCOPES = "openid email offline_access"


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """The secrets of one login, which tie the answer of the browser to the request."""

    state: str
    verifier: str
    nonce: str

    @classmethod
    def of(cls, seed: str) -> LoginRequest:
        """Derive the request from a secret seed; the same seed gives the same request."""
        return cls(*(_derived(seed, name) for name in ("state", "verifier", "nonce")))

    @property
    def challenge(self) -> str:
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def url(self, endpoint: str, *, client_id: str, redirect_uri: str, scope: str) -> str:
        """Return the URL of the issuer to which the browser is sent."""
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "scope": scope,
            "state": self.state,
            "nonce": self.nonce,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "prompt": "consent",  # without it, issuers give no refresh token
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def code_form(self, code: str, *, client_id: str, redirect_uri: str) -> dict[str, str]:
        """Return the form to post to the issuer's token endpoint for the code."""
        return {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": client_id,
            "code_verifier": self.verifier,
        }

    def has_state(self, given: str) -> bool:
        """Return whether this is the state with which the browser was sent."""
        return hmac.compare_digest(given.encode(), self.state.encode())

    def tokens(self, answer: Mapping[str, object], issuer: str) -> tuple[str, str]:
        """Return the token and the refresh token (or "") of the token endpoint's answer.

        Raises Unauthenticated if it refuses, or if the token belongs to another login. The gateway
        checks the signature of the token.
        """
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Unauthenticated(f"the issuer refuses the login: {refusal(answer, 'id token')}")
        said = claims(token)
        if said.get("iss") != issuer or said.get("nonce") != self.nonce:
            raise Unauthenticated("the issuer sent a token of another login; try again")
        return token, str(answer.get("refresh_token") or "")


def new_seed() -> str:
    return secrets.token_urlsafe(48)


def code_of(answer: Mapping[str, str], issuer: str) -> str:
    """Return the code that the browser brings. Raises Unauthenticated if the issuer gave none."""
    if answer.get("iss", issuer) != issuer:
        raise Unauthenticated(f"the browser came back from another issuer, {answer['iss']!r}")
    if "code" not in answer:
        raise Unauthenticated(f"the issuer refuses the login: {refusal(answer, 'code')}")
    return answer["code"]


def refresh_form(refresh_token: str, client_id: str) -> dict[str, str]:
    """Return the form to post to the issuer's token endpoint for the next token."""
    return {
        "grant_type": "refresh_token",
        "refresh_token": refresh_token,
        "client_id": client_id,
    }


def revocation_form(refresh_token: str, client_id: str) -> dict[str, str]:
    """Return the form to post to the issuer's revocation endpoint (RFC 7009)."""
    return {"token": refresh_token, "token_type_hint": "refresh_token", "client_id": client_id}


def endpoint(described: Mapping[str, object], name: str) -> str:
    """Return an endpoint from the issuer's description of itself. Raises InvalidSettings."""
    url = described.get(name)
    if not isinstance(url, str):
        issuer = described.get("issuer")
        raise InvalidSettings(f"{issuer} has no {name}: it cannot be used to log in")
    return url


def refusal(answer: Mapping[str, object], missing: str) -> str:
    """Return why an answer lacks what is `missing`, in the words of the issuer if it gives any."""
    return str(answer.get("error_description") or answer.get("error") or f"no {missing} came")


def claims(token: str) -> dict[str, Any]:
    """Return the claims of a token, which are not checked here; {}: they cannot be read."""
    try:
        part = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _derived(seed: str, name: str) -> str:
    return _text(hmac.digest(seed.encode(), name.encode(), "sha256"))


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
