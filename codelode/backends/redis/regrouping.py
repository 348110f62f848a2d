"""Keep the state of regrouping in Redis."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import redis
from redis.exceptions import LockError

from codelode.backends.redis.connection import translated
from codelode.model import RepositoryName, RunId
from codelode.regrouping import KEPT_S, MAX_FILTERS, RegroupingState

#: Time after which another worker goes on in place of one that was killed, seconds.
HOLD_S = 300


class RedisRegroupingStates:
    """Implements the port RegroupingStates."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._base = f"{prefix}{{regrouping}}"
        self._filters = f"{self._base}:filters"

    def now(self) -> float:
        with translated():
            seconds, microseconds = self._client.time()
        return float(seconds) + microseconds / 1e6

    def report_long(self, names: frozenset[RepositoryName]) -> None:
        member = zlib.compress(json.dumps(sorted(names)).encode())
        with translated(), self._client.pipeline() as pipeline:
            pipeline.zadd(self._filters, {member: self.now()})
            pipeline.zremrangebyrank(self._filters, 0, -(MAX_FILTERS + 1))
            pipeline.expire(self._filters, KEPT_S)
            pipeline.execute()

    def long_filters(self) -> tuple[frozenset[RepositoryName], ...]:
        with translated():
            found: Any = self._client.zrangebyscore(self._filters, self.now() - KEPT_S, "+inf")
        parsed = (json.loads(zlib.decompress(member)) for member in found)
        return tuple(frozenset(map(RepositoryName, names)) for names in parsed)

    def want(self) -> str:
        request = uuid4().hex
        with translated():
            self._client.set(f"{self._base}:wanted", request)
        return request

    def wanted(self) -> str:
        with translated():
            found: Any = self._client.get(f"{self._base}:wanted")
        return found.decode() if found else ""

    def state(self) -> RegroupingState:
        with translated():
            found: Any = self._client.get(f"{self._base}:state")
        return _state(json.loads(found)) if found else RegroupingState()

    def save(self, state: RegroupingState) -> None:
        with translated():
            self._client.set(f"{self._base}:state", json.dumps(asdict(state)))

    @contextmanager
    def alone(self) -> Iterator[bool]:
        lock = self._client.lock(f"{self._base}:lock", timeout=HOLD_S)
        with translated():
            is_alone = lock.acquire(blocking=False)
        try:
            yield is_alone
        finally:
            if is_alone:
                with translated(), suppress(LockError):  # it took longer, and another one holds it
                    lock.release()


def _state(stored: dict[str, Any]) -> RegroupingState:
    runs, batch = stored.pop("runs"), stored.pop("batch")
    return RegroupingState(
        **{**stored, "left": tuple(map(RepositoryName, stored["left"]))},
        batch={RepositoryName(name): tuple(groups) for name, groups in batch.items()},
        runs=None if runs is None else tuple(map(RunId, runs)),
    )
