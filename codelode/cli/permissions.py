"""`codelode permissions list`, `sync`: show or read the permissions of code hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.options import json_option, server_option

if TYPE_CHECKING:
    from codelode.client import Client, ConnectionPermissions

_COLUMNS = ("connection", "kind", "repositories of", "read", "listed", "accounts", "requests")


@click.group()
def permissions() -> None:
    """Show the permissions that are read from code hosts, or read them now.

    A repository whose URL belongs to a connection with `permissions:` in the file that
    CODELODE_SOURCES names is seen only by those who may read it at the code host, and by admins.
    These commands require the role admin and a key without globs.
    """


@permissions.command("list")
@json_option
@server_option
def list_(*, client: Client, as_json: bool) -> None:
    """List the connections and when their permissions were read.

    Each line also shows the number of repositories and accounts, and what is wrong.

    \b
    Examples:
      codelode permissions list
      codelode permissions list --json | jq '.connections[].error'
    """
    found = client.permissions()
    if as_json:
        click.echo(printing.to_json(asdict(found)))
        return
    if found.connections:
        click.echo(printing.table(_COLUMNS, map(_row, found.connections)))
    else:
        printing.note("no connection has permission sync: see CODELODE_SOURCES")
    for line in _remarks(found.connections):
        click.echo(printing.plain(line))
    if found.problem:
        click.echo(printing.plain(f"problem: {found.problem}"))


@permissions.command()
@click.argument("connection", required=False)
@server_option
def sync(*, client: Client, connection: str | None) -> None:
    """Read the permissions of CONNECTION now, or of all connections.

    The command returns at once; `codelode permissions list` shows the result. Use it when a right
    was revoked at the host and you cannot wait for the next periodic reading.
    """
    names = client.sync_permissions(connection)
    printing.note(f"reading the permissions of {', '.join(names)}")


def _row(one: ConnectionPermissions) -> tuple[object, ...]:
    read = printing.moment(one.synced_at) if one.synced_at else "never"
    counts = one.repositories, one.accounts, one.requests
    return one.connection, one.kind, one.prefix, read, *counts


def _remarks(connections: tuple[ConnectionPermissions, ...]) -> Iterator[str]:
    for one in connections:
        if one.error:
            tried = printing.moment(one.attempted_at)
            yield f"{one.connection}: the attempt at {tried} failed: {one.error}"
        if one.notice:
            yield f"{one.connection}: {one.notice}"
        if one.closed_because and one.closed_because != one.error:
            reason = one.closed_because
            yield f"{one.connection}: only admins see its repositories, because {reason}"
        yield from printing.request_budget(one)
        if one.is_due:
            yield f"{one.connection}: a reading is due or under way"
