"""Define the processes of the embedded cluster: command, readiness, and shutdown.

The processes get all of their settings through the environment; their commands carry only what
differs between them. They stop in phases: first those that enqueue jobs, then the workers, then the
broker.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from codelode.cli import data_folder, redis_server
from codelode.cli.supervisor import Child
from codelode.client import Client
from codelode.client.channel import TLS, Tls
from codelode.environment import PREFIX, without_settings
from codelode.errors import Unavailable
from codelode.settings import Settings
from codelode.stages import STAGES, Stage, passed

LOOPBACK = "127.0.0.1"

#: Signals that stop a process, each with the wait after it, seconds. All waits together take about
#: ten seconds.
GATEWAY_STOP = ((signal.SIGTERM, 3.0),)
WORKER_STOP = (
    (signal.SIGTERM, 3.0),
    (signal.SIGQUIT, 1.5),
)  # finish the current job; if that takes too long, return it to the queue
REDIS_STOP = ((signal.SIGTERM, 3.0),)
FRONT, WORK, BROKER = 0, 1, 2

#: The log lines by which a worker, beat, and a gateway report that they are ready.
_WORKER_READY = re.compile(r"@[^\s@]+ ready\.")
_BEAT_READY = re.compile(r"beat: Starting")
_GATEWAY_READY = re.compile(r"gateway_started")

#: Maximum length of the arguments that a forked worker can show in its command line, characters.
FORKED_CHARS = 64

#: Maximum number of tasks that Flower keeps; each takes 6 kB.
FLOWER_TASKS = 5_000


def redis_child(settings: Settings, place: redis_server.Place) -> Child:
    """Return the Redis process with broker, ledger, and graph; its data is in DATA/redis."""
    return Child(
        name="redis",
        command=redis_server.command(
            place,
            binary=redis_server.locate(settings.redis_bin),
            maxmemory_bytes=settings.redis_memory_mb << 20,
        ),
        is_ready=lambda _: _redis_answers(settings.redis_url),
        stop=REDIS_STOP,
        stop_phase=BROKER,
        environment=without_settings,
    )


def worker_children(
    settings: Settings, *, parsers: int, stages: Sequence[Stage] = STAGES
) -> tuple[Child, ...]:
    """Return one worker process for each stage in use, later stages first, and beat."""
    sizes = {stage.name: parsers for stage in stages if stage.pool == "prefork"}
    return (
        *(
            _worker(stage.name, settings, concurrency=sizes.get(stage.name))
            for stage in reversed(passed(settings, stages))
        ),
        _beat(settings),
    )


def fork_server() -> tuple[str, ...]:
    """Return the command of the process that forks the workers; empty if they are not forked.

    The command is padded with spaces, because a forked worker inherits its command line and
    overwrites it with its own.
    """
    return _python("workers", "fork-server".ljust(FORKED_CHARS)) if sys.platform == "linux" else ()


def gateway_children(settings: Settings, count: int = 1) -> tuple[Child, ...]:
    """Return the gateways; the first is ready when the health service at their address says so.

    If there are several, the log of the first must report it too, because the health check may
    reach any of them.
    Raises InvalidSettings if their certificate cannot be used.
    """
    has_started = _logged(_GATEWAY_READY, settings) if count > 1 else lambda _: True
    others = (_further_gateway(settings, number) for number in range(2, count + 1))
    return (_gateway(settings, has_started), *others)


def _gateway(settings: Settings, has_started: Callable[[str], bool]) -> Child:
    address, trust = reachable(settings), own_trust(settings)
    return Child(
        name="gateway",
        command=_python("gateway"),
        is_ready=lambda output: has_started(output) and _is_serving(address, trust),
        stop=GATEWAY_STOP,
        stop_phase=FRONT,
        environment=dict,
    )


def _further_gateway(settings: Settings, number: int) -> Child:
    """Return a gateway that listens on the ports of the first one.

    It is ready when its log says so. Only the first one has a process that answers probes, and
    each writes a separate audit log.
    """
    audit_log = Path(settings.audit_log)
    own = {
        f"{PREFIX}HEALTH_LISTEN": "",
        f"{PREFIX}AUDIT_LOG": settings.audit_log
        and str(audit_log.with_stem(f"{audit_log.stem}-{number}")),
    }
    return Child(
        name=f"gateway-{number}",
        command=_python("gateway"),
        is_ready=_logged(_GATEWAY_READY, settings),
        stop=GATEWAY_STOP,
        stop_phase=FRONT,
        environment=lambda given: {**given, **own},
    )


def flower_child(settings: Settings, address: str) -> Child:
    """Return Flower, the read-only page of workers and jobs, which requires a login."""
    host, _, port = address.rpartition(":")
    options = (
        f"--conf={data_folder.flower_file(settings.data_dir)}",
        f"--address={host}",
        f"--port={port}",
        "--read_only=True",
        "--enable_events=False",  # would turn on four events per job in every worker
        f"--max_tasks={FLOWER_TASKS}",
        "--logging=warning",
    )
    return Child(
        name="flower",
        command=_python("workers.flower", *options),
        is_ready=lambda _: _is_open(address),
        stop_phase=FRONT,
    )


def reachable(settings: Settings) -> str:
    """Return the address at which a client on this machine reaches the gateway."""
    return f"{TLS if settings.tls_certificate else ''}{_here(settings.listen)}"


def http_url(settings: Settings) -> str:
    """Return the URL at which a client on this machine reaches the gateway over HTTP."""
    return f"http{'s' if settings.tls_certificate else ''}://{_here(settings.http_listen)}"


def _here(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    return f"{LOOPBACK if host in ('0.0.0.0', '[::]', '') else host}:{port}"


def own_trust(settings: Settings) -> Tls:
    """Return what clients on this machine trust: the gateway's certificate, and a name in it.

    Clients check this name instead of the host, because certificates seldom name loopback. Raises
    InvalidSettings if the certificate cannot be used.
    """
    if not settings.tls_certificate:
        return Tls()
    from codelode.certificates import read_certificate

    chain, key = (
        Path(file).expanduser().absolute()  # keep a link, because its target will change
        for file in (settings.tls_certificate, settings.tls_key)
    )
    names = read_certificate(chain, key).names
    return Tls(str(chain), names[0].replace("*", "codelode", 1) if names else "")


def _worker(name: str, settings: Settings, *, concurrency: int | None) -> Child:
    arguments = (name, *(("--concurrency", str(concurrency)) if concurrency else ()))
    return Child(
        name=name,
        command=_python("workers", *arguments),
        forked=arguments,
        is_ready=_logged(_WORKER_READY, settings),
        stop=WORKER_STOP,
        stop_phase=WORK,
    )


def _beat(settings: Settings) -> Child:
    return Child(
        name="beat",
        command=_python("workers", "beat"),
        forked=("beat",),
        is_ready=_logged(_BEAT_READY, settings),
        stop_phase=FRONT,
    )


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    # -P: packages in the current folder must not shadow ours.
    return (sys.executable, "-P", "-m", module, *arguments)


def _logged(line: re.Pattern[str], settings: Settings) -> Callable[[str], bool]:
    if settings.log_level in (
        "warning",
        "error",
    ):  # the line is not logged, so a running process counts as ready
        return lambda _: True
    return lambda output: line.search(output) is not None


def _redis_answers(url: str) -> bool:
    try:
        redis_server.wait_ready(url, timeout_s=0.0)
    except Unavailable:
        return False
    return True


def _is_serving(address: str, trust: Tls) -> bool:
    """Return whether the gateway at the address says that it is ready."""
    if not _is_open(address.removeprefix(TLS)):  # a refused gRPC channel waits before it reconnects
        return False
    with Client(address, token="", timeout_s=2.0, tls=trust) as client:
        return client.is_serving()


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=1.0):
        return True
    return False
