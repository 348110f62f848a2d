"""Have the calling process end with its parent, and set the command line that `ps` shows for it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

#: The end of the command line of every worker before its arguments: `python -m workers`.
_PROGRAM = b"\0workers\0"

#: Indexes of the start and end address of the command line among the fields of /proc/PID/stat that
#: follow the name of the process.
_ARG_START, _ARG_END = 48 - 3, 49 - 3


def die_with_parent() -> None:
    """Have the kernel kill the calling process when its parent ends."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def show(arguments: Sequence[str]) -> None:
    """Have `ps` show these arguments of `python -m workers`, in place of those of its parent.

    They are cut to the length of the parent's original command line. Has no effect in other
    programs.
    """
    own = Path("/proc/self/cmdline").read_bytes()
    before, is_ours, _ = own.partition(_PROGRAM)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, room = int(fields[_ARG_START]), int(fields[_ARG_END]) - int(fields[_ARG_START])
    if start and is_ours:
        shown = before + _PROGRAM + b"\0".join(map(os.fsencode, arguments))
        ctypes.memmove(start, shown[: room - 1].ljust(room, b"\0"), room)
