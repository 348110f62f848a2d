"""Run git with a fixed environment, a deadline, and a translation of its errors.

GitPython is used only to parse progress, because its wrappers pass on this process's own GIT_
variables (a worker started from a hook would work on the hook's repository), and at a timeout kill
git alone, without the transport and pack processes that it started.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from codelode.environment import without_settings
from codelode.errors import CodelodeError, Denied, InvalidSettings, NotFound, TimedOut, Unavailable

#: Timeout of a call that only reads the mirror, seconds.
LOCAL_TIMEOUT_S = 600.0
#: Time between SIGTERM, after which git removes its lock and temporary files, and SIGKILL, seconds.
_GRACE_S = 5.0
#: Most lines of git's messages that are kept, to find the reason of an error in them.
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

_SSH_OPTIONS = (
    "-oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=30 -oServerAliveInterval=15"
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
    r"|index-pack failed|invalid index-pack output",
    re.IGNORECASE,
)
#: Remedies, which git does not name.
_REMEDIES = (
    (
        "terminal prompts disabled",
        "a wrong address, or a private repository: set a git credential helper",
    ),
    ("returned error: 30", "the repository has moved: register its new URL"),
    ("Host key verification failed", "add the host to known_hosts"),
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


def environment(*, protocols: str = "", trusted: str = "") -> dict[str, str]:
    """Return the whole environment of a git call, which holds none of our settings.

    `protocols`: the protocols that git may use, separated by `:`; none by default. `trusted`: a
    local repository that may belong to another user.
    """
    kept = {
        name: value
        for name, value in without_settings().items()
        if not name.startswith("GIT_") or name in _KEPT_VARIABLES
    }
    kept.pop("SSH_ASKPASS", None)
    ssh = os.environ.get("GIT_SSH_COMMAND", "ssh")
    config = {**_CONFIG, **({"safe.directory": trusted} if trusted else {})}
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
        "GIT_SSH_COMMAND": f"{ssh} {_SSH_OPTIONS}",
    }


def run(
    *arguments: str,
    timeout_s: float = LOCAL_TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    hold: Sequence[int] = (),
    on_line: Callable[[str], None] | None = None,
) -> bytes:
    """Run `git ARGUMENTS` and return its output.

    `hold` are file descriptors that stay open as long as git runs, even when this process is
    killed. `on_line` receives each line of git's messages, progress among them, from another
    thread. Raises TimedOut after ending git with all it started, otherwise by git's reason:
    Denied, NotFound or Unavailable.
    """
    lines: list[str] = []
    with _input(stdin) as source, _started(arguments, variables, source, hold) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        listener = threading.Thread(
            target=_listen, args=(process.stderr, lines, on_line), daemon=True
        )
        listener.start()
        with _deadline(process, timeout_s) as is_over:
            out = process.stdout.read()
            process.wait()
        listener.join()
    if is_over.is_set():
        raise TimedOut(f"git {arguments[0]} did not end within {timeout_s:g} seconds")
    if process.returncode != 0:
        raise _failure(lines, process.returncode)
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


def _as_variables(config: Mapping[str, str]) -> dict[str, str]:
    pairs = {}
    for number, (key, value) in enumerate(config.items()):
        pairs[f"GIT_CONFIG_KEY_{number}"] = key
        pairs[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**pairs, "GIT_CONFIG_COUNT": str(len(config))}


@contextmanager
def _input(content: bytes) -> Iterator[IO[bytes] | int]:
    """Return a file with the content: unlike a pipe, it needs no thread that fills it."""
    if not content:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


@contextmanager
def _started(
    arguments: Sequence[str],
    variables: Mapping[str, str] | None,
    source: IO[bytes] | int,
    hold: Sequence[int],
) -> Iterator[subprocess.Popen[bytes]]:
    try:
        process = subprocess.Popen(
            ("git", *arguments),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment() if variables is None else variables,
            start_new_session=True,
            pass_fds=hold,
        )
    except FileNotFoundError as exc:
        raise InvalidSettings("git is not in PATH; install git 2.30 or newer") from exc
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_tree(process)


@contextmanager
def _deadline(process: subprocess.Popen[bytes], timeout_s: float) -> Iterator[threading.Event]:
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        kill_tree(process)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield is_over
    finally:
        timer.cancel()


def _listen(stream: IO[bytes], lines: list[str], on_line: Callable[[str], None] | None) -> None:
    """Read git's messages to their end; progress lines end with a carriage return."""
    rest = b""
    while block := stream.read1(65_536):  # type: ignore[attr-defined]
        *complete, rest = re.split(rb"[\r\n]", rest + block)
        for line in complete:
            _hear(line, lines, on_line)
        rest = rest[-65_536:]
    _hear(rest, lines, on_line)


def _hear(raw: bytes, lines: list[str], on_line: Callable[[str], None] | None) -> None:
    line = raw.decode("utf-8", "replace").strip()
    if not line:
        return
    lines.append(line)
    del lines[:-_KEPT_LINES]
    if on_line is not None:
        on_line(line)


def _failure(lines: Sequence[str], status: int) -> CodelodeError:
    """Return the error, whose type says whether a retry may help, with git's own reason."""
    reason = without_credentials(_reason(lines) or f"git ended with status {status}")
    text = "\n".join(lines)
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
