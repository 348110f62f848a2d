"""Run a command that dies with its parent: `python parent_watch.py PARENT_PID COMMAND [ARGUMENT…]`.

This is a separate program and not a `preexec_fn`, which would run Python in a forked copy of a
process with threads (those of gRPC) and might deadlock. It imports little, because it delays the
start of every child. Without prctl (macOS), the command does not die with its parent.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def die_with_parent(command: Sequence[str]) -> list[str]:
    """Return the command wrapped so that it dies when the thread that starts it ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # the parent died before the line above took effect
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
