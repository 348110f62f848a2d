"""`codelode up`: run the embedded cluster in the foreground.

This module determines the addresses, the settings of the child processes, and when the cluster is
ready and ends. `children` defines the processes; `supervisor` keeps them alive.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

import click
from pydantic import SecretStr

from codelode import sources
from codelode.backends import registry
from codelode.cli import data_folder, redis_server
from codelode.cli.children import (
    LOOPBACK,
    flower_child,
    fork_server,
    gateway_children,
    http_url,
    own_trust,
    reachable,
    redis_child,
    worker_children,
)
from codelode.cli.options import Folder
from codelode.cli.supervisor import Child, Supervisor
from codelode.client.channel import is_host_and_port
from codelode.cluster import Cluster, token_file
from codelode.declarations import problem_of
from codelode.environment import HTTP_PORT, PREFIX, client_settings
from codelode.errors import InvalidSettings
from codelode.listeners import require_secure_listeners
from codelode.settings import Settings, load, unknown_variables

#: Intervals at which children are checked while they start, and later, seconds.
STARTING_LOOK_S = 0.02
RUNNING_LOOK_S = 0.2

#: Interval at which processes that are not ready yet are reported, seconds.
STILL_STARTING_S = 20.0

#: With one arena per thread, glibc would keep the peak memory of each thread of a worker. OpenMP
#: threads that compare vectors would spin while they wait: under load, comparing 121,000 vectors
#: took 7.8 ms of processor time instead of 4.0.
CHILD_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2", "OMP_WAIT_POLICY": "PASSIVE"}


class Interrupts:
    """Counts SIGINT, SIGTERM, and SIGHUP instead of ending the process."""

    def __init__(self) -> None:
        self.count = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._count)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else it runs under nohup
            signal.signal(signal.SIGHUP, self._count)

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def any(self) -> bool:
        return self.count > 0

    def many(self) -> bool:
        """Return whether the user asked more than once, which means to end without waiting."""
        return self.count > 1


@click.command()
@click.option(
    "--data",
    type=Folder(),
    help="Keep all state in this folder. Default: CODELODE_DATA, else ~/.local/share/codelode.",
)
@click.option(
    "--workers",
    "parsers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Parse in N processes. Default: one per core.",
)
@click.option(
    "--gateways",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Answer calls in N processes that share the ports; each connection stays with one of "
    "them. Linux only.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Listen for gRPC on this port; 0 takes a free one. Default: the port of CODELODE_LISTEN, "
    "else 50051.",
)
@click.option(
    "--api-port",
    type=click.IntRange(0, 65_535),
    help="Listen for HTTP (the REST API) on this port; 0 takes a free one. Default: the port of "
    "CODELODE_HTTP_LISTEN, else 50080, or a free one with --port 0.",
)
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    default=8080,
    show_default=True,
    help="Serve Flower, which shows the jobs, on this port; 0 takes a free one.",
)
@click.option("--no-flower", is_flag=True, help="Run without Flower, which takes 80 MB of memory.")
@click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
    metavar="DIR",
    help="Index local repositories only below this folder; repeatable. Default: "
    "CODELODE_LOCAL_PATHS, else every repository that you own.",
)
@click.option(
    "--tls-terminated-by-proxy",
    is_flag=True,
    help="Listen without TLS on an address other than loopback, because a proxy that terminates "
    "TLS is in front of the gateway. Default: CODELODE_TLS_TERMINATED_BY_PROXY.",
)
@click.option("--verbose", "-v", is_flag=True, help="Also print the logs of all processes here.")
def up(
    *,
    data: Path | None,
    parsers: int | None,
    gateways: int,
    port: int | None,
    api_port: int | None,
    http_port: int,
    no_flower: bool,
    allowed: tuple[Path, ...],
    tls_terminated_by_proxy: bool,
    verbose: bool,
) -> None:
    """Run the whole cluster on this machine until Ctrl-C: Redis, workers, gateway, Flower.

    All state is in the data folder, so the next start continues where this one stopped. Logs are
    in DATA/logs.

    \b
    Examples:
      codelode up
      codelode up --data /srv/codelode --workers 8 --allow-path /srv/git
      codelode up --gateways 2                   use two cores for searches
      codelode up --port 0 --http-port 0         use free ports and print them
    """
    _require_sharing(gateways)
    base = load(**({} if data is None else {"data": data}))
    for name, nearest in unknown_variables().items():
        meant = f"; did you mean {nearest}?" if nearest else "; `codelode settings` lists all"
        _announce(f"{name} is not a setting and has no effect{meant}")
    if problem := problem_of(base.sources, sources.read):
        _announce(f"{problem}; until it is corrected, no repositories of code hosts are followed")
    data_folder.require_own(base.data_dir)
    if problem := data_folder.writable_by_others(base.data_dir):
        _announce(problem)
    with (
        data_folder.locked(base.data_dir),
        redis_server.place_in(base.data_dir / redis_server.FOLDER) as place,
    ):
        if ended := data_folder.end_leftovers(base.data_dir):
            _announce(f"ended {ended} processes that an earlier cluster left behind")
        settings = base.model_copy(
            update={
                "data": base.data_dir,
                "listen": _listen_address("LISTEN", base.listen, port, "--port"),
                "http_listen": "",  # until there is a token
                "redis_url": redis_server.url(place),
                "local_paths": _local_paths(base, allowed),
                "tls_terminated_by_proxy": tls_terminated_by_proxy or base.tls_terminated_by_proxy,
                "share_ports": gateways > 1,
            }
        )
        http = _http_address(base.http_listen, port, api_port)
        flower = "" if no_flower else f"{LOOPBACK}:{_port(LOOPBACK, http_port, '--http-port')}"
        require_secure_listeners(settings)
        for name in ("listen_mtls", "health_listen"):
            _require_free(f"{PREFIX}{name.upper()}", getattr(settings, name))
        settings = _with_own_token(settings).model_copy(update={"http_listen": http})
        require_secure_listeners(settings)
        redis = redis_child(settings, place)
        rest = (
            *gateway_children(settings, gateways),  # first, because they take longest to start
            *worker_children(settings, parsers=parsers or _cores()),
            *([flower_child(settings, flower)] if flower else []),
        )
        published = registry.published(settings).settings
        registry.prepare_models(published, tell=_announce)
        registry.require_matching_index(published)
        _run(settings, redis=redis, rest=rest, flower=flower, verbose=verbose)


def _run(
    settings: Settings, *, redis: Child, rest: tuple[Child, ...], flower: str, verbose: bool
) -> None:
    interrupts = Interrupts()
    supervisor = Supervisor(
        settings.data_dir,
        environment={**CHILD_ENVIRONMENT, **settings.environment()},
        announce=_announce,
        show_logs=verbose,
        in_a_hurry=interrupts.many,
        fork_server=fork_server(),
    )
    with supervisor:
        try:
            supervisor.start(redis)
            if _await_ready(supervisor, interrupts):
                supervisor.start(*rest)
            if _await_ready(supervisor, interrupts):
                _publish(settings, flower)
            while not interrupts.any():
                supervisor.step()
                time.sleep(RUNNING_LOOK_S)
        finally:
            with suppress(OSError):
                data_folder.withdraw(settings.data_dir, clients=_clients(settings))
            _announce("codelode is stopping; Ctrl-C again ends it at once")
    _announce("codelode has stopped")


def _await_ready(supervisor: Supervisor, interrupts: Interrupts) -> bool:
    """Wait until all children are ready; return False if the user interrupts first."""
    tell_at = time.monotonic() + STILL_STARTING_S
    while missing := supervisor.not_ready():
        if interrupts.any():
            return False
        if time.monotonic() > tell_at:
            _announce(f"still waiting for {', '.join(missing)}")
            tell_at += STILL_STARTING_S
        supervisor.step()
        time.sleep(STARTING_LOOK_S)
    return True


def _publish(settings: Settings, flower: str) -> None:
    page, trust = f"http://{flower}" if flower else "", own_trust(settings)
    cluster = Cluster(
        pid=os.getpid(),
        grpc=reachable(settings),
        flower=page,
        http=http_url(settings),
        redis=settings.redis_url,
        data=str(settings.data_dir),
        certificate=trust.ca,
        tls_name=trust.name,
    )
    clients = _clients(settings)
    try:
        data_folder.publish(cluster, clients=clients)
    except OSError as exc:
        _announce(f"other commands cannot find this cluster without --server: {exc}")
    login = data_folder.flower_file(settings.data_dir)
    jobs = f", Flower {page} (login in {login})" if flower else ""
    faces = f"gRPC {settings.listen}, REST {cluster.http}/api/docs"
    _announce(f"codelode is ready: {faces}{jobs}, data {cluster.data}")
    _announce(f"the web page is {cluster.http}; `codelode web` opens it and signs you in")
    if clients is not None:
        _announce(f"commands in other environments need: export CODELODE_DATA={cluster.data}")


def _clients(settings: Settings) -> Path | None:
    """Return the folder where commands look for a cluster, if it is not the cluster's own."""
    clients = client_settings().data
    return None if clients == settings.data_dir else clients


