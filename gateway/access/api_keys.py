"""Authenticate by API key.

Keys are looked up by their id, so a wrong key costs one read and one entry of a bounded cache. A
revoked key is refused after at most FRESH_S.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from codelode import api_keys
from codelode.api_keys import USE_INTERVAL_S, ApiKey
from codelode.errors import CodelodeError, Unauthenticated
from codelode.ports import ApiKeys
from gateway.access.identity import Credentials, Identity, bearer
from gateway.fresh import FreshCache

#: Maximum number of cached keys, about 1 kB each.
KEYS_HELD = 1_000

WRONG_KEY = "this API key is wrong or was revoked: ask an admin for a new one"
EXPIRED_KEY = "this API key has expired: ask an admin for a new one"


@dataclass(slots=True)
class _Known:
    key: ApiKey
    used_at: float


class KeyAuthenticator:
    """Implements the protocol Authenticator for API keys. `now`: seconds since the epoch."""

    def __init__(self, keys: ApiKeys, *, now: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._now = now
        self._known = FreshCache(self._read, entries=KEYS_HELD)
        self._recording: set[asyncio.Task[None]] = set()

    async def identity(self, credentials: Credentials) -> Identity | None:
        given = bearer(credentials.authorization) or credentials.authorization
        if not given.startswith(api_keys.PREFIX):
            return None
        key = await self._checked(given)
        expires_at = math.inf if key.expires_at is None else key.expires_at
        return Identity(f"key:{key.name}", key.role, bounds=key.bounds, expires_at=expires_at)

    async def _checked(self, given: str) -> ApiKey:
        parts = api_keys.parts(given)
        known = await self._known.get(parts[0]) if parts else None
        if parts is None or known is None or not known.key.has(parts[1]):
            raise Unauthenticated(WRONG_KEY)
        now = self._now()
        if known.key.is_expired(now):
            raise Unauthenticated(EXPIRED_KEY)
        self._record_use(known, now)
        return known.key

    def _read(self, id: str) -> _Known | None:
        key = self._keys.get(id)
        return _Known(key, key.used_at or 0.0) if key else None

    def _record_use(self, known: _Known, now: float) -> None:
        """Record the use in the background, at most once per USE_INTERVAL_S."""
        if now - known.used_at < USE_INTERVAL_S:
            return
        known.used_at = now
        recording = asyncio.create_task(self._record(known.key.id, now))
        self._recording.add(recording)
        recording.add_done_callback(self._recording.discard)

    async def _record(self, id: str, now: float) -> None:
        with suppress(CodelodeError):  # keys also work when Redis is out of memory
            await asyncio.to_thread(self._keys.used, id, now)
