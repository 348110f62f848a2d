"""API keys: the text that a caller sends, and the form in which it is stored.

A key is `codelode_ID_SECRET`. The id finds the stored key; the secret has 256 random bits, so its
plain SHA-256 cannot be reversed by trying secrets. A slow hash would only delay every call.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

from codelode.access import Bounds, Role

#: The beginning of every key, which scanners for leaked secrets can look for.
PREFIX = "codelode_"

#: Minimum time between two recorded uses of a key, seconds.
USE_INTERVAL_S = 60.0

_ID_BYTES, _SECRET_BYTES = 8, 32
_KEY = re.compile(r"codelode_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BEGINNING = re.compile(r"codelode_[0-9a-f]{16}_")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key. Times are seconds since the epoch."""

    id: str
    name: str
    digest: str = field(repr=False)  # of the secret
    role: Role
    bounds: Bounds  # those of the key that created it, then its own
    created_at: float
    created_by: str  # name of the principal
    expires_at: float | None = None  # None: never
    used_at: float | None = None  # None: never

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def has(self, secret: str) -> bool:
        """Return whether this is the secret of the key; takes the same time for every text."""
        return hmac.compare_digest(digest(secret), self.digest)


def generate() -> tuple[str, str]:
    """Return the id and the secret of a new key."""
    return secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)


def text(id: str, secret: str) -> str:
    """Return the key as a caller sends it."""
    return f"{PREFIX}{id}_{secret}"


def is_name(text: str) -> bool:
    """Return whether a key can have this name."""
    return _NAME.fullmatch(text) is not None


def parts(key: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key, or None if the text cannot be one."""
    found = _KEY.fullmatch(key)
    return (found[1], found[2]) if found else None


def is_in(text: str) -> bool:
    """Return whether the text holds a key, or the beginning of one with a part of its secret."""
    return _BEGINNING.search(text) is not None


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret, which is stored in its place."""
    return hashlib.sha256(secret.encode()).hexdigest()
