"""Run a command that dies with its parent: `python parent_watch.py PARENT_PID COMMAND [ARGUMENT…]`.

A program of its own, run between fork and exec, rather than `preexec_fn`: that one runs Python
in a forked copy of a process with threads (gRPC's), which may deadlock. Imports little, for it
delays every child. Where there is no prctl (macOS) the command just runs.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def die_with_parent(command: Sequence[str]) -> list[str]:
    """The command, to be started by the calling thread: it dies when that thread ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before the line above took effect
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
