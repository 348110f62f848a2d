"""Private folders, and files that are replaced in one step."""

from __future__ import annotations

import os
import stat
from pathlib import Path

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
    """Write the file in one step, so that no reader finds it empty or half written.

    The text goes to `PATH.draft` first, which a process that dies leaves behind.
    """
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
