"""`codelode scopes`: list the scopes that searches take as a filter, and check their file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.options import address_option, declared_file, default_server
from codelode.counts import counted

if TYPE_CHECKING:
    from codelode.client import Scope

_COLUMNS = ("scope", "repositories", "refs", "paths", "description")

#: Maximum number of repositories that a row of the table names; it counts them if there are more.
_MAX_NAMED = 3


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for machines.")
@address_option
@click.pass_context
def scopes(context: click.Context, *, server: str | None, as_json: bool) -> None:
    """List the scopes, named sets of repositories, refs, and paths.

    A search takes a scope by the option --scope, or by `scope:NAME` in the query. Scopes are
    declared in the file that CODELODE_SCOPES names. The list shows only scopes with a repository
    that you may see, and only those of their repositories.

    \b
    Examples:
      codelode scopes
      codelode scopes --json | jq '.[].name'
      codelode search "retry with back-off" --scope payments
      codelode scopes check
    """
    if context.invoked_subcommand:
        return
    from codelode.client import Client

    with Client(server or default_server()) as client:
        found = client.scopes()
    if as_json:
        click.echo(printing.to_json([asdict(one) for one in found]))
    elif found:
        click.echo(printing.table(_COLUMNS, map(_row, found)))
    else:
        printing.note("no scope has a repository that you see: see CODELODE_SCOPES")


@scopes.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(*, file: Path | None) -> None:
    """Check the scopes file FILE.

    Without FILE, the one that CODELODE_SCOPES names is checked. The command needs no cluster.

    \b
    Examples:
      codelode scopes check
      codelode scopes check ./scopes.yaml
    """
    from codelode import scopes as declared

    found = declared.read(declared_file(file, "CODELODE_SCOPES"))
    rows = (
        (one.name, *map(" ".join, (one.repositories, one.refs, one.paths)), one.description)
        for one in found.values()
    )
    click.echo(printing.table(_COLUMNS, rows))


@scopes.command()
def schema() -> None:
    """Print the JSON schema of the scopes file, for editors.

    With it, editors complete and check the file.

    \b
    Example:
      codelode scopes schema > scopes.schema.json
      and in the first line of the file: # yaml-language-server: $schema=scopes.schema.json
    """
    from codelode.scopes import schema as made

    click.echo(json.dumps(made(), indent=2))


def _row(one: Scope) -> tuple[object, ...]:
    names = " ".join(one.repositories)
    if one.repository_count > _MAX_NAMED:
        names = counted(one.repository_count, "repository")
    return one.name, names, " ".join(one.refs), " ".join(one.paths), one.description
