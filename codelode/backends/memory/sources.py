"""Store the followed repositories of code hosts in dictionaries of one process."""

from __future__ import annotations

from collections.abc import Mapping

from codelode.backends.memory.connections import MemoryConnections
from codelode.repository_sources import (
    FollowedRepository,
    Mode,
    SourceDeclaration,
    SourceOutcome,
    SourceState,
    unpacked,
)


class MemorySourceStates(MemoryConnections[SourceDeclaration, SourceOutcome]):
    """Implements the port SourceStates."""

    def states(self) -> tuple[SourceState, ...]:
        with self._lock:
            return tuple(
                SourceState(
                    one, self._outcomes.get(name, SourceOutcome()), self._wanted.get(name, "")
                )
                for name, one in sorted(self._declared.items())
            )

    def known(self, name: str) -> tuple[FollowedRepository, ...]:
        with self._lock:
            stored = self._contents.get(name)
        return unpacked(stored) if stored else ()

    def entrust(self, name: str, owner: str, urls: Mapping[str, str]) -> None:
        with self._lock:
            if self._holder(name) == owner and name in self._declared:
                self._entrusted[name] = dict(urls)

    def entrusted(self, name: str, repository: str) -> str:
        with self._lock:
            return self._entrusted.get(name, {}).get(repository, "")

    def want(self, name: str, mode: Mode) -> None:
        self._request(name, mode.rank)
