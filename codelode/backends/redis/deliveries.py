"""The webhook deliveries that were acted on, in Redis."""

from __future__ import annotations

import hashlib

import redis

from codelode.backends.redis.connection import translated
from codelode.ports import DELIVERIES_KEPT_S


class RedisDeliveries:
    """Implements the port Deliveries: one expiring key for each delivery."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._prefix = f"{prefix}delivery:"

    def is_known(self, connection: str, id: str) -> bool:
        with translated():
            return bool(self._client.exists(self._key(connection, id)))

    def add(self, connection: str, id: str) -> None:
        with translated():
            self._client.set(self._key(connection, id), b"", ex=DELIVERIES_KEPT_S)

    def _key(self, connection: str, id: str) -> str:
        """Return a key of bounded length, because the host chooses the id."""
        digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return f"{self._prefix}{connection}:{digest}"
