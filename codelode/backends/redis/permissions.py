"""Store the permissions of code hosts in Redis."""

from __future__ import annotations

import json
from typing import Any

import redis

from codelode.backends.redis.connection import translated
from codelode.backends.redis.connections import RedisConnections
from codelode.host_permissions import (
    FoundTeams,
    HostPermissions,
    SyncDeclaration,
    SyncOutcome,
    SyncState,
)
from codelode.request_budget import RequestBudget


class RedisPermissionStates(RedisConnections[SyncDeclaration, SyncOutcome]):
    """Implements the port PermissionStates."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        super().__init__(client, f"{prefix}{{permissions}}", content=":synced:permissions")

    def report(self, problem: str) -> None:
        with translated():
            self._client.set(f"{self._base}:synced:problem", problem)

    def problem(self) -> str:
        with translated():
            found = self._client.get(f"{self._base}:synced:problem")
        return found.decode() if isinstance(found, bytes) else ""

    def states(self) -> tuple[SyncState, ...]:
        return tuple(
            SyncState(SyncDeclaration(**one.declared), _outcome(one.outcome), one.wanted)
            for one in self._stored()
        )

    def permissions(self, name: str) -> HostPermissions | None:
        found = self._read(name)
        return HostPermissions.unpacked(found) if found else None

    def teams(self, name: str) -> FoundTeams | None:
        with translated():
            found: Any = self._client.hget(f"{self._base}:synced:teams", name)
        if found is None:
            return None
        version, teams = json.loads(found)
        return FoundTeams(version, tuple(map(tuple, teams)))

    def keep_teams(self, name: str, found: FoundTeams) -> None:
        self._run("keep_teams", name, json.dumps([found.version, found.teams]))

    def want(self, name: str) -> None:
        self._request(name)


def _outcome(stored: dict[str, Any]) -> SyncOutcome:
    budget = RequestBudget(**stored.pop("budget", {}))
    return SyncOutcome(**stored, budget=budget)
