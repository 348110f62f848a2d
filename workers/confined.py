"""Call a function in a process that can be killed.

Code that reads the content of repositories may take minutes or all memory, and some of it holds the
interpreter lock meanwhile, so that in a thread it would block the whole worker. `call` is for
workers with threads, pull and store: a server process without threads forks a child for each call,
which takes a few milliseconds. `tried` is for single-threaded workers. It forks the calling process
itself, so the function may use objects that cannot be pickled.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

from codelode.errors import CodelodeError, Rejected, Unavailable

#: Interval at which a caller checks whether the result is still wanted, seconds.
WATCH_S = 1.0

#: Modules that the server process imports once, for all children: those that plan a run, and those
#: that the registry of backends would otherwise import in each child.
PRELOADED = (
    "workers.planning",
    "codelode.backends.redis.graph",
    "codelode.backends.redis.ledger",
    "codelode.backends.redis.packages",
    "codelode.backends.redis.references",
    "codelode.backends.redis.sources",
    "codelode.backends.sqlite",
    "importlib.readers",  # reads the scripts of the ledger
)

T = TypeVar("T")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))

#: Starting a child also reaps ended ones, which two threads must not do at once.
_starting = threading.Lock()


class Abandoned(CodelodeError):
    """The result is no longer wanted, because the run was cancelled or its repository removed."""


class Slots:
    """Bounds how many threads of this process do something at once."""

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
    """Start the server process, which takes about a second, without waiting for it."""
    forkserver.ensure_running()


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
    answers, sender = _context.Pipe(duplex=False)
    child = _context.Process(
        target=_work, args=(sender, memory_bytes, function, arguments), daemon=True
    )
    with _starting:
        child.start()
    sender.close()
    try:
        limited = f"{what} ({timeout_setting})" if timeout_setting else what
        _wait(answers, timeout_s, limited, is_wanted)
        result = answers.recv()
    except EOFError as exc:
        _end(child)
        raise Unavailable(f"{what} ended its process ({_status(child.exitcode)})") from exc
    finally:
        _end(child)
        answers.close()
    if isinstance(result, MemoryError):
        raise Rejected(f"{what} needs more than {memory_bytes >> 20} MB of memory")
    if isinstance(result, Exception):
        raise result
    return cast("T", result)


def tried(run: Callable[[], object], timeout_s: float) -> str:
    """Try a call in a fork of this process. Return why it must not be made here, or "".

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
            os._exit(0)  # skips clean-up, which is the parent's
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


def _end(child: BaseProcess) -> None:
    with _starting:
        child.join(0.0)
        child.kill()
        child.join()


def _work(
    sender: Connection,
    memory_bytes: int,
    function: Callable[..., object],
    arguments: tuple[Any, ...],
) -> None:
    """Run in the child: send the result or the error."""
    _die_with_caller()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    result: object
    try:
        result = function(*arguments)
    except Exception as exc:  # noqa: BLE001 - it is raised again by the caller's process
        result = exc
    try:
        sender.send(result)
    except Exception:  # noqa: BLE001 - an error that cannot be sent is sent as text
        sender.send(RuntimeError(f"{type(result).__name__}: {result}"))


def _die_with_caller() -> None:
    """Have the kernel kill the calling process, a child of `call`, when its worker ends.

    The server process ends when all copies of one end of a pipe are closed. A child inherits a
    copy, which would keep server and child alive after the worker, so the child closes it.
    """
    die_with_parent()
    server = forkserver._forkserver
    os.close(server._forkserver_alive_fd)  # type: ignore[attr-defined]
    server._forkserver_alive_fd = None  # type: ignore[attr-defined]


def die_with_parent() -> None:
    """Have the kernel kill the calling process when its parent ends."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _status(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return signal.Signals(-exitcode).name
    return f"status {exitcode}"
