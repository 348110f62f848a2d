"""End the servers of a test run that has no teardown of its own, for example after SIGKILL.

The guardian is a separate process that reads from a pipe. However the test run ends, the kernel
closes the pipe; the guardian then ends every registered server that still runs. It has its own
session, so that a signal to the process group of the run does not reach it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SERVICES = Path(__file__).parents[1] / "deploy" / "services.sh"


class Guardian:
    """Starts the guardian process and registers with it what it must end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def popen(self, command, **options):
        """Start a process like `subprocess.Popen`; it does not outlive the test run."""
        self._start()
        started = subprocess.Popen(command, **options)
        self._tell(f"process {started.pid}")
        return started

    def services(self, state):
        """Stop the servers of this state folder at the end of the test run."""
        self._start()
        self._tell(f"services {state}")

    def close(self):
        """End all registered processes and servers that still run."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _start(self):
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _tell(self, line):
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()


#: The guardian of this test process; it starts with the first process to watch.
GUARDIAN = Guardian()


class Watched:
    """A process that is not confused with a later one that gets its id."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def kill(self):
        """Kill the process, and its process group if it leads one."""
        if self._handle is not None:
            signal.pidfd_send_signal(self._handle, signal.SIGSTOP)  # fails if it has ended
        if os.getpgid(self._pid) == self._pid:
            os.killpg(self._pid, signal.SIGKILL)
        os.kill(self._pid, signal.SIGKILL)


def main() -> None:
    processes, states = [], []
    for line in sys.stdin:
        kind, _, subject = line.rstrip("\n").partition(" ")
        if kind == "services":
            states.append(subject)
            continue
        with suppress(ProcessLookupError):
            processes.append(Watched(int(subject)))
    for process in processes:
        with suppress(ProcessLookupError):
            process.kill()
    for state in filter(os.path.isdir, states):
        environment = {**os.environ, "SERVICES_STATE": state}
        subprocess.run([SERVICES, "down"], env=environment, check=False)


if __name__ == "__main__":
    main()
