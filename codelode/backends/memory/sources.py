"""The followed repositories of code hosts in dictionaries of one process."""

from __future__ import annotations

from codelode.backends.memory.connections import MemoryConnections
from codelode.repository_sources import (
    Known,
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

    def known(self, name: str) -> tuple[Known, ...]:
        with self._lock:
            stored = self._contents.get(name)
        return unpacked(stored) if stored else ()

    def want(self, name: str, mode: Mode) -> None:
        self._request(name, mode.rank)
