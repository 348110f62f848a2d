"""The permissions of code hosts in dictionaries of one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from uuid import uuid4

from codelode.host_permissions import HostPermissions, SyncDeclaration, SyncOutcome, SyncState


class MemoryPermissionStates:
    """Implements the port PermissionStates."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._declared: dict[str, SyncDeclaration] = {}
        self._outcomes: dict[str, SyncOutcome] = {}
        self._permissions: dict[str, bytes] = {}
        self._wanted: dict[str, str] = {}
        self._holders: dict[str, tuple[str, float]] = {}  # owner, and when it loses the connection
        self._problem = ""

    def declare(self, declared: Sequence[SyncDeclaration]) -> None:
        with self._lock:
            before, self._declared = self._declared, {one.name: one for one in declared}
            kept = {
                name
                for name, one in before.items()
                if _place(self._declared.get(name)) == _place(one)
            }
            for table in (self._outcomes, self._permissions, self._wanted):
                for name in table.keys() - kept:
                    del table[name]

    def report(self, problem: str) -> None:
        self._problem = problem

    def problem(self) -> str:
        return self._problem

    def states(self) -> tuple[SyncState, ...]:
        with self._lock:
            return tuple(
                SyncState(one, self._outcomes.get(name, SyncOutcome()), self._wanted.get(name, ""))
                for name, one in sorted(self._declared.items())
            )

    def permissions(self, name: str) -> HostPermissions | None:
        with self._lock:
            stored = self._permissions.get(name)
        return HostPermissions.unpacked(stored) if stored else None

    def want(self, name: str) -> None:
        with self._lock:
            self._wanted[name] = uuid4().hex

    def hold(self, name: str, owner: str, *, for_s: float) -> bool:
        with self._lock:
            if self._holder(name) not in (None, owner):
                return False
            self._holders[name] = (owner, time.monotonic() + for_s)
            return True

    def release(self, name: str, owner: str) -> None:
        with self._lock:
            if self._holder(name) == owner:
                del self._holders[name]

    def finish(
        self, name: str, owner: str, outcome: SyncOutcome, permissions: bytes | None
    ) -> bool:
        with self._lock:
            if self._holder(name) != owner or name not in self._declared:
                return False
            if permissions is not None:
                self._permissions[name] = permissions
            self._outcomes[name] = outcome
            return True

    def _holder(self, name: str) -> str | None:
        owner, until = self._holders.get(name, (None, 0.0))
        return owner if time.monotonic() < until else None


def _place(one: SyncDeclaration | None) -> tuple[str, str] | None:
    return (one.kind, one.prefix) if one else None
