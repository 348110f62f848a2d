"""Keep the measured sizes in Redis, and measure the memory of Redis itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import redis

from codelode.backends.redis.connection import connect, translated
from codelode.disk_use import DiskPart, ordered


class RedisDiskUse:
    """Implements the port DiskUse."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._key = f"{prefix}disk"

    def record(self, group: str, parts: Sequence[DiskPart]) -> None:
        with translated():
            self._client.hset(self._key, group, json.dumps([asdict(one) for one in parts]))

    def parts(self) -> tuple[DiskPart, ...]:
        with translated():
            found: Any = self._client.hgetall(self._key)
        return ordered(
            {
                group.decode(): [DiskPart(**one) for one in json.loads(stored)]
                for group, stored in found.items()
            }
        )


def used_memory(url: str) -> int:
    """Return the bytes of memory that the server has allocated for its data."""
    with connect(url) as client, translated():
        found: Any = client.info("memory")
    return int(found["used_memory"])
