"""Keep the logins of this user: tokens of an OpenID Connect issuer, each for one gateway.

    DATA/run/login.json   the logins by the address of the gateway: token and refresh token

Only this user can read the file. This module uses only the standard library, because a client
imports none of the server's libraries.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from codelode.cluster import login_file, run_dir
from codelode.errors import InvalidSettings, Unauthenticated, Unavailable
from codelode.files import make_private, replace_text
from codelode.loopback import is_confidential
from codelode.openid_flow import claims, refresh_form, refusal

#: A token is renewed when less than this is left, seconds.
RENEW_S = 60.0
#: Longest wait for the issuer, seconds.
TIMEOUT_S = 10.0
#: Maximum size of an issuer's answer, bytes.
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Login:
    """A token for one gateway, and what is needed to get the next one."""

    issuer: str
    client_id: str
    token_endpoint: str
    token: str
    refresh_token: str

    @property
    def is_fresh(self) -> bool:
        """Return whether the token is valid long enough for a call that begins now."""
        return float(claims(self.token).get("exp", 0)) - time.time() > RENEW_S


def token_for(address: str, data: Path) -> str:
    """Return the token of this user's login at the gateway, renewed if necessary; "": no login.

    Raises Unauthenticated if the login has ended, and Unavailable if the issuer does not answer.
    """
    login = logins(data).get(address)
    if login is None:
        return ""
    return login.token if login.is_fresh else _renewed(address, data)


def _renewed(address: str, data: Path) -> str:
    """Return a new token. One process at a time: an issuer accepts each refresh token only once."""
    with _changing(data) as found:
        login = found.get(address)
        if login is None or not login.is_fresh:
            login = found[address] = _refreshed(address, login)
    return login.token


def _refreshed(address: str, login: Login | None) -> Login:
    remedy = f"log in again: codelode login --server {address}"
    if login is None or not login.refresh_token:
        raise Unauthenticated(f"the login at {address} has ended; {remedy}")
    answer = post(login.token_endpoint, refresh_form(login.refresh_token, login.client_id))
    if "id_token" not in answer:
        raise Unauthenticated(
            f"the login at {address} has ended ({refusal(answer, 'id token')}); {remedy}"
        )
    kept = str(answer.get("refresh_token") or login.refresh_token)
    return replace(login, token=str(answer["id_token"]), refresh_token=kept)


def logins(data: Path) -> dict[str, Login]:
    """Return the logins by the addresses of their gateways."""
    try:
        found = json.loads(login_file(data).read_text(encoding="utf-8"))
        return {address: Login(**one) for address, one in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        raise InvalidSettings(
            f"{login_file(data)} cannot be read ({exc}): remove it, and log in again"
        ) from exc


def keep(address: str, login: Login, data: Path) -> None:
    """Store a login, which replaces an earlier one at the gateway."""
    with _changing(data) as found:
        found[address] = login


def forget(address: str, data: Path) -> Login | None:
    """Remove the login at the gateway, and return it; None if there is none."""
    with _changing(data) as found:
        return found.pop(address, None)


@contextmanager
def _changing(data: Path) -> Iterator[dict[str, Login]]:
    """Lock the logins, yield them to be changed, and write them if they were."""
    make_private(run_dir(data))
    lock = os.open(run_dir(data) / "login.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(lock, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        before = logins(data)
        found = dict(before)
        yield found
        if found != before:
            listed = {address: asdict(login) for address, login in found.items()}
            replace_text(login_file(data), json.dumps(listed, indent=2))


# The issuer


def described(issuer: str) -> dict[str, Any]:
    """Return the issuer's metadata document. Raises Unavailable or InvalidSettings."""
    url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    found = _object(url, _answer(url))
    if found.get("issuer") != issuer:
        raise InvalidSettings(
            f"{issuer} calls itself {found.get('issuer')!r}: if that is right, use it as issuer"
        )
    return found


def post(url: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of an endpoint, which may be an error in the form of RFC 6749."""
    return _object(url, _answer(url, form))


def tell(url: str, form: Mapping[str, str]) -> None:
    """Send a form to an endpoint, and ignore the content of its answer."""
    _answer(url, form)


def _answer(url: str, form: Mapping[str, str] | None = None) -> bytes:
    """Return the body of the issuer's answer, also of one that refuses the request."""
    from urllib.error import HTTPError
    from urllib.parse import urlencode
    from urllib.request import Request, urlopen

    if not is_confidential(url):
        raise InvalidSettings(f"{url!r} is not asked: the URL must start with https://")
    body = urlencode(form).encode() if form is not None else None
    try:
        with urlopen(Request(url, body), timeout=TIMEOUT_S) as answer:
            return bytes(answer.read(MAX_BYTES))
    except HTTPError as exc:
        if exc.code >= 500 or exc.code == 429:
            raise Unavailable(f"{url} answers with status {exc.code}") from exc
        return bytes(exc.read(MAX_BYTES))
    except (OSError, ValueError) as exc:
        raise Unavailable(f"{url} does not answer: {exc}") from exc


def _object(url: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise Unavailable(f"{url} does not answer with JSON") from exc
    if not isinstance(found, dict):
        raise Unavailable(f"{url} does not answer with a JSON object")
    return found
