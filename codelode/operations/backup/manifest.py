"""Read, write, and check the manifest of a backup.

A folder without a manifest, or with a file that differs from it, is not a backup.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from codelode.errors import Corrupt, InvalidSettings, NotFound
from codelode.files import replace_text

FILE = "backup.json"
KEYS = "redis.dump"
INDEX = "index"
MIRRORS = "mirrors"

#: Increase it when older versions cannot read a new format.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a backup.

    `facts` describes the index (`engine.IndexBackup.begin`); `files` maps each path to the size of
    the file in bytes and its SHA-256.
    """

    made_at: float  # seconds since the epoch
    version: str  # of codelode
    store: str
    organisation: str
    repositories: int
    chunks: int
    keys: int
    facts: Mapping[str, Any]
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    format: int = FORMAT


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, which makes the backup complete."""
    replace_text(folder / FILE, json.dumps(asdict(manifest), indent=1))


def read(folder: Path) -> Manifest:
    """Return the manifest. Raises NotFound without a complete backup, Corrupt if it is damaged."""
    try:
        values = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if values.get("format") != FORMAT:
            raise Corrupt(
                f"the backup at {folder} was made by codelode {values.get('version')}, in a format "
                "that this version cannot read: restore it with that version"
            )
        files = {name: (size, digest) for name, (size, digest) in values.pop("files").items()}
        return Manifest(**values, files=files)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise NotFound(
            f"there is no complete backup at {folder}: {FILE}, which is written last, is missing"
        ) from exc
    except OSError as exc:
        raise InvalidSettings(f"cannot read the backup at {folder}: {exc.strerror}") from exc
    except (ValueError, TypeError, LookupError, AttributeError) as exc:
        raise Corrupt(f"{folder / FILE} is damaged: {exc}") from exc


def digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the size and digest of every file below the folder except the manifest."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, _digest(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / FILE
    }


def check(folder: Path, manifest: Manifest) -> None:
    """Raise Corrupt unless every file is there and unchanged."""
    for name, (size, digest) in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise Corrupt(f"the backup at {folder} lacks {name}")
        if path.stat().st_size != size:
            raise Corrupt(f"{path} has {path.stat().st_size} of {size} bytes: it was cut off")
        if _digest(path) != digest:
            raise Corrupt(f"{path} was changed or damaged since the backup")


@contextmanager
def written(folder: Path) -> Iterator[None]:
    """Translate errors of writing to the folder into InvalidSettings."""
    try:
        yield
    except OSError as exc:
        raise InvalidSettings(f"cannot write to {folder}: {exc.strerror or exc}") from exc


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