def _with_own_token(settings: Settings) -> Settings:
    """Write the token of the gateway to the data folder, and return settings that name its file.

    Clients of the same user find it there, and no child process has it in its environment.
    """
    data_folder.keep_secrets(settings.data_dir, token=settings.shared_token())
    file = token_file(settings.data_dir)
    return settings.model_copy(update={"token": SecretStr(""), "token_file": str(file)})


def _listen_address(name: str, listen: str, port: int | None, option: str) -> str:
    if not is_host_and_port(listen, least_port=0):
        raise InvalidSettings(
            f"{PREFIX}{name}={listen!r} must have the form HOST:PORT, such as 127.0.0.1:50051"
        )
    host, _, own_port = listen.rpartition(":")
    return f"{host}:{_port(host, int(own_port) if port is None else port, option)}"


def _http_address(listen: str, port: int | None, api_port: int | None) -> str:
    """Return the address for HTTP; with a free port for gRPC, it has a free port too."""
    usual = f"{LOOPBACK}:{0 if port == 0 else HTTP_PORT}"
    return _listen_address("HTTP_LISTEN", listen or usual, api_port, "--api-port")


def _port(host: str, port: int, option: str) -> int:
    """Return the port, or a free one for 0. Raises InvalidSettings if it cannot be bound."""
    remedy = f"choose another port with {option}, or any free one with {option} 0"
    return _bindable(host, port, remedy)


def _require_free(name: str, address: str) -> None:
    """Raise InvalidSettings if the setting has an address that cannot be bound."""
    host, _, port = address.rpartition(":")
    if address and not address.startswith("unix:"):
        _bindable(host, int(port), f"choose another port in {name}")


def _bindable(host: str, port: int, remedy: str) -> int:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # accepts only free ports
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as exc:
        raise InvalidSettings(f"cannot listen on {host}:{port}: {exc.strerror}; {remedy}") from exc


def _require_sharing(gateways: int) -> None:
    """Raise InvalidSettings if this system does not spread connections over several gateways."""
    if gateways > 1 and sys.platform != "linux":
        raise InvalidSettings("--gateways: only Linux spreads connections over several processes")


def _local_paths(settings: Settings, allowed: tuple[Path, ...]) -> str:
    if allowed:
        return os.pathsep.join(map(str, allowed))
    return settings.local_paths if "local_paths" in settings.model_fields_set else "owned"


def _cores() -> int:
    # Only the cores that this process may use; a container has fewer than the machine.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _announce(line: str) -> None:
    # A terminal that was closed must not prevent an orderly shutdown.
    with suppress(OSError):
        click.echo(line, err=True)
