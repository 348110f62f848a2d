"""Store API keys in Redis, next to the ledger, so that they are saved and restored with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import redis

from codelode.access import Role
from codelode.api_keys import USE_INTERVAL_S, ApiKey
from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated


class RedisApiKeys:
    """Implements the port ApiKeys."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._base = f"{prefix}{{api_keys}}"
        sources = scripts.load("api_keys.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}
        self._snapshot = scripts.Snapshot(client)

    def add(self, key: ApiKey) -> bool:
        stored = asdict(key)
        del stored["used_at"]
        return bool(self._run("add", key.id, key.name, json.dumps(stored)))

    def get(self, id: str) -> ApiKey | None:
        with translated():
            stored, used = self._snapshot(
                *(("HGET", f"{self._base}:{of}", id) for of in ("keys", "used"))
            )
        return _key(stored, used) if stored else None

    def all(self) -> tuple[ApiKey, ...]:
        with translated():
            tables = self._snapshot(*(("HGETALL", f"{self._base}:{of}") for of in ("keys", "used")))
        stored, used = map(scripts.pairs, tables)
        found = (_key(value, used.get(id)) for id, value in stored.items())
        return tuple(sorted(found, key=lambda key: key.name))

    def remove(self, id: str) -> None:
        self._run("remove", id)

    def used(self, id: str, at: float) -> None:
        self._run("used", id, at, USE_INTERVAL_S)

    def _run(self, name: str, *args: str | float) -> Any:
        with translated():
            return self._scripts[name](keys=[self._base], args=list(args))


def _key(stored: bytes, used: bytes | None) -> ApiKey:
    fields = json.loads(stored)
    fields["role"] = Role(fields["role"])
    fields["bounds"] = tuple(map(tuple, fields["bounds"]))
    return ApiKey(**fields, used_at=float(used) if used else None)
