"""The permissions of code hosts in Redis."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import redis

from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated
from codelode.host_permissions import HostPermissions, SyncDeclaration, SyncOutcome, SyncState


class RedisPermissionStates:
    """Implements the port PermissionStates."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._base = f"{prefix}{{permissions}}"
        sources = scripts.load("permissions.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}

    def declare(self, declared: Sequence[SyncDeclaration]) -> None:
        self._run("declare", *(x for one in declared for x in (one.name, json.dumps(asdict(one)))))

    def report(self, problem: str) -> None:
        with translated():
            self._client.set(f"{self._base}:synced:problem", problem)

    def problem(self) -> str:
        with translated():
            found = self._client.get(f"{self._base}:synced:problem")
        return found.decode() if isinstance(found, bytes) else ""

    def states(self) -> tuple[SyncState, ...]:
        with translated():
            pipe = self._client.pipeline()
            pipe.hgetall(f"{self._base}:declared")
            pipe.hgetall(f"{self._base}:synced:outcomes")
            pipe.hgetall(f"{self._base}:synced:wanted")
            declared, outcomes, wanted = pipe.execute()
        return tuple(
            SyncState(
                SyncDeclaration(**json.loads(value)),
                SyncOutcome(**json.loads(outcomes.get(name, b"{}"))),
                wanted.get(name, b"").decode(),
            )
            for name, value in sorted(declared.items())
        )

    def permissions(self, name: str) -> HostPermissions | None:
        with translated():
            found: Any = self._client.hget(f"{self._base}:synced:permissions", name)
        return HostPermissions.unpacked(found) if found else None

    def want(self, name: str) -> None:
        with translated():
            self._client.hset(f"{self._base}:synced:wanted", name, uuid4().hex)

    def hold(self, name: str, owner: str, *, for_s: float) -> bool:
        return bool(self._run("hold", name, owner, int(for_s * 1000)))

    def release(self, name: str, owner: str) -> None:
        self._run("release", name, owner)

    def finish(
        self, name: str, owner: str, outcome: SyncOutcome, permissions: bytes | None
    ) -> bool:
        change = "keep" if permissions is None else "replace"
        stored = json.dumps(asdict(outcome))
        return bool(self._run("finish", name, owner, stored, change, permissions or b""))

    def _run(self, name: str, *args: str | bytes | float) -> Any:
        with translated():
            return self._scripts[name](keys=[self._base], args=list(args))
