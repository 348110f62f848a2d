"""Find and remove mirrors that belong to no repository."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from codelode.mirrors import folder_name, locked
from codelode.model import RepositoryName

#: Suffixes of mirrors, and of the leftovers of an interrupted clone, copy, or removal.
_SUFFIXES = frozenset((".git", ".part", ".whole", ".gone"))

#: Maximum wait for the lock of a mirror, seconds; after that, the mirror counts as in use.
_LOCK_TIMEOUT_S = 1.0


def strays(folder: Path, names: Collection[RepositoryName]) -> list[Path]:
    """Return the mirrors in the folder that belong to none of these repositories."""
    if not folder.is_dir():
        return []
    known = {Path(folder_name(name)).stem for name in names}
    found = (path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    return sorted(path for path in found if path.stem not in known)


def remove(mirror: Path, *, is_wanted: Callable[[Path], bool]) -> None:
    """Delete a mirror unless it has become wanted. Raises Busy if a process holds its lock."""
    with locked(mirror, timeout_s=_LOCK_TIMEOUT_S):
        if is_wanted(mirror) or not mirror.exists():
            return
        # Renamed first, so that a half-deleted folder is never taken for a mirror.
        doomed = mirror.with_suffix(".gone")
        if mirror != doomed:
            shutil.rmtree(doomed, ignore_errors=True)
            mirror.rename(doomed)
        shutil.rmtree(doomed)
