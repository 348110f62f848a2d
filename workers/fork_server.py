"""Fork the workers of a cluster from a process that has imported their code.

Imports take most of a worker's start-up time and much of its memory. Forked workers share the
result, so that a cluster starts sooner, and a worker that died is replaced sooner.

`codelode up` starts `python -m workers fork-server` with a socket as standard input. It sends
requests, `{"arguments": […], "log": PATH}`, and gets `{"started": PID}` for each of them, and
`{"ended": PID, "status": NUMBER}` when a worker has ended. Each message is one packet of JSON. The
server ends when the socket is closed, and the workers end with the server.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from codelode import garbage
from workers import call_server
from workers.process import die_with_parent, show

#: The argument of `python -m workers` that starts the server. The caller pads it with spaces: a
#: forked worker overwrites this command line with its own, and has no more room than that.
ARGUMENT = "fork-server"

#: Modules that several workers import, whatever the settings are.
PRELOADED = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.worker.consumer",
    "codelode.backends.redis",
    "codelode.backends.redis.transport",
    "workers.delivery.tasks",
    "workers.delivery.upkeep",
    "workers.stages",
    *call_server.PRELOADED,
)

#: Largest message, bytes.
PACKET_BYTES = 1 << 16


def serve(preloaded: Sequence[str]) -> list[str]:
    """Fork a process for each request, and return its arguments, in the forked process only.

    The forked process has its own session and the arguments in `sys.argv`, and writes its output to
    the log of the request. The server itself exits when the socket is closed.
    """
    with garbage.postponed():  # the collector must not write to the pages that the workers share
        for module in preloaded:
            import_module(module)
    server, channel = os.getpid(), socket.socket(fileno=os.dup(0))
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # else the wake-up is not written
    while True:
        readable, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, PACKET_BYTES)
            _report_ended(channel)
        if channel.fileno() in readable:
            request = _request(channel)
            worker = os.fork()
            if not worker:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                channel.close()
                os.close(woken)
                os.close(wake)
                _settle(server, request.arguments, request.log)
                return request.arguments
            channel.send(json.dumps({"started": worker}).encode())


class _Request(NamedTuple):
    arguments: list[str]
    log: str


def _request(channel: socket.socket) -> _Request:
    """Return the next request. Ends the server if there will be none."""
    packet = channel.recv(PACKET_BYTES)
    return _Request(**json.loads(packet)) if packet else sys.exit()


def _report_ended(channel: socket.socket) -> None:
    """Report each worker that has ended, with its exit status, below 0 if a signal ended it."""
    with suppress(ChildProcessError):  # no worker is left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            worker, status = ended[0], os.waitstatus_to_exitcode(ended[1])
            channel.send(json.dumps({"ended": worker, "status": status}).encode())


def _settle(server: int, arguments: Sequence[str], log: str) -> None:
    """Make the forked process look as if it had been started with these arguments."""
    die_with_parent()
    if os.getppid() != server:  # the server died before the line above took effect
        os._exit(1)
    os.setsid()
    for path, how, ours in (
        (os.devnull, os.O_RDONLY, (0,)),
        (log, os.O_WRONLY | os.O_APPEND, (1, 2)),
    ):
        opened = os.open(path, how)
        for one in ours:
            os.dup2(opened, one)
        os.close(opened)
    sys.argv[1:] = arguments
    show(arguments)
