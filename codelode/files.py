"""Create private folders and files, replace files atomically, and read secrets from files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from codelode.errors import InvalidSettings

_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(folder: Path) -> None:
    """Create the folder with mode 0700, and its missing parents likewise.

    If the folder exists and belongs to this user, other users lose their rights to it. A folder of
    another user stays as it is, because only its owner can change it.
    """
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    if found.st_uid == os.geteuid() and found.st_mode & _OF_OTHERS:
        folder.chmod(stat.S_IRWXU)


def replace_text(path: Path, text: str) -> None:
    """Write the file atomically, so that no reader finds it empty or half written.

    That holds after a power failure too. Only its owner can read it. The text is first written to
    `PATH.draft`, which a process that dies leaves behind.
    """
    draft = path.with_name(f"{path.name}.draft")
    with open_private(draft) as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def open_private(path: Path) -> BinaryIO:
    """Open a new file for writing, with mode 0600 from the start; an older file is removed."""
    path.unlink(missing_ok=True)
    created = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.fdopen(created, "wb")


def read_secret(path: Path) -> str:
    """Return the secret in a file. Raises InvalidSettings if there is none."""
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidSettings(f"cannot read the secret in {path}: {exc}") from exc
    if not secret:
        raise InvalidSettings(f"{path} is empty: write a long random text into it")
    return secret
