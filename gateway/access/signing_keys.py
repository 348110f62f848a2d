"""Find the public keys of an issuer by discovery, cache them, and refresh them.

The keys are fetched again every few minutes while there are calls, and when a token names a key
that is not among them. The key is needed before the token can be verified, so each forged token
could cause a fetch; the gateway therefore pauses between such fetches. If the issuer does not
answer, the last keys are used for a bounded time, and the pauses between attempts grow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from codelode.errors import Unauthenticated, Unavailable
from codelode.loopback import is_loopback
from codelode.ports import Documents

#: Age at which keys are fetched again, seconds.
REFRESH_S = 300.0
#: Age up to which keys are used while the issuer does not answer, seconds.
MAX_AGE_S = 3_600.0
#: Shortest time from any fetch to one because of a token with an unknown key, seconds.
UNKNOWN_KEY_PAUSE_S = 10.0
#: Pause after a failed fetch, seconds; it doubles from the first value up to the second.
BACKOFF_S = (1.0, 60.0)

#: Minimum size of RSA keys, bits; smaller ones can be broken.
MIN_RSA_BITS = 2_048

#: Keys that can verify without being able to sign.
Key = RSAKey | ECKey | OKPKey

log = structlog.get_logger("gateway")


class SigningKeys:
    """The public keys of one issuer by their ids."""

    def __init__(
        self, issuer: str, documents: Documents, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer, self._documents, self._clock = issuer, documents, clock
        self._keys: dict[str | None, Key] = {}
        self._fetched_at = self._tried_at = -float("inf")
        self._failures = 0
        self._problem = ""  # of the last fetch; empty: it succeeded
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, name: str | None) -> Key:
        """Return the key with the id; for None, the only key of the issuer.

        Raises Unauthenticated if the issuer has no such key, and Unavailable if that is unknown
        because its keys cannot be fetched now.
        """
        age = self._clock() - self._fetched_at
        if age > MAX_AGE_S:
            await self._fetch()
        elif age > REFRESH_S:
            self._begin()
        if self._clock() - self._fetched_at > MAX_AGE_S:
            raise Unavailable(f"tokens cannot be checked now: {self._problem}")
        if name not in self._keys and (self._fetching is not None or self._may_ask_for_unknown()):
            await self._fetch()
        if name in self._keys:
            return self._keys[name]
        if self._problem:
            raise Unavailable(f"the token cannot be checked now: {self._problem}")
        raise Unauthenticated(
            f"the token of this call is not accepted: {self._issuer} has no key {name!r}"
        )

    def _may_ask_for_unknown(self) -> bool:
        return self._clock() - self._tried_at > UNKNOWN_KEY_PAUSE_S

    async def _fetch(self) -> None:
        """Wait until the keys have been fetched; concurrent callers share one fetch."""
        self._begin()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)

    def _begin(self) -> None:
        """Begin to fetch the keys, unless a fetch is under way or one failed shortly before."""
        if self._fetching is None and self._clock() - self._tried_at >= self._pause_s():
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._refresh())

    def _pause_s(self) -> float:
        least, most = BACKOFF_S
        return min(most, least * 2.0 ** (self._failures - 1)) if self._failures else 0.0

    async def _refresh(self) -> None:
        try:
            self._keys = await asyncio.to_thread(self._read)
        except Unavailable as exc:
            self._failures, self._problem = min(self._failures + 1, 32), str(exc)
            log.warning("issuer_unavailable", issuer=self._issuer, reason=self._problem)
        else:
            self._failures, self._problem = 0, ""
            self._fetched_at = self._clock()
        finally:
            self._fetching = None

    def _read(self) -> dict[str | None, Key]:
        """Fetch the keys from the address in the issuer's discovery document."""
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        described = self._documents.get(url)
        if described.get("issuer") != self._issuer:
            raise Unavailable(f"{url} describes another issuer, {described.get('issuer')!r}")
        where = str(described.get("jwks_uri"))
        is_near = is_loopback(urlsplit(self._issuer).hostname or "")
        if is_loopback(urlsplit(where).hostname or "") and not is_near:
            raise Unavailable(f"{url} names keys on this machine, {where!r}")
        listed = self._documents.get(where).get("keys")
        keys = _usable(listed if isinstance(listed, list) else [])
        if not keys:
            raise Unavailable(f"{where} holds no usable key")
        return keys


def _usable(listed: list[object]) -> dict[str | None, Key]:
    """Return the keys that can verify signatures by id; a single one also under the id None."""
    found = [key for one in listed if (key := _imported(one)) is not None]
    keys: dict[str | None, Key] = {key.kid: key for key in found if key.kid}
    if len(found) == 1:
        keys[None] = found[0]
    return keys


def _imported(one: object) -> Key | None:
    """Return the key, or None if it is symmetric, for encryption, too short, or malformed."""
    if not isinstance(one, dict) or one.get("use", "sig") != "sig":
        return None
    try:
        key = JWKRegistry.import_key(one)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey) and key.public_key.key_size < MIN_RSA_BITS:
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None
