"""Keep the credentials of signed-in browsers, so that a cookie has only a random id.

The credentials are encrypted with a key that is derived from the id, and stored under a hash of the
id, so a reader of the store gets neither the id nor the credentials. A session grants nothing by
itself. Each call authenticates with its credentials again, so their revocation and expiry apply to
the session as to every other caller.

A single-use link is stored in the same way for a minute; following it opens a session with its
credentials.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from codelode.errors import Unauthenticated, Unavailable
from codelode.openid_flow import claims
from codelode.ports import Documents, ExpiringValues
from codelode.settings import Settings
from gateway.issuers import Issuers

ID_BYTES = 32
NONCE_BYTES = 12

#: How long a single-use link works, seconds: enough to open it.
LINK_S = 60.0
#: A token of an issuer is renewed when less than this remains until it expires, seconds.
RENEW_S = 60.0
#: How long a gateway may take to renew a token before another one tries, seconds.
RENEWAL_S = 30.0

SIGNED_OUT = "you are signed out: the session has ended; sign in again"


@dataclass(frozen=True, slots=True)
class Credential:
    """The value of a header `Authorization`, and how to renew it if it is an issuer's token."""

    authorization: str
    issuer: str = ""
    refresh_token: str = ""

    @property
    def remaining_s(self) -> float:
        """Return the time until a token of an issuer expires, seconds."""
        return float(claims(self.authorization).get("exp", 0)) - time.time()


class _Secret(NamedTuple):
    """The name in the store and the key that are derived from a random id."""

    name: str
    key: bytes

    @classmethod
    def of(cls, kind: str, id: str) -> _Secret:
        # The id has 256 random bits, so a plain hash derives independent values from it.
        name, key = (hashlib.sha256(f"{kind} {use} {id}".encode()) for use in ("name", "key"))
        return cls(f"{kind}:{name.hexdigest()}", key.digest())


class Sessions:
    """Opens, finds, renews, and closes sessions. `life_s`: the longest life of one."""

    def __init__(self, values: ExpiringValues, issuers: Issuers, *, life_s: float) -> None:
        self._values = values
        self.issuers = issuers
        self.life_s = life_s
        self._renewing: dict[str, asyncio.Task[Credential]] = {}
        self._revoking: set[asyncio.Task[None]] = set()

    async def open(self, credential: Credential) -> str:
        """Return the id of a new session."""
        return await self._stored("session", credential, self.life_s)

    async def authorization(self, id: str) -> str:
        """Return the authorization of the session.

        Raises Unauthenticated if there is none, and Unavailable if that cannot be checked now.
        """
        secret = _Secret.of("session", id)
        credential = _unsealed(secret, await self._values.get(secret.name))
        if not credential.refresh_token or credential.remaining_s > RENEW_S:
            return credential.authorization
        return (await self._renewed(secret, credential)).authorization

    async def close(self, id: str) -> None:
        """End the session, and revoke its refresh token; unknown ids are ignored.

        A task revokes the token at the issuer, so that a slow issuer does not delay the sign-out.
        """
        secret = _Secret.of("session", id)
        with suppress(Unauthenticated):
            self._revoke(_unsealed(secret, await self._values.take(secret.name)))

    async def link(self, authorization: str) -> str:
        """Return the code of a single-use link."""
        return await self._stored("link", Credential(authorization), LINK_S)

    async def taken(self, code: str) -> Credential:
        """Return the credential of a link, and invalidate the link. Raises Unauthenticated."""
        secret = _Secret.of("link", code)
        try:
            return _unsealed(secret, await self._values.take(secret.name))
        except Unauthenticated as exc:
            raise Unauthenticated(
                f"this link was used before, or is older than {LINK_S:g} s; make another with "
                "`codelode web`"
            ) from exc

    async def _stored(self, kind: str, credential: Credential, life_s: float) -> str:
        id = secrets.token_urlsafe(ID_BYTES)
        secret = _Secret.of(kind, id)
        await self._values.put(secret.name, _sealed(secret, credential), ttl_s=life_s)
        return id

    async def _renewed(self, secret: _Secret, credential: Credential) -> Credential:
        """Return the credential with its next token; concurrent calls share one renewal."""
        if secret.name not in self._renewing:
            task = asyncio.create_task(self._renew(secret, credential))
            self._renewing[secret.name] = task
            task.add_done_callback(lambda done: self._ended(secret.name, done))
        try:
            return await asyncio.shield(self._renewing[secret.name])
        except Unavailable:
            if credential.remaining_s > 0:  # the next call tries to renew it again
                return credential
            raise

    def _ended(self, name: str, renewal: asyncio.Task[Credential]) -> None:
        del self._renewing[name]
        if not renewal.cancelled():
            renewal.exception()  # marks the error as seen, even if all callers have left

    async def _renew(self, secret: _Secret, credential: Credential) -> Credential:
        """Get the next token. An issuer accepts a refresh token once, so only one gateway asks."""
        held = f"renewal:{secret.name}"
        if not await self._values.add(held, b"", ttl_s=RENEWAL_S):
            raise Unavailable("your session is being renewed; try again in a moment")
        try:
            now = _unsealed(secret, await self._values.get(secret.name))
            if now == credential:  # otherwise another gateway has renewed it meanwhile
                now = await self._next(secret, credential)
                await self._values.replace(secret.name, _sealed(secret, now))
        finally:
            with suppress(Unavailable):
                await self._values.take(held)
        return now

    async def _next(self, secret: _Secret, credential: Credential) -> Credential:
        try:
            token, refresh_token = await self.issuers.renewed(
                credential.issuer, credential.refresh_token
            )
        except Unauthenticated as exc:
            await self._values.take(secret.name)
            raise Unauthenticated(f"{SIGNED_OUT} ({exc})") from exc
        return replace(credential, authorization=f"Bearer {token}", refresh_token=refresh_token)

    def _revoke(self, ended: Credential) -> None:
        if ended.refresh_token:
            telling = asyncio.create_task(self.issuers.revoke(ended.issuer, ended.refresh_token))
            self._revoking.add(telling)
            telling.add_done_callback(self._revoking.discard)

    async def release(self) -> None:
        """Release connections, after the refresh tokens of ended sessions are revoked."""
        await asyncio.gather(*self._revoking, return_exceptions=True)
        await self._values.close()


def sessions(settings: Settings, values: ExpiringValues, documents: Documents) -> Sessions:
    """Return the sessions that the settings allow."""
    return Sessions(values, Issuers(settings, documents), life_s=3600.0 * settings.session_hours)


def _sealed(secret: _Secret, credential: Credential) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    content = json.dumps(asdict(credential)).encode()
    return nonce + AESGCM(secret.key).encrypt(nonce, content, secret.name.encode())


def _unsealed(secret: _Secret, sealed: bytes | None) -> Credential:
    """Return the credential. Raises Unauthenticated if there is none, or another id sealed it."""
    if sealed is None:
        raise Unauthenticated(SIGNED_OUT)
    nonce, content = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        found = AESGCM(secret.key).decrypt(nonce, content, secret.name.encode())
    except (InvalidTag, ValueError) as exc:
        raise Unauthenticated(SIGNED_OUT) from exc
    return Credential(**json.loads(found))
