"""Cache derived values in Redis, shared by workers on several machines.

Its size in bytes is bounded because the server may also hold the job state, and then evicts
nothing. `derivations.lua` describes the keys. A server that evicts keys may drop any generation,
which holds its entries and their size together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

import redis
import structlog

from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated
from codelode.errors import CodelodeError
from codelode.ports import DerivationKey

#: Number of generations: the oldest one is evicted as a whole.
GENERATIONS = 8

#: Time after the last write at which a generation expires, seconds.
TTL_S = 60 * 86_400

#: Memory of an entry in addition to key and value, bytes: a hash table slot and two headers.
ENTRY_BYTES = 80

#: Keys per script call: a long call blocks every other client of the server.
BATCH = 500

_log = structlog.get_logger(__name__)


class RedisDerivations:
    """Implements the port Derivations."""

    def __init__(self, client: redis.Redis, *, max_bytes: int, prefix: str = "codelode:") -> None:
        self._client = client
        self._base = f"{prefix}{{derivations}}"
        self._max_bytes = max_bytes
        sources = scripts.load("derivations.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}
        self._has_failed = False

    def get(self, keys: Sequence[DerivationKey]) -> tuple[bytes | None, ...]:
        found: list[bytes | None] = []
        with self._guarded():
            for start in range(0, len(keys), BATCH):
                args: list[bytes | int] = [GENERATIONS, *keys[start : start + BATCH]]
                values = self._scripts["get"](keys=[self._base], args=args)
                found += cast("list[bytes | None]", values)
        return tuple(found) if len(found) == len(keys) else (None,) * len(keys)

    def put(self, values: Mapping[DerivationKey, bytes]) -> None:
        flat = [part for pair in values.items() for part in pair]
        limit = max(1, self._max_bytes // GENERATIONS)
        with self._guarded():
            for start in range(0, len(flat), 2 * BATCH):
                part = flat[start : start + 2 * BATCH]
                args: list[bytes | int] = [GENERATIONS, limit, TTL_S, ENTRY_BYTES, *part]
                self._scripts["put"](keys=[self._base], args=args)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with translated():
                yield
        except CodelodeError as exc:
            if not self._has_failed:
                _log.warning("derivations_unavailable", error=str(exc))
            self._has_failed = True
