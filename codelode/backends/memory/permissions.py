"""Store the permissions of code hosts in dictionaries of one process."""

from __future__ import annotations

from codelode.backends.memory.connections import MemoryConnections
from codelode.host_permissions import (
    FoundTeams,
    HostPermissions,
    SyncDeclaration,
    SyncOutcome,
    SyncState,
)


class MemoryPermissionStates(MemoryConnections[SyncDeclaration, SyncOutcome]):
    """Implements the port PermissionStates."""

    def __init__(self) -> None:
        super().__init__()
        self._problem = ""

    def report(self, problem: str) -> None:
        self._problem = problem

    def problem(self) -> str:
        return self._problem

    def states(self) -> tuple[SyncState, ...]:
        with self._lock:
            return tuple(
                SyncState(
                    declared, self._outcomes.get(name, SyncOutcome()), self._wanted.get(name, "")
                )
                for name, declared in sorted(self._declared.items())
            )

    def permissions(self, name: str) -> HostPermissions | None:
        with self._lock:
            stored = self._contents.get(name)
        return HostPermissions.unpacked(stored) if stored else None

    def teams(self, name: str) -> FoundTeams | None:
        with self._lock:
            return self._teams.get(name)

    def keep_teams(self, name: str, found: FoundTeams) -> None:
        with self._lock:
            if name in self._declared:
                self._teams[name] = found

    def want(self, name: str) -> None:
        self._request(name)
