"""Kombu's Redis transport with one client per channel.

Kombu makes a client object for every acknowledgement, publication and event, and making one costs
more than the command it sends: a tenth to a fifth of every worker's processor time. A client is
safe to share, because each command takes a connection of the pool for itself.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):  # type: ignore[misc]
    """A channel that remembers its client for as long as its connection pool lives."""

    _pool_and_client: tuple[Any, Any] = (None, None)

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous=True)
        pool, client = self._pool_and_client
        if pool is not self.pool:
            client = super()._create_client()
            self._pool_and_client = self.pool, client
        return client


class Transport(redis.Transport):  # type: ignore[misc]
    """What Celery's setting `broker_transport` names."""

    Channel = Channel
