"""`codelode sources`: follow the repositories of code hosts, and show what is followed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.failures import FAILED
from codelode.cli.options import declared_file, json_option, server_option
from codelode.cli.workers import with_workers
from codelode.counts import counted
from codelode.stages import CONTROL

if TYPE_CHECKING:
    from codelode.client import Client, Source
    from codelode.sources import Connection

_COLUMNS = ("connection", "kind", "repositories of", "listed at", "listed", "followed", "requests")
_CHECKED = ("connection", "kind", "address", "repositories", "permissions", "webhooks")

#: Interval at which a waiting command reads the state, and time after which it checks that there
#: are workers and reports that it waits, seconds.
_POLL_S, _LONG_S = 0.3, 5.0


@click.group()
def sources() -> None:
    """Follow the repositories of code hosts.

    The repositories of a connection with `repositories:` in the file that CODELODE_SOURCES names
    are registered, indexed, renamed, and removed as they change at the code host. All commands
    except check and schema require the role admin and a key without globs.
    """


@sources.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(*, file: Path | None) -> None:
    """Check the sources file FILE.

    The command also checks that the secrets that the file names are on this machine. Without FILE,
    the one that CODELODE_SOURCES names is checked. The command calls no cluster and no code host;
    `codelode sources plan` does.

    \b
    Examples:
      codelode sources check
      codelode sources check ./sources.yaml
    """
    from codelode import sources as declared

    path = declared_file(file, "CODELODE_SOURCES")
    connections = declared.read(path)
    click.echo(printing.table(_CHECKED, map(_checked, connections)))
    missing = [f"{path}:{line}" for one in connections for line in _missing(one)]
    for line in missing:
        printing.complain(line)
    if missing:
        raise click.exceptions.Exit(FAILED)


@sources.command()
def schema() -> None:
    """Print the JSON schema of the sources file, for editors.

    With it, editors complete and check the file.

    \b
    Example:
      codelode sources schema > sources.schema.json
      and in the first line of the file: # yaml-language-server: $schema=sources.schema.json
    """
    from codelode.sources_schema import schema as made

    click.echo(json.dumps(made(), indent=2))


@sources.command("list")
@json_option
@server_option
def list_(*, client: Client, as_json: bool) -> None:
    """List the connections and what their last syncs have done.

    Each line says when a connection was last listed, how many repositories, and what is wrong.

    \b
    Examples:
      codelode sources list
      codelode sources list --json | jq '.sources[].error'
    """
    found = client.sources()
    if as_json:
        click.echo(printing.to_json(asdict(found)))
        return
    if found.sources:
        click.echo(printing.table(_COLUMNS, map(_row, found.sources)))
    else:
        printing.note("the repositories of no connection are followed: see CODELODE_SOURCES")
    for line in (line for one in found.sources for line in _remarks(one)):
        click.echo(printing.plain(line))
    if found.problem:
        click.echo(printing.plain(f"problem: {found.problem}"))


@sources.command()
@click.argument("connection", required=False)
@server_option
def plan(*, client: Client, connection: str | None) -> None:
    """Show what a sync would do now, without doing it.

    The plan is for CONNECTION, or for all connections. For this, the workers list the repositories
    at the host. Exit status: 0 done, 2 error, or a host could not be read.
    """
    _asked(client, connection, "plan", _is_planned)


@sources.command()
@click.argument("connection", required=False)
@click.option("--wait", is_flag=True, help="Wait until it is done, and print what was done.")
@click.option(
    "--yes", is_flag=True, help="Confirm the removal of unusually many repositories at once."
)
@server_option
def sync(*, client: Client, connection: str | None, wait: bool, yes: bool) -> None:
    """List the repositories of connections and follow what changed.

    The connections are CONNECTION, or all. The command returns at once; `codelode sources list`
    shows the result. Exit status: 0 done (or started, without --wait), 2 error, or a host could not
    be read.
    """
    mode = "confirm" if yes else "sync"
    if wait:
        _asked(client, connection, mode, _is_synced)
        return
    names = client.sync_sources(connection, mode=mode)
    printing.note(f"listing the repositories of {', '.join(names)}")


def _checked(one: Connection) -> tuple[object, ...]:
    place = f"{one.url}/{one.organisation}".rstrip("/") or counted(len(one.urls), "URL")
    given = (one.repositories, one.permissions, one.webhook_secret)
    return one.name, one.kind, place, *("yes" if one else "no" for one in given)


def _missing(one: Connection) -> Iterator[str]:
    """Yield what is wrong with the secrets of a connection, each after its line in the file."""
    from codelode.errors import InvalidSettings
    from codelode.github_apps import signed
    from codelode.ssh_keys import check_private_key

    for secret in one.secrets:
        try:
            value = secret.value()
            if one.app and secret is one.app.private_key:
                signed(one.app, value, now=time.time())
            elif one.ssh and secret is one.ssh.private_key:
                check_private_key(secret, value)
        except InvalidSettings as exc:
            yield f"{secret.line}: {one.name}: {exc}"


def _asked(
    client: Client,
    connection: str | None,
    mode: str,
    is_done: Callable[[Source | None, Source], bool],
) -> None:
    """Have the workers list connections, wait for each, and print the changes of its repositories.

    Exits with FAILED if one could not be listed.
    """
    known, status = client.sources(), 0
    if known.problem:
        printing.complain(known.problem)
    before = {one.connection: one for one in known.sources}
    for name in client.sync_sources(connection, mode=mode):
        now = _awaited(client, name, before.get(name), is_done)
        if now.error:
            printing.complain(f"{name}: {now.error}")
            status = FAILED
        else:
            click.echo(printing.plain("\n".join(_told(now))))
    raise click.exceptions.Exit(status)


def _awaited(
    client: Client,
    name: str,
    before: Source | None,
    is_done: Callable[[Source | None, Source], bool],
) -> Source:
    """Wait until `is_done`, and return the state of the connection.

    `before`: its state before the request; None if it had none. Raises Unavailable if no worker
    listens.
    """
    long_at, is_told = time.monotonic() + _LONG_S, False
    while True:
        now = {one.connection: one for one in client.sources().sources}.get(name)
        if now is None:
            raise click.ClickException(f"the connection {name} was dropped meanwhile")
        if is_done(before, now):
            return now
        if time.monotonic() >= long_at:
            with_workers(client, CONTROL, what=f"{name} is not listed yet")
            if not is_told:
                printing.note(
                    f"waiting for a worker to list {name}; `codelode status` shows how many "
                    f"workers the queue {CONTROL} has"
                )
            long_at, is_told = time.monotonic() + _LONG_S, True
        time.sleep(_POLL_S)


def _is_planned(before: Source | None, now: Source) -> bool:
    """Return whether a plan or a sync was made; both report the same changes."""
    return now.planned_at > (before.planned_at if before else 0) or _is_synced(before, now)


def _is_synced(before: Source | None, now: Source) -> bool:
    return now.attempted_at > (before.attempted_at if before else 0)


def _told(one: Source) -> Iterator[str]:
    """Yield the change of each repository, and the number of changes of each kind."""
    for change in one.changes:
        yield f"{change.action:9} {change.repository}  ({change.reason})"
    counts = Counter(change.action for change in one.changes)
    done = ", ".join(f"{number} {action}" for action, number in counts.items()) or "nothing to do"
    yield f"{one.connection}: {counted(one.listed, 'repository')} listed, {done}"
    if one.waiting:
        yield f"{one.connection}: {one.waiting}"


def _row(one: Source) -> tuple[object, ...]:
    at = printing.moment(one.synced_at) if one.synced_at else "never"
    return one.connection, one.kind, one.prefix, at, one.listed, one.repositories, one.requests


def _remarks(one: Source) -> Iterator[str]:
    if one.error:
        yield f"{one.connection}: the attempt at {printing.moment(one.attempted_at)} failed: " + (
            one.error
        )
    if one.waiting:
        yield f"{one.connection}: {one.waiting}"
    for change in one.changes:
        if change.action in ("conflict", "miss", "pause"):
            yield f"{one.connection}: {change.action} {change.repository}: {change.reason}"
    yield from printing.request_budget(one)
    if one.is_due:
        yield f"{one.connection}: a listing is due or under way"
