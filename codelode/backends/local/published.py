"""Look up and change which folder holds the published index.

The first index of a data folder is in the index folder itself. A rebuilt index is in a folder of
its own inside it, `at-…`, named by a hash of everything that makes indexes incompatible, and is
published by replacing a pointer file atomically. Readers and writers check before each search and
each write that their folder is still the published one, so no process reads from or writes to an
index that another has replaced. The pointer also has the settings of the embedder, because every
process must change it together with the index.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from codelode.backends.remedies import AFRESH
from codelode.errors import Corrupt, Superseded

FILE = "current.json"

#: File that marks a folder being built, which may be written although it is not published.
BUILDING = "building"

_PREFIX = "at-"


@dataclass(frozen=True, slots=True)
class Pointer:
    """The published folder, and the settings of its embedder if `codelode reindex` chose them."""

    folder: Path
    choice: Mapping[str, object] = field(default_factory=dict)


def read(root: Path) -> Pointer:
    """Return what is published in an index folder; without a pointer file, the folder itself."""
    try:
        found = os.stat(f"{root}/{FILE}")
    except FileNotFoundError:
        return Pointer(root)
    return _read(root, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(root: Path, _number: int, _changed_ns: int) -> Pointer:
    try:
        found = json.loads((root / FILE).read_text(encoding="utf-8"))
        return Pointer(root / found["folder"], found["settings"])
    except (ValueError, LookupError, TypeError) as exc:
        raise Corrupt(f"{root / FILE} is damaged: remove {root}, and {AFRESH}") from exc


def point(root: Path, folder: Path, choice: Mapping[str, object]) -> None:
    """Publish a folder inside `root`; the change is durable when this returns."""
    draft = root / f"{FILE}.draft"
    with draft.open("w", encoding="utf-8") as out:
        json.dump({"folder": folder.name, "settings": dict(choice)}, out)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(root / FILE)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folder_for(root: Path, signature: str) -> Path:
    """Return the folder for an index with this signature."""
    return root / f"{_PREFIX}{blake2b(signature.encode(), digest_size=5).hexdigest()}"


def folders(root: Path) -> list[Path]:
    """Return all folders inside `root` that were created for an index."""
    return sorted(path for path in root.glob(f"{_PREFIX}*") if path.is_dir())


def root_of(folder: Path) -> Path:
    """Return the index folder that contains the folder of an index, or is that folder."""
    return folder.parent if folder.name.startswith(_PREFIX) else folder


def require_current(folder: Path) -> None:
    """Raise Superseded unless the folder is the published one, or one that is being built."""
    published = read(root_of(folder)).folder
    if published != folder and not (folder / BUILDING).exists():
        raise Superseded(f"{published} has taken the place of {folder}")
