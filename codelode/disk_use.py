"""The space that the parts of a cluster take, as the workers measured it last.

Totals of the index and the mirrors count every repository, so only admins who see all repositories
may read them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The size of a part that cannot be measured.
UNKNOWN = -1

#: The groups of parts that are measured together, in the order in which they are shown.
INDEX, MIRRORS, DERIVED, REDIS = GROUPS = ("index", "mirrors", "derived values", "Redis memory")

#: Bytes of the blocks that `st_blocks` counts, whatever the block size of the file system.
_BLOCK_BYTES = 512

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class DiskPart:
    """A part of the cluster and its size."""

    part: str
    size_bytes: int  # or UNKNOWN
    measured_at: float  # seconds since the epoch


def ordered(groups: dict[str, Sequence[DiskPart]]) -> tuple[DiskPart, ...]:
    """Return the parts of all groups in the order in which they are shown."""
    return tuple(part for name in GROUPS for part in groups.get(name, ()))


def taken_by(path: Path) -> int:
    """Return the bytes that a file, or everything in a folder, takes on its disk.

    A file that is removed meanwhile counts as 0 bytes. Links are not followed.
    """
    return sum(_sizes(path))


def readable(size_bytes: int) -> str:
    """Return the size in decimal units: `999 B`, `1.5 GB`, or `unknown`."""
    if size_bytes == UNKNOWN:
        return "unknown"
    size, unit = float(size_bytes), 0
    while round(size, 1) >= 1_000 and unit < len(_UNITS) - 1:
        size, unit = size / 1_000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size_bytes} B"


def _sizes(path: Path) -> Iterator[int]:
    with suppress(FileNotFoundError, NotADirectoryError):
        yield path.lstat().st_blocks * _BLOCK_BYTES
        if path.is_dir() and not path.is_symlink():
            yield from _sizes_in(path)


def _sizes_in(folder: Path | os.DirEntry[str]) -> Iterator[int]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        for one in found:
            with suppress(FileNotFoundError):
                yield one.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                if one.is_dir(follow_symlinks=False):
                    yield from _sizes_in(one)
