"""What several commands share: the `--server` option and how its default is found; folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from codelode import settings
from codelode.cli.data_folder import running_cluster
from codelode.client import Client

Command = TypeVar("Command", bound=Callable[..., object])


class Name(click.types.StringParamType):
    """The type of a repository's name where leaving it out means all repositories.

    An empty one is a variable that a script did not set, and does not mean all.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).strip():
            self.fail("it is empty; name a repository, or leave it out for all", param, ctx)
        return str(value)


class Folder(click.Path):
    """The type of a folder's name; an empty one is a variable that a script did not set."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not str(value).strip():
            self.fail("it is empty; name a folder", param, ctx)
        return super().convert(value, param, ctx)


def server_option(command: Command) -> Command:
    """Adds `--server`, which reaches the command as `client`, closed when it ends."""
    return click.option(
        "--server",
        "client",
        metavar="HOST:PORT",
        callback=_client,
        help="Gateway to talk to. Default: CODELODE_SERVER, else the cluster that "
        "`codelode up` runs on this machine.",
    )(command)


def _client(context: click.Context, _: click.Parameter, address: str | None) -> Client:
    return context.with_resource(connected(address or default_server()))


def connected(address: str) -> Client:
    """A client that brings the token of the settings."""
    return Client(address, token=settings.load().token.get_secret_value())


def default_server() -> str:
    """CODELODE_SERVER; else the running cluster of the data folder; else the default port."""
    values = settings.load()
    if "server" in values.model_fields_set:
        return values.server
    cluster = running_cluster(values.data_dir)
    return cluster.grpc if cluster is not None else values.server
