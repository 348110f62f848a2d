"""Fork a process for each call, from a server process without threads that has imported the code.

`workers.confined` is the interface. The server is forked from a worker that has no threads yet, so
that it starts at once and shares the worker's memory. Where that is not possible it is started as a
new process. It ends with the worker, which holds the other end of its channel.

A request is one byte on the channel with two sockets. The child gets the first one: it reads the
call and writes the result. The server keeps the second one: it kills the child when the caller
closes it for writing, and writes the exit status when the child has ended.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn

from codelode.errors import Unavailable
from workers.process import die_with_parent, show

#: Modules that the server imports once, for all children: those that plan a run, and those that
#: the registry of backends would otherwise import in each child.
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

#: The program of a server that is not forked; its modules are found where the caller finds them.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from workers import call_server; call_server.main()"

#: The name that `ps` shows for a forked server and its children instead of that of the worker. A
#: name longer than "pull" would be cut off if that worker was not forked.
SHOWN = "call"

_STATUS = struct.Struct("i")


class Child:
    """A child that does one call. `work` is the connection to it."""

    def __init__(self, work: Connection, control: socket.socket) -> None:
        self.work = work
        self._control = control

    def end(self) -> int | None:
        """Kill the child unless it has ended. Return its status, below 0 if a signal ended it.

        The status is None if the server has died, and with it the child.
        """
        with self.work, self._control, suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
            status = self._control.recv(_STATUS.size)
            return int(_STATUS.unpack(status)[0]) if status else None
        return None


class Server:
    """The server of this process, which is started when needed, and again if it died."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._wait: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

    def fork(self) -> None:
        """Fork the server from this process, which must have no threads."""
        for module in PRELOADED:
            import_module(module)
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            ours.close()
            show([SHOWN])
            serve(theirs)
        theirs.close()
        self._channel, self._wait = ours, lambda: os.waitpid(pid, 0)

    def launch(self) -> None:
        """Start the server as a new process, without waiting for it."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-c", _PROGRAM.format(path=sys.path)]
        with theirs:
            process = subprocess.Popen(command, stdin=theirs.fileno())
        self._channel, self._wait = ours, process.wait

    def child(self) -> Child:
        """Return a new child. Raises Unavailable if the server dies meanwhile."""
        work, child_end = multiprocessing.Pipe()
        control, server_end = socket.socketpair()
        with child_end, server_end:
            self._send(child_end.fileno(), server_end.fileno())
        if not control.recv(1):
            work.close()
            control.close()
            raise Unavailable("the process that forks others for confined calls has ended")
        return Child(work, control)

    def _send(self, *descriptors: int) -> None:
        with self._lock:
            if self._channel is not None:
                with suppress(BrokenPipeError, ConnectionResetError):
                    socket.send_fds(self._channel, [b"\0"], descriptors)
                    return
                self._channel.close()
                self._wait()
            self.launch()
            assert self._channel is not None
            socket.send_fds(self._channel, [b"\0"], descriptors)


def main() -> NoReturn:
    """Run a server that was not forked; its standard input is the channel."""
    channel = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for module in PRELOADED:
        import_module(module)
    serve(channel)


def serve(channel: socket.socket) -> NoReturn:
    """Fork a child for each request until the channel is closed, then end this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when a call ends
        gc.freeze()  # else the collector writes to the pages that the children share
        with selectors.DefaultSelector() as selector:
            _Serving(channel, selector).run()
    finally:
        os._exit(0)  # skip clean-up, which is left to the worker


class _Forked(NamedTuple):
    """A child from the view of the server; `ended` is readable when it has ended."""

    pid: int
    control: socket.socket
    ended: int


class _Serving:
    """The loop of the server. Each file that it selects has the function to call."""

    def __init__(self, channel: socket.socket, selector: selectors.BaseSelector) -> None:
        self._channel = channel
        self._selector = selector
        self._children: set[_Forked] = set()
        selector.register(channel, selectors.EVENT_READ, self._fork)

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _fork(self) -> None:
        request, descriptors, _, _ = socket.recv_fds(self._channel, 1, 2)
        if not request:  # the worker has ended
            for child in self._children:
                os.kill(child.pid, signal.SIGKILL)
            os._exit(0)
        work, control = descriptors
        ended, held = os.pipe()  # the child holds the only copy of the other end
        server, pid = os.getpid(), os.fork()
        if not pid:
            self._forget()
            os.close(control)
            _do(server, Connection(work))
        os.close(work)
        os.close(held)
        child = _Forked(pid, socket.socket(fileno=control), ended)
        with suppress(OSError):  # the caller has ended
            child.control.send(b"\0")
        self._children.add(child)
        self._selector.register(ended, selectors.EVENT_READ, partial(self._collect, child))
        self._selector.register(child.control, selectors.EVENT_READ, partial(self._kill, child))

    def _forget(self) -> None:
        """Close, in a child, the files of the server and of its other children."""
        self._selector.close()
        self._channel.close()
        for other in self._children:
            other.control.close()
            os.close(other.ended)

    def _kill(self, child: _Forked) -> None:
        if child in self._children:  # else the same `select` also reported its end
            self._selector.unregister(child.control)
            os.kill(child.pid, signal.SIGKILL)

    def _collect(self, child: _Forked) -> None:
        self._children.remove(child)
        _, status = os.waitpid(child.pid, 0)
        self._selector.unregister(child.ended)
        os.close(child.ended)
        with suppress(KeyError):  # it was killed
            self._selector.unregister(child.control)
        with child.control, suppress(OSError):
            child.control.send(_STATUS.pack(os.waitstatus_to_exitcode(status)))


def _do(server: int, work: Connection) -> NoReturn:
    """Run in a child: receive a call, and send its result or error."""
    status = 1
    try:
        die_with_parent()
        if os.getppid() == server:  # else it died before the line above took effect
            memory_bytes, function, arguments = work.recv()
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
            _answer(work, function, arguments)
            status = 0
    except BaseException:  # noqa: BLE001 - nothing above this frame is the child's
        traceback.print_exc()
    finally:
        os._exit(status)


def _answer(work: Connection, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    result: object
    try:
        result = function(*arguments)
    except Exception as exc:  # noqa: BLE001 - it is raised again by the caller's process
        result = exc
    try:
        work.send(result)
    except Exception:  # noqa: BLE001 - an error that cannot be sent is sent as text
        work.send(RuntimeError(f"{type(result).__name__}: {result}"))
