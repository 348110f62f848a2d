"""Start processes through a fork server: a process that has imported their code and forks them.

`workers/fork_server.py` is the server, and describes the messages.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from codelode.errors import TimedOut

#: Maximum wait for an answer of the server, seconds. The server imports the code first, in 2 s on
#: an idle machine and several times that on a busy one.
ANSWER_S = 30.0

#: Interval at which `wait` checks whether a process has ended, seconds.
LOOK_S = 0.02

#: Largest message, bytes.
PACKET_BYTES = 1 << 16


class ForkServer:
    """Forks processes through a server, which is started when needed, and again if it died."""

    def __init__(self, launch: Callable[[int, Path], subprocess.Popen[bytes]]) -> None:
        """`launch` starts the server, given a file descriptor for its standard input and a log."""
        self._launch = launch
        self._server: _Server | None = None
        self.log: Path | None = None  # the log of the server: that of the first process it forks

    def start(self, arguments: Sequence[str], log: Path) -> Forked:
        """Return a new process with these arguments, whose output is appended to the log.

        If the server dies, the returned process has ended. If it hangs, it is killed with all
        processes that it has forked. Raises TimedOut then.
        """
        if self._server is None or not self._server.is_alive():
            self.close()
            self.log = log
            self._server = _Server(self._launch, log)
        return self._server.fork(arguments, log)

    def close(self) -> None:
        """End the server, and with it all processes that it has forked."""
        if self._server is not None:
            self._server.close()
            self._server = None


class Forked:
    """A forked process, with the part of the interface of `Popen` that the supervisor uses."""

    def __init__(self, server: _Server, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status of the process as `Popen` does, or None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.status(self.pid)
        return self.returncode

    def wait(self) -> int:
        """Wait until the process has ended, and return its exit status."""
        while (status := self.poll()) is None:
            time.sleep(LOOK_S)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process if it runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class _Server:
    """One server process, and the channel to it."""

    def __init__(self, launch: Callable[[int, Path], subprocess.Popen[bytes]], log: Path) -> None:
        self._channel, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with others:
            self._process = launch(others.fileno(), log)
        self._ended: dict[int, int] = {}

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, arguments: Sequence[str], log: Path) -> Forked:
        request = {"arguments": list(arguments), "log": str(log)}
        try:
            self._channel.send(json.dumps(request).encode())
            while "started" not in (message := self._receive(ANSWER_S)):
                self._note(message)
        except TimeoutError:
            self.close()
            raise TimedOut(f"no answer within {ANSWER_S:g} s") from None
        except OSError:  # it has died
            self.close()
            return Forked(self, self._process.pid)
        return Forked(self, message["started"])

    def status(self, pid: int) -> int | None:
        """Return the exit status of a forked process, or None while it runs."""
        with suppress(OSError):
            while pid not in self._ended:
                self._note(self._receive())
        if pid in self._ended:
            return self._ended.pop(pid)
        # The kernel kills the forked processes when the server ends.
        if self.is_alive():
            return None
        return self._process.returncode if pid == self._process.pid else -signal.SIGKILL

    def close(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def _receive(self, patience_s: float = 0.0) -> dict[str, int]:
        """Return the next message. Raises OSError if there is none within `patience_s`."""
        if self._channel.fileno() < 0 or not select.select([self._channel], [], [], patience_s)[0]:
            raise TimeoutError
        packet = self._channel.recv(PACKET_BYTES)
        if not packet:
            raise ConnectionResetError
        message: dict[str, int] = json.loads(packet)
        return message

    def _note(self, message: dict[str, int]) -> None:
        self._ended[message["ended"]] = message["status"]
