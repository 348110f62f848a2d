"""Call a function in a process that can be killed.

Code that reads the content of repositories may take minutes or all memory, and some of it holds the
interpreter lock all the time: in a thread, it would block the whole worker. `call` is for
workers with threads, pull and store: a server process without threads forks a child for each call,
which takes a few milliseconds. `tried` is for single-threaded workers. It forks the calling process
itself, so the function may use objects that cannot be pickled.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import TypeVar, cast

from codelode.errors import CodelodeError, Rejected, Unavailable
from workers.call_server import Server
from workers.process import die_with_parent

#: Interval at which a caller checks whether the result is still wanted, seconds.
WATCH_S = 1.0

T = TypeVar("T")

_server = Server()


class Abandoned(CodelodeError):
    """The result is no longer wanted, because the run was cancelled or its repository removed."""


class Slots:
    """Limits how many threads of this process do a kind of work at once."""

    def __init__(self, at_once: int) -> None:
        self._free = threading.BoundedSemaphore(at_once)

    @contextmanager
    def taken(self, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Wait for a free slot and hold it. Raises Abandoned when the work is no longer wanted."""
        while not self._free.acquire(timeout=WATCH_S):
            if not is_wanted():
                raise Abandoned("the work is no longer wanted")
        try:
            yield
        finally:
            self._free.release()


def prepare() -> None:
    """Start the server process; on Linux, the calling process must not have threads yet."""
    if sys.platform == "linux":
        _server.fork()
    else:  # macOS may kill forked processes that use its frameworks
        _server.launch()


def call(
    function: Callable[..., T],
    *arguments: object,
    what: str,
    timeout_s: float,
    timeout_setting: str = "",
    memory_bytes: int,
    is_wanted: Callable[[], bool] = lambda: True,
) -> T:
    """Return the function's result, or raise its error.

    In messages, `what` names the work and `timeout_setting` the setting of the time limit.

    Function, arguments, and result are pickled. Raises Rejected if the work takes longer than
    `timeout_s` or more than `memory_bytes`, Unavailable if its process dies, Abandoned as soon as
    `is_wanted` returns false.
    """
    child = _server.child()
    try:
        child.work.send((memory_bytes, function, arguments))
        limited = f"{what} ({timeout_setting})" if timeout_setting else what
        _wait(child.work, timeout_s, limited, is_wanted)
        result = child.work.recv()
    except (EOFError, ConnectionError) as exc:
        raise Unavailable(f"{what} ended its process ({_status(child.end())})") from exc
    finally:
        child.end()
    if isinstance(result, MemoryError):
        raise Rejected(f"{what} needs more than {memory_bytes >> 20} MB of memory")
    if isinstance(result, Exception):
        raise result
    return cast("T", result)


def tried(run: Callable[[], object], timeout_s: float) -> str:
    """Try a call in a fork of this process. Return why this process must not make it, or "".

    The reason is that it takes longer than `timeout_s` or crashes; its result and its errors are
    ignored. The fork ends with this process, which may be killed at its own time limit meanwhile.
    """
    own = os.getpid()
    child = os.fork()
    if not child:
        try:
            die_with_parent()
            if os.getppid() == own:  # else the parent died before the line above took effect
                run()
        finally:
            os._exit(0)  # skip clean-up, which is left to the parent
    deadline, pause_s = time.monotonic() + timeout_s, 0.000_5
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"it takes longer than {timeout_s:g} s"
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)
    return "" if not ended[1] else f"it crashes ({signal.Signals(os.WTERMSIG(ended[1])).name})"


def _wait(answers: Connection, timeout_s: float, what: str, is_wanted: Callable[[], bool]) -> None:
    """Wait until there is an answer, or the process has ended without one."""
    deadline = time.monotonic() + timeout_s
    while not answers.poll(min(WATCH_S, max(0.0, deadline - time.monotonic()))):
        if not is_wanted():
            raise Abandoned(f"{what} is no longer wanted")
        if time.monotonic() >= deadline:
            raise Rejected(f"{what} took longer than {timeout_s:g} s")


def _status(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return signal.Signals(-exitcode).name
    return f"status {exitcode}"
