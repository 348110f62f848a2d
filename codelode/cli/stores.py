"""Give commands direct access to the stores of a cluster.

The embedded cluster's Redis runs only while the cluster does. If the cluster is down, this module
starts Redis for the duration of the command and locks the data folder against `codelode up`.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
import structlog

from codelode.backends import registry
from codelode.cli import data_folder, redis_server
from codelode.cli.options import Folder
from codelode.cluster import running_cluster
from codelode.environment import without_settings
from codelode.errors import InvalidSettings, Unavailable
from codelode.settings import Settings, load, require_same_settings

#: The settings that locate the stores; workers publish theirs, to be compared.
PLACE = ("store", "organisation", "data", "weaviate_url", "weaviate_collection")

#: What to do if a process holds the folder and no cluster is ready on it.
_WAIT = "it is starting or stopping: try again when it is ready, or has stopped"

_STOP_S = 30.0
_NOWHERE = subprocess.DEVNULL

Command = TypeVar("Command", bound=Callable[..., object])


def data_option(command: Command) -> Command:
    """Add `--data`, the folder of an embedded cluster."""
    return click.option(
        "--data",
        type=Folder(),
        help="Use the cluster in this data folder of `codelode up`. Default: CODELODE_DATA.",
    )(command)


@contextmanager
def stores(data: Path | None, *, is_stopped: bool = False) -> Iterator[Settings]:
    """Yield settings that reach all stores.

    With `is_stopped`, the data folder may be empty, and InvalidSettings is raised if a cluster runs
    on it. Otherwise, InvalidSettings is raised if the folder has no cluster's data. It is also
    raised if the workers use other stores.
    """
    with _warnings_on_stderr():
        yield from _reached(data, is_stopped=is_stopped)


def _reached(data: Path | None, *, is_stopped: bool) -> Iterator[Settings]:
    base = load(**({} if data is None else {"data": data}))
    settings = base.model_copy(update={"data": base.data_dir})
    cluster = running_cluster(settings.data_dir)
    if cluster is not None and not is_stopped:
        found = settings.model_copy(update={"redis_url": cluster.redis})
        _require_same_settings(found, registry.index_swap(found).facts())
        yield found
    elif "redis_url" in base.model_fields_set:
        require_redis(settings)
        _require_same_settings(settings, registry.index_swap(settings).facts())
        if not is_stopped:
            require_data(settings, named=data)
        yield settings
    else:
        if not is_stopped:  # a restoration creates what it needs
            _require_there(settings.data_dir, holds=redis_server.FOLDER)
        with data_folder.locked(settings.data_dir, **({} if is_stopped else {"remedy": _WAIT})):
            yield from _with_own_redis(settings)


def require_redis(settings: Settings) -> None:
    """Raise Unavailable with the remedy unless the cluster's Redis answers."""
    try:
        registry.ping_redis(settings.redis_url)
    except Unavailable as exc:
        raise Unavailable(
            f"{exc}: no cluster runs on {settings.data_dir}, and no server answers at "
            "CODELODE_REDIS_URL; start one with `codelode up`, or start that server"
        ) from exc


def require_data(settings: Settings, *, named: Path | None) -> None:
    """Raise InvalidSettings if the data folder was named, or holds the index, and is missing."""
    if named is not None or "data" in registry.STORES[settings.store].location:
        _require_there(settings.data_dir)


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Send the logs of the stores to stderr, apart from the results."""
    before = structlog.get_config()
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _with_own_redis(settings: Settings) -> Iterator[Settings]:
    with redis_server.place_in(settings.data_dir / redis_server.FOLDER) as place:
        url = redis_server.url(place)
        command = redis_server.command(
            place,
            binary=redis_server.locate(settings.redis_bin),
            maxmemory_bytes=settings.redis_memory_mb << 20,
        )
        with subprocess.Popen(
            command, env=without_settings(), stdout=_NOWHERE, stderr=_NOWHERE
        ) as server:
            try:
                redis_server.wait_ready(url, is_alive=lambda: server.poll() is None)
                reached = settings.model_copy(update={"redis_url": url})
                # Only a cluster that locks the data folder can use this server, so none does.
                registry.redis_keys(reached).forget_workers()
                yield reached
            finally:
                server.terminate()
                server.wait(_STOP_S)


def _require_there(data: Path, *, holds: str = "") -> None:
    """Raise InvalidSettings unless the folder holds the state of a cluster.

    Otherwise the command would create a misspelt folder and work on empty stores.
    """
    if (data / holds).is_dir():
        return
    state = "contains no data of a cluster" if data.is_dir() else "does not exist"
    raise InvalidSettings(
        f"the data folder {data} {state}; give the one that `codelode up` uses, with --data or "
        "CODELODE_DATA"
    )


def _require_same_settings(own: Settings, workers: Mapping[str, str]) -> None:
    """Raise InvalidSettings if the workers use other stores than this command."""
    told = {name: workers[name] for name in PLACE if name in workers}
    require_same_settings({name: str(getattr(own, name)) for name in told}, told)
