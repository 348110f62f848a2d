"""Check the signatures of webhooks, as each kind of code host makes them.

Sources: the pages "Validating webhook deliveries" of GitHub, "Webhooks" of Gitea, Forgejo, and
GitLab, "Secure webhooks" of Bitbucket Cloud, "Manage webhooks" of Bitbucket Data Center, "Webhooks"
of the service hooks of Azure DevOps, and the specification "Standard Webhooks" 1.0, as of November
2026.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Callable, Mapping

Headers = Mapping[str, str]
#: Returns whether the secret has signed a delivery. This takes the time of one digest of the body,
#: so that the time reveals neither the kind of a connection nor whether it exists.
Signed = Callable[[bytes, Headers, bytes], bool]

#: Prefix of GitLab's signing tokens. GitLab sends secrets without it unsigned, in a header.
TOKEN = b"whsec_"
#: How far the time in a signed header may be from now, seconds: the value of Standard Webhooks.
WINDOW_S = 300.0

#: Matches seconds since the epoch; more digits cannot be a time about now.
_SECONDS = re.compile(r"[0-9]{1,12}")


def by_digest(header: str, *, prefix: str = "") -> Signed:
    """Return the check of a header that holds the HMAC of the body in hexadecimal digits."""

    def is_signed(secret: bytes, headers: Headers, body: bytes) -> bool:
        return _equal(headers.get(header, ""), prefix + hmac.digest(secret, body, "sha256").hex())

    return is_signed


def by_password(secret: bytes, headers: Headers, body: bytes) -> bool:
    """Check the password of basic authentication; ignore the user name."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    try:
        pair = base64.b64decode(given, validate=True).decode()
    except ValueError:  # neither base64 nor UTF-8, or not even ASCII
        pair = ""
    is_secret = _is_secret(pair.partition(":")[2], secret, body)
    return is_secret and kind.lower() == "basic"


def of_gitlab(secret: bytes, headers: Headers, body: bytes) -> bool:
    """Check the signature of a signing token, or the secret, which is sent in a header."""
    if secret.startswith(TOKEN):
        return _is_standard(secret.removeprefix(TOKEN), headers, body)
    return _is_secret(headers.get("x-gitlab-token", ""), secret, body)


def _is_secret(given: str, secret: bytes, body: bytes) -> bool:
    """Compare a secret that the host sends unsigned, in the time that a signature would take."""
    hmac.digest(secret, body, "sha256")
    return _equal(given, secret.decode())


def _is_standard(encoded: bytes, headers: Headers, body: bytes) -> bool:
    """Check that one of the signatures over id, time, and body is right, and the time about now."""
    id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        key = b""
    digest = hmac.digest(key or b"none", f"{id}.{at}.".encode() + body, "sha256")
    expected = f"v1,{base64.b64encode(digest).decode()}"
    given = headers.get("webhook-signature", "").split(" ")
    # With an empty key, anybody could sign.
    return bool(key) and _is_now(at) and any(_equal(one, expected) for one in given)


def _is_now(at: str) -> bool:
    return bool(_SECONDS.fullmatch(at)) and abs(time.time() - int(at)) <= WINDOW_S


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
