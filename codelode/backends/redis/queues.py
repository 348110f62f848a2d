"""Celery's queues as kombu's Redis transport stores them: lists of messages, newest first."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from codelode.backends.redis.connection import translated
from codelode.jobs import KEY_PREFIX


class RedisQueues:
    """Sends encoded messages, in the format that a worker reads."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def push(self, queue: str, messages: Sequence[str]) -> None:
        """Append all messages to the queue in one step."""

        with translated():
            self._client.lpush(f"{KEY_PREFIX}{queue}", *messages)
