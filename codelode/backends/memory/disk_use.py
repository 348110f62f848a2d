"""Keep the measured sizes in a dictionary of one process."""

from __future__ import annotations

from collections.abc import Sequence

from codelode.disk_use import DiskPart, ordered


class MemoryDiskUse:
    """Implements the port DiskUse."""

    def __init__(self) -> None:
        self._groups: dict[str, Sequence[DiskPart]] = {}

    def record(self, group: str, parts: Sequence[DiskPart]) -> None:
        self._groups[group] = tuple(parts)

    def parts(self) -> tuple[DiskPart, ...]:
        return ordered(self._groups)
