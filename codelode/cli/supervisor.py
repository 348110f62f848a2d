"""Keep a set of child processes alive, and end all of them.

`up` defines the children, when each is ready, and how it is stopped. A single thread checks all
children in turn (`step`), because a child dies with the thread that started it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import Signals
from typing import IO

from codelode.cli import data_folder
from codelode.cli.fork_server import Forked, ForkServer
from codelode.cli.parent_watch import die_with_parent
from codelode.environment import MARKER, UNUSABLE_SETTINGS, without_token
from codelode.errors import InvalidSettings, TimedOut

#: Pause before a dead child is started again, seconds; doubles from the first value to the second.
RESTART_BACKOFF_S = (0.5, 10.0)
#: A child that was ready and lived this long, seconds, is restarted with the short pause again.
SETTLED_S = 30.0
#: The last log lines of a child are printed at its second death in a row, then at every fifth.
SHOW_LOG_DEATHS = (2, 5)
LAST_LINES = 8
#: A larger log is renamed when the cluster starts, bytes.
LOG_BYTES = 10_000_000
#: How often children are checked while they end, seconds.
LOOK_S = 0.02

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Child:
    """A process to keep alive."""

    name: str  # of its log and its pid file
    command: Sequence[str]
    #: Returns whether the child is ready, given its output since it started.
    is_ready: Callable[[str], bool]
    #: Signals that end it, each with the seconds to wait before the next; SIGKILL is the last.
    stop: Sequence[tuple[Signals, float]] = ((signal.SIGTERM, 3.0),)
    #: Children of a lower phase are stopped first.
    stop_phase: int = 0
    #: Returns the part of the cluster's environment that it gets: secrets only where needed.
    environment: Callable[[Mapping[str, str]], dict[str, str]] = without_token
    #: The arguments with which the fork server, if there is one, starts it instead of the command.
    #: It then inherits the environment of the fork server, which is `without_token`.
    forked: Sequence[str] = ()


@dataclass(slots=True)
class _Life:
    """The current process of a child, and the state of its supervision."""

    child: Child
    log: Path
    process: subprocess.Popen[bytes] | Forked
    reader: IO[bytes]
    started_at: float
    is_ready: bool = False
    was_ready: bool = False  # at any time
    output: str = ""  # until it is ready
    deaths: int = 0  # in a row
    restart_at: float | None = None
    unfinished_line: str = field(default="", repr=False)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None


class Supervisor:
    """Supervises the children of one cluster. Use it from one thread, as a context manager."""

    def __init__(
        self,
        data: Path,
        *,
        environment: Mapping[str, str],
        announce: Announce,
        show_logs: bool = False,
        in_a_hurry: Callable[[], bool] = lambda: False,
        fork_server: Sequence[str] = (),
    ) -> None:
        """Supervise no children yet. If `in_a_hurry` returns True, stopping kills at once.

        `fork_server`: the command of a process that forks children (`workers.fork_server`).
        """
        self._data = data
        self._environment = {**environment, MARKER: str(data)}
        self._announce = announce
        self._show_logs = show_logs
        self._in_a_hurry = in_a_hurry
        self._lives: list[_Life] = []
        self._fork_server = ForkServer(partial(self._spawn, fork_server)) if fork_server else None

    def start(self, *children: Child) -> None:
        """Start the children; `step` supervises them from now on."""
        for child in children:
            log = data_folder.logs_dir(self._data) / f"{child.name}.log"
            _put_aside(log)
            process, reader = self._launch(child, log)
            self._lives.append(_Life(child, log, process, reader, time.monotonic()))

    def step(self) -> None:
        """Check every child once: whether it is ready, has died, or is due for a restart.

        Raises InvalidSettings with the reason if a child cannot start with its settings. A child
        that was ready before is started again, because a file may have changed since.
        """
        now = time.monotonic()
        for life in self._lives:
            self._listen(life)
            if life.restart_at is not None:
                self._restart(life, now)
            elif not life.is_alive:
                self._bury(life, now)
            elif not life.is_ready and life.child.is_ready(life.output):
                life.is_ready = life.was_ready = True
                life.output = ""

    def not_ready(self) -> tuple[str, ...]:
        """Return the names of children that are not ready."""
        return tuple(life.child.name for life in self._lives if not life.is_ready)

    def stop(self) -> None:
        """End every child, phase by phase; when this returns, none is left."""
        for phase in sorted({life.child.stop_phase for life in self._lives}):
            self._end([life for life in self._lives if life.child.stop_phase == phase])
        self._lives.clear()
        if self._fork_server is not None:
            self._fork_server.close()
        data_folder.end_leftovers(self._data)

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(
        self, child: Child, log: Path
    ) -> tuple[subprocess.Popen[bytes] | Forked, IO[bytes]]:
        log.touch()
        reader = log.open("rb")
        reader.seek(0, os.SEEK_END)  # the child will append
        process = self._forked(child, log) or self._spawn(
            child.command, subprocess.DEVNULL, log, child.environment(self._environment)
        )
        data_folder.note_pid(self._data, child.name, process.pid)
        return process, reader

    def _forked(self, child: Child, log: Path) -> Forked | None:
        """Return a forked process; None for a child that has to be started by its command."""
        if not child.forked or self._fork_server is None:
            return None
        try:
            return self._fork_server.start(child.forked, log)
        except TimedOut as exc:
            self._announce(
                f"the process that forks the workers hangs ({exc}); from now on each worker is "
                f"started on its own, which takes longer and more memory; its log is "
                f"{self._fork_server.log}"
            )
            self._fork_server = None
            return None

    def _spawn(
        self,
        command: Sequence[str],
        stdin: int,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                die_with_parent(command),
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=without_token(self._environment) if environment is None else environment,
                cwd=self._data,  # the caller's folder may hold packages with our names
                start_new_session=True,  # Ctrl-C reaches only this process
            )

    def _listen(self, life: _Life) -> None:
        text = life.reader.read().decode("utf-8", "replace")
        if not text:
            return
        if not life.is_ready:
            life.output += text
        if self._show_logs:
            *lines, life.unfinished_line = (life.unfinished_line + text).split("\n")
            for line in lines:
                self._announce(f"{life.child.name:>8} | {line}")

    def _bury(self, life: _Life, now: float) -> None:
        has_settled = life.is_ready and now - life.started_at > SETTLED_S
        life.deaths = 1 if has_settled else life.deaths + 1
        pause_s = min(RESTART_BACKOFF_S[0] * 2 ** (life.deaths - 1), RESTART_BACKOFF_S[1])
        life.restart_at, life.is_ready = now + pause_s, False
        _kill_group(life)
        status = life.process.wait()
        if status == UNUSABLE_SETTINGS and not life.was_ready:
            raise InvalidSettings("\n".join(_last_lines(life.log)[-1:]))
        how = _how_it_ended(status)
        self._announce(f"{life.child.name} {how}; it starts again in {pause_s:g} s")
        first, every = SHOW_LOG_DEATHS
        if life.deaths % every == first and not self._show_logs:
            self._announce(f"the last lines of {life.log}:")
            for line in _last_lines(life.log):
                self._announce(f"    {line}")

    def _restart(self, life: _Life, now: float) -> None:
        if life.restart_at is None or now < life.restart_at:
            return
        process, reader = self._launch(life.child, life.log)
        life.reader.close()  # not before: if the launch fails, `stop` still reads it
        life.process, life.reader = process, reader
        life.started_at, life.restart_at, life.output = now, None, ""

    def _end(self, lives: Sequence[_Life]) -> None:
        for attempt in range(max(len(life.child.stop) for life in lives)):
            asked = [life for life in lives if life.is_alive and attempt < len(life.child.stop)]
            for life in asked:
                life.process.send_signal(life.child.stop[attempt][0])
            patience_s = max((life.child.stop[attempt][1] for life in asked), default=0.0)
            self._await_end(asked, patience_s)
        for life in lives:
            _kill_group(life)
            life.process.wait()
            self._listen(life)
            life.reader.close()
            data_folder.forget_pid(self._data, life.child.name)

    def _await_end(self, lives: Iterable[_Life], patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while any(life.is_alive for life in lives):
            if time.monotonic() > deadline or self._in_a_hurry():
                return
            time.sleep(LOOK_S)


def _kill_group(life: _Life) -> None:
    """Kill the child and its own children, as far as they still run."""
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: macOS, only zombies
        os.killpg(life.process.pid, signal.SIGKILL)


def _how_it_ended(returncode: int) -> str:
    if returncode >= 0:
        return f"ended with status {returncode}"
    return f"was ended by {Signals(-returncode).name}"


def _put_aside(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))


def _last_lines(log: Path) -> list[str]:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        return file.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
