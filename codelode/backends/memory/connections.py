"""Keep the states of connections to code hosts in dictionaries of one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar
from uuid import uuid4

from codelode.host_permissions import FoundTeams

D = TypeVar("D", bound=Any)
O_ = TypeVar("O_", bound=Any)


class MemoryConnections(Generic[D, O_]):
    """Stores declarations, outcomes, requests, and packed contents of connections.

    The methods are those of the ports PermissionStates and SourceStates.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._declared: dict[str, D] = {}
        self._outcomes: dict[str, O_] = {}
        self._contents: dict[str, bytes] = {}
        self._teams: dict[str, FoundTeams] = {}
        self._wanted: dict[str, str] = {}
        self._entrusted: dict[str, dict[str, str]] = {}
        self._holders: dict[str, tuple[str, float]] = {}  # owner, and when it loses the connection

    def declare(self, declared: Sequence[D]) -> None:
        with self._lock:
            before, self._declared = self._declared, {one.name: one for one in declared}
            kept = {
                name
                for name, one in before.items()
                if _place(self._declared.get(name)) == _place(one)
            }
            tables: tuple[dict[str, Any], ...] = (
                self._outcomes,
                self._contents,
                self._teams,
                self._wanted,
                self._entrusted,
            )
            for table in tables:
                for name in table.keys() - kept:
                    del table[name]

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

    def finish(self, name: str, owner: str, outcome: O_, content: bytes | None) -> bool:
        with self._lock:
            if self._holder(name) != owner or name not in self._declared:
                return False
            if content is not None:
                self._contents[name] = content
            self._outcomes[name] = outcome
            return True

    def _request(self, name: str, mode: str = "") -> None:
        with self._lock:
            pending, outcome = self._wanted.get(name, ""), self._outcomes.get(name)
            if mode and pending and (outcome is None or outcome.wanted != pending):
                mode = max(mode, pending[:1])
            self._wanted[name] = mode + uuid4().hex

    def _holder(self, name: str) -> str | None:
        owner, until = self._holders.get(name, (None, 0.0))
        return owner if time.monotonic() < until else None


def _place(one: Any) -> tuple[str, str] | None:
    return (one.kind, one.prefix) if one else None
