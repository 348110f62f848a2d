"""Run git with a fixed environment, a deadline, and a translation of its errors.

GitPython is used only to parse progress. Its wrappers pass on this process's own GIT_ variables (a
worker started from a hook would work on the hook's repository), and at a timeout they kill git, but
not the transport and pack processes that it started.
"""

from __future__ import annotations

import io
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import IO

import structlog

from codelode.environment import without_settings
from codelode.errors import (
    CodelodeError,
    Denied,
    InvalidSettings,
    NotFound,
    Rejected,
    TimedOut,
    Unavailable,
)
from codelode.git_access import Header, SshIdentity
from workers.confined import WATCH_S, Abandoned
from workers.pull import landlock

log = structlog.get_logger("workers")

#: Timeout of a call that only reads the mirror, seconds.
LOCAL_TIMEOUT_S = 600.0
#: Memory that git may use, bytes; files that it maps do not count.
MEMORY_BYTES = 4 << 30
#: Shell script that limits its memory to $0 kilobytes and becomes the command "$@".
_LIMITED = 'ulimit -d "$0" && exec "$@"'
#: Shell script that becomes the command "$0" "$@" while another shell watches the pipe at its
#: input, and kills the whole group when the pipe ends without a line. {pipe}: a free descriptor, of
#: one digit.
_WATCHED = (
    'exec {pipe}<&0 </dev/null; (trap "" TERM; read -r _ <&{pipe} || kill -KILL 0) '
    '>/dev/null 2>&1 & exec "$0" "$@" {pipe}<&-'
)
#: Maximum output of a call, bytes. Listing a commit of 500,000 files prints about 50 MB.
OUTPUT_BYTES = 256 << 20
#: Time without a message after which a transfer has stalled, seconds; git reports every second.
STALL_S = 120.0
#: Time between SIGTERM, after which git removes its lock and temporary files, and SIGKILL, seconds.
_GRACE_S = 5.0
#: Number of last lines of git's messages that are kept, to find the reason of an error in them.
_KEPT_LINES = 200

#: Defects that old versions of git and importers wrote into real histories. They are harmless if
#: nothing is checked out, and rejecting them would reject the whole repository.
_HARMLESS = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badFilemode",
    "badName",
    "badTagName",
    "badTimezone",
    "duplicateEntries",
    "emptyName",
    "extraHeaderEntry",
    "fullPathname",
    "gitmodulesBlob",
    "gitmodulesMissing",
    "gitmodulesName",
    "gitmodulesParse",
    "gitmodulesPath",
    "gitmodulesSymlink",
    "gitmodulesUpdate",
    "gitmodulesUrl",
    "hasDot",
    "hasDotdot",
    "hasDotgit",
    "missingAuthor",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingTaggerEntry",
    "multipleAuthors",
    "nulInCommit",
    "nullSha1",
    "treeNotSorted",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)

#: Configuration of every call, which overrides all files. The operator's ~/.gitconfig is still
#: read, because credential helpers, proxies and certificate bundles are set there.
_CONFIG: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    # Larger files are streamed instead of read into memory.
    "core.bigFileThreshold": "32m",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.fsckObjects": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "transfer.bundleURI": "false",
    # A redirect could lead to a host in the operator's internal network.
    "http.followRedirects": "false",
    # Less than 1,000 bytes a second for a minute is a stall.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    **{f"fetch.fsck.{oddity}": "warn" for oddity in _HARMLESS},
}

