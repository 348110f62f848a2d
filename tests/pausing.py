"""Pause processes that a test has started."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import wait_until


@contextmanager
def paused(pids):
    """Stop these processes; they continue afterwards.

    The signal takes effect later: a thread that runs on another processor can still answer a
    request. So wait until every thread has stopped, if the system has `/proc`.
    """
    assert pids
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(map(_is_stopped, pids)), "the processes to stop")
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _is_stopped(pid):
    try:
        return all(_state(task) in "Tt" for task in Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:  # a thread ended meanwhile, or this system has no /proc
        return not Path("/proc/self/task").exists()


def _state(task):
    """Return the letter of the state, which follows the command in parentheses."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]
