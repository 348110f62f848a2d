"""Keep the declarations of connections to code hosts, and what was read there, in Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

import redis

from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated

D = TypeVar("D", bound=Any)
O_ = TypeVar("O_", bound=Any)


class Stored(NamedTuple):
    """The stored values of a connection, parsed from JSON."""

    declared: dict[str, Any]
    outcome: dict[str, Any]
    wanted: str


class RedisConnections(Generic[D, O_]):
    """Stores declarations, outcomes, requests, and packed contents of connections.

    The methods are those of the ports PermissionStates and SourceStates. `content`: the suffix of
    the key of the contents.
    """

    def __init__(self, client: redis.Redis, base: str, *, content: str) -> None:
        self._client = client
        self._base = base
        self._content = f"{base}{content}"
        sources = scripts.load("connections.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}
        self._snapshot = scripts.Snapshot(client)

    def declare(self, declared: Sequence[D]) -> None:
        self._run("declare", *(x for one in declared for x in (one.name, json.dumps(asdict(one)))))

    def hold(self, name: str, owner: str, *, for_s: float) -> bool:
        return bool(self._run("hold", name, owner, int(for_s * 1000)))

    def release(self, name: str, owner: str) -> None:
        self._run("release", name, owner)

    def finish(self, name: str, owner: str, outcome: O_, content: bytes | None) -> bool:
        change = "keep" if content is None else "replace"
        stored = json.dumps(asdict(outcome))
        return bool(self._run("finish", name, owner, stored, change, content or b""))

    def _request(self, name: str, mode: str = "") -> None:
        self._run("want", name, mode, uuid4().hex)

    def _read(self, name: str) -> bytes | None:
        """Return the packed content of a connection."""
        with translated():
            found: Any = self._client.hget(self._content, name)
        return found or None

    def _stored(self) -> Iterator[Stored]:
        """Yield each connection, by name; all of them are read in one round trip."""
        with translated():
            tables = self._snapshot(
                *(
                    ("HGETALL", f"{self._base}:{of}")
                    for of in ("declared", "synced:outcomes", "synced:wanted")
                )
            )
        declared, outcomes, wanted = map(scripts.pairs, tables)
        for name, value in sorted(declared.items()):
            outcome = json.loads(outcomes.get(name, b"{}"))
            yield Stored(json.loads(value), outcome, wanted.get(name, b"").decode())

    def _run(self, name: str, *args: str | bytes | float) -> Any:
        with translated():
            return self._scripts[name](keys=[self._base, self._content], args=list(args))