#: Variables by which an operator gives git credentials and certificates.
_KEPT_VARIABLES = frozenset(
    {"GIT_ASKPASS", "GIT_SSH", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_EXEC_PATH"}
)

#: Where git, the shell, and their libraries are, besides the folder in which git is installed.
_PROGRAMS = (
    *("/bin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64"),
    *("/usr/libexec", "/usr/local/bin", "/usr/local/lib", "/usr/local/libexec"),
    *("/nix/store", "/gnu/store", "/etc/ld.so.cache", "/dev/null", "/dev/urandom"),
)

_SSH_OPTIONS = (
    "-oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=30 -oServerAliveInterval=15"
    # A shared session could have been opened with another key.
    " -oControlMaster=no -oControlPath=none"
)

_DENIED = re.compile(
    r"authentication failed|could not read (username|password)|permission denied|access denied"
    r"|host key verification failed|returned error: 40[13]|dubious ownership"
    r"|transport '[^'\n]*' not allowed",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(
    r"repository (?:(?!repository |not found).)*+not found"
    r"|does not appear to be a git repository|not a git repository"
    r"|returned error: (404|410|30\d)|does not exist|no such file or directory"
    r"|not a (valid object name|tree object)|bad object"
    r"|repository not exported|mismatched algorithms",
    re.IGNORECASE,
)
_REASON = re.compile(r"(?:remote: )*(?:fatal|error|ssh): (?P<reason>.+)", re.IGNORECASE)
#: Git prints this after every failure of a transport, whatever the reason.
_GENERIC = re.compile(
    r"could not read from remote repository|the remote end hung up|early eof"
    r"|index-pack failed|invalid index-pack output|^fetch failed",
    re.IGNORECASE,
)
#: Remedies, which git does not name.
_REMEDIES = (
    (
        "terminal prompts disabled",
        "a wrong address, or a private repository: set a git credential helper",
    ),
    ("returned error: 30", "the repository has moved: register its new URL"),
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the key of the host is not the one in known_hosts: if the host has published a new key, "
        "replace it there",
    ),
    ("Host key verification failed", "add the host to known_hosts"),
    ("Permission denied (", "the host does not accept the ssh key: register its public key there"),
)
_OUT_OF_MEMORY = re.compile(r"out of memory|cannot allocate memory", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


def environment(
    *, protocols: str = "", trusted: str = "", access: Header | SshIdentity | None = None
) -> dict[str, str]:
    """Return the whole environment of a git call, without codelode's settings.

    `protocols`: the protocols that git may use, separated by `:`; none by default. `trusted`: a
    local repository that may belong to another user; it is read without the user's configuration.
    `access`: a header replaces those that the user's configuration has for the same addresses; an
    ssh identity replaces the user's configuration of ssh, and must be kept as long as git runs.
    """
    kept = {
        name: value
        for name, value in without_settings().items()
        if not name.startswith("GIT_") or name in _KEPT_VARIABLES
    }
    for name in ("SSH_ASKPASS", *(("HOME", "XDG_CONFIG_HOME") if trusted else ())):
        kept.pop(name, None)
    ssh = f"{os.environ.get('GIT_SSH_COMMAND', 'ssh')} {_SSH_OPTIONS}"
    config = [*_CONFIG.items(), *([("safe.directory", trusted)] if trusted else ())]
    if isinstance(access, Header):
        key = f"http.{access.below}.extraHeader"
        config += [(key, ""), (key, access.text)]  # an empty one drops those before it
    if isinstance(access, SshIdentity):
        # ssh uses the first of several values of an option, so the operator's are not given.
        ssh = f"ssh -F /dev/null {access.options} {_SSH_OPTIONS}"
        config += [(f"url.{access.url}.insteadOf", access.below)] if access.below else []
    return {
        **kept,
        **_as_variables(config),
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": protocols or "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_SSH_COMMAND": ssh,
    }


def run(
    *arguments: str,
    timeout_s: float = LOCAL_TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
    readable: Sequence[Path] | None = None,
    stdin: bytes = b"",
    hold: Sequence[int] = (),
    on_line: Callable[[str], None] | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
    memory_bytes: int = MEMORY_BYTES,
    output_bytes: int = OUTPUT_BYTES,
    stall_s: float = math.inf,
) -> bytes:
    """Run `git ARGUMENTS` and return its output.

    `readable`: the only folders below which git can read, besides its programs; None: all.
    `hold`: file descriptors, of a lock, that stay open as long as git runs. A call that holds one
    gets no `stdin`, and all of its processes are killed when this process ends in any way;
    otherwise, a transport would go on waiting for its host. (The kernel's signal at the death of a
    parent reaches only direct children, and is sent when the thread that started them ends.)

    `on_line` receives each line of git's messages, progress among them, from another thread. Raises
    TimedOut at the deadline or when no message came for `stall_s`, Rejected if git needs more
    memory or prints more than allowed, and Abandoned as soon as `is_wanted` returns false. Before
    each of these, git is ended with all processes that it started. If git fails, raises Denied,
    NotFound, or Unavailable, depending on git's reason.
    """
    heard = _Heard(on_line)
    command = bounded(*arguments, memory_bytes=memory_bytes)
    start = partial(_start, _watched_by_a_shell(command, hold), variables, readable)
    source = _end_of_this_process() if hold else _input(stdin)
    with source as given, _started(start(given, hold)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        listener = threading.Thread(target=_listen, args=(process.stderr, heard), daemon=True)
        listener.start()
        limits = _Limits(_command(arguments), timeout_s, stall_s, is_wanted)
        with _watched(process, limits, heard) as reasons:
            out = _read(process.stdout, output_bytes)
            if out is None:
                raise Rejected(f"git {limits.command} printed more than {output_bytes:,} bytes")
            process.wait()
        listener.join()
    if reasons:
        raise reasons[0]
    if process.returncode != 0:
        raise _failure(heard.lines, process.returncode, memory_bytes)
    return out


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process and all processes of the group that it leads."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)


def without_credentials(text: str) -> str:
    """Remove user names and secrets from the URLs in the text."""
    return _USERINFO.sub("", text)


def _as_variables(config: Sequence[tuple[str, str]]) -> dict[str, str]:
    pairs = {}
    for number, (key, value) in enumerate(config):
        pairs[f"GIT_CONFIG_KEY_{number}"] = key
        pairs[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**pairs, "GIT_CONFIG_COUNT": str(len(config))}


@contextmanager
def _input(content: bytes) -> Iterator[IO[bytes] | int]:
    """Yield a file with the content: unlike a pipe, it needs no thread that writes to it."""
    if not content:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


@contextmanager
def _end_of_this_process() -> Iterator[int]:
    """Yield a pipe that ends with a line after the block, and without one if this process ends."""
    reader, writer = os.pipe()
    try:
        yield reader
        os.write(writer, b"\n")
    finally:
        os.close(writer)
        os.close(reader)


def _watched_by_a_shell(command: Sequence[str], hold: Sequence[int]) -> Sequence[str]:
    """Return the command; if it holds a lock, with a shell that watches it: see `_WATCHED`."""
    if not hold:
        return command
    free = next(number for number in range(3, 10) if number not in hold)
    return ("/bin/sh", "-c", _WATCHED.format(pipe=free), *command)


def _start(
    command: Sequence[str],
    variables: Mapping[str, str] | None,
    readable: Sequence[Path] | None,
    source: IO[bytes] | int,
    hold: Sequence[int],
) -> subprocess.Popen[bytes]:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment() if variables is None else variables,
            start_new_session=True,
            pass_fds=hold,
            # Git searches its current folder for a repository, and ends if it may not read there.
            cwd=None if readable is None else "/",
        )

    return start() if readable is None else landlock.started(start, (*_programs(), *readable))


@contextmanager
def _started(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_tree(process)


@cache
def can_be_restricted() -> bool:
    """Return whether `readable` has an effect here; checked once, with a warning if it has none."""
    try:
        if landlock.is_available():
            run("version", variables=environment(trusted="*"), readable=())
            return True
    except (CodelodeError, OSError) as exc:
        log.warning("git_not_restricted", reason=str(exc))
    else:
        log.warning("git_not_restricted", reason="the kernel has no Landlock")
    return False


@cache
def _programs() -> tuple[Path, ...]:
    """Return the folders of git, its helpers, the shell, and their libraries."""
    own = Path(shutil.which("git") or "git").resolve()
    prefix = own.parents[1]
    configured = os.environ.get("GIT_EXEC_PATH") or own.parent
    return (*map(Path, (*_PROGRAMS, configured)), own.parent, prefix / "lib", prefix / "libexec")


def _command(arguments: Sequence[str]) -> str:
    """Return the name of the git command among its arguments, for messages."""
    return arguments[2] if arguments[0] == "--git-dir" else arguments[0]


def bounded(*arguments: str, memory_bytes: int = MEMORY_BYTES) -> tuple[str, ...]:
    """Return the command `git ARGUMENTS`; on Linux, it and what it starts have limited memory.

    A shell sets the limit before it becomes git: a limit set after git has started would not apply
    to a transport that is already running. Raises InvalidSettings if there is no git.
    """
    if shutil.which("git") is None:
        raise InvalidSettings("git is not in PATH; install git 2.30 or newer")
    limit = ("/bin/sh", "-c", _LIMITED, str(memory_bytes >> 10)) if sys.platform == "linux" else ()
    return (*limit, "git", *arguments)


@dataclass(slots=True)
class _Heard:
    """The last lines of git's messages, and when the last one came."""

    on_line: Callable[[str], None] | None
    lines: list[str] = field(default_factory=list)
    at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class _Limits:
    """The conditions under which a call is ended before git exits."""

    command: str
    timeout_s: float
    stall_s: float
    is_wanted: Callable[[], bool]

    def reached(self, started: float, heard: float) -> CodelodeError | None:
        """Return why the call must end now; None if it may continue."""
        now = time.monotonic()
        if now - started >= self.timeout_s:
            return TimedOut(f"git {self.command} did not end within {self.timeout_s:g} seconds")
        if now - heard >= self.stall_s:
            return TimedOut(f"git {self.command} made no progress for {self.stall_s:g} seconds")
        if not self.is_wanted():
            return Abandoned(f"git {self.command} is no longer wanted")
        return None


@contextmanager
def _watched(
    process: subprocess.Popen[bytes], limits: _Limits, heard: _Heard
) -> Iterator[list[CodelodeError]]:
    """Yield a list to which the reason is added if the process had to be ended."""
    reasons: list[CodelodeError] = []
    is_over, started = threading.Event(), time.monotonic()

    def watch() -> None:
        while not is_over.wait(min(WATCH_S, limits.timeout_s)):
            if reason := limits.reached(started, heard.at):
                reasons.append(reason)
                kill_tree(process)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield reasons
    finally:
        is_over.set()


def _read(stream: IO[bytes], most: int) -> bytes | None:
    """Read to the end; None if that is more than `most` bytes."""
    out = io.BytesIO()
    while block := stream.read1(1 << 20):  # type: ignore[attr-defined]
        out.write(block)
        if out.tell() > most:
            return None
    return out.getvalue()


def _listen(stream: IO[bytes], heard: _Heard) -> None:
    """Read git's messages to their end; progress lines end with a carriage return."""
    rest = b""
    while block := stream.read1(65_536):  # type: ignore[attr-defined]
        *complete, rest = re.split(rb"[\r\n]", rest + block)
        for line in complete:
            _hear(line, heard)
        rest = rest[-65_536:]
    _hear(rest, heard)


def _hear(raw: bytes, heard: _Heard) -> None:
    line = raw.decode("utf-8", "replace").strip()
    if not line:
        return
    heard.at = time.monotonic()
    heard.lines.append(line)
    del heard.lines[:-_KEPT_LINES]
    if heard.on_line is not None:
        heard.on_line(line)


def _failure(lines: Sequence[str], status: int, memory_bytes: int) -> CodelodeError:
    """Return the error, whose type says whether a retry may help, with git's own reason."""
    reason = without_credentials(_reason(lines) or f"git ended with status {status}")
    text = "\n".join(lines)
    if any(map(_OUT_OF_MEMORY.search, (one for one in lines if not one.startswith("remote:")))):
        return Rejected(
            f"git needs more memory than {memory_bytes >> 20} MB (CODELODE_GIT_MEMORY_MB): {reason}"
        )
    reason += next((f"; {remedy}" for sign, remedy in _REMEDIES if sign in text), "")
    if _DENIED.search(text):
        return Denied(reason)
    if _NOT_FOUND.search(text):
        return NotFound(reason)
    return Unavailable(reason)


def _reason(lines: Sequence[str]) -> str:
    """Return the last line with a reason; a generic reason only if there is no other."""
    reasons = [found["reason"] for line in lines if (found := _REASON.match(line))]
    telling = [reason for reason in reasons if not _GENERIC.search(reason)]
    return next(iter((telling or reasons or list(lines))[-1:]), "")
