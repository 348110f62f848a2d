"""Celery's queues as kombu's Redis transport keeps them: a list of messages each, newest first."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from codelode.backends.redis.connection import translated
from codelode.jobs import KEY_PREFIX


class RedisQueues:
    """Puts messages into queues that are already as a worker reads them."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def push(self, queue: str, messages: Sequence[str]) -> None:
        """Append all of them in one step."""
        with translated():
            self._client.lpush(f"{KEY_PREFIX}{queue}", *messages)
