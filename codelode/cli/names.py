"""`codelode symbols`, `definitions`, and `references`: list where names are defined and used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from codelode.cli import printing
from codelode.cli.options import (
    FOUND,
    NOTHING,
    filter_options,
    filters_of,
    json_option,
    server_option,
)
from codelode.counts import counted
from codelode.display import plain, quoted

if TYPE_CHECKING:
    from codelode.client import Client, Definition, NameUse, SymbolList

_LIMIT: dict[str, Any] = {
    "type": click.IntRange(1, 10_000),
    "metavar": "N",
    "default": 200,
    "show_default": True,
}


@click.command()
@click.argument("name", metavar="GLOB")
@click.option("--limit", **_LIMIT, help="List at most N definitions.")
@filter_options
@json_option
@server_option
@click.pass_context
def symbols(
    context: click.Context,
    /,
    *,
    client: Client,
    name: str,
    limit: int,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """List the definitions whose name matches GLOB, with kind and signature.

    `*` stands for any characters, `?` for one. A GLOB with dots (or ::, ->, #) is compared with the
    end of qualified names. Definitions are ordered by repository, path, and line. Exit status:
    0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode symbols 'parse_*' --kind function
      codelode symbols '*Reader' -l go --repo acme/http
      codelode symbols 'Client.*' --path 'src/**'
    """
    _list(context, client.symbols(name, limit=limit, **filters_of(filters)), as_json=as_json)


@click.command()
@click.argument("name")
@click.option("--limit", **_LIMIT, help="List at most N definitions.")
@filter_options
@json_option
@server_option
@click.pass_context
def definitions(
    context: click.Context,
    /,
    *,
    client: Client,
    name: str,
    limit: int,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """List the definitions of NAME in all repositories, in exactly this spelling.

    NAME may be the end of a qualified name, or a position of a name: PATH:LINE:COLUMN, where both
    numbers begin at 1 and PATH may be the end of a path, or begin with the repository. Exit status:
    0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode definitions retry
      codelode definitions Client.get -l python
      codelode definitions src/client.py:12:9
      codelode definitions std::vector --json | jq '.symbols[].path'
    """
    found = client.symbols(name, literal=True, limit=limit, **filters_of(filters))
    _list(context, found, as_json=as_json)


@click.command()
@click.argument("name")
@click.option("--limit", **_LIMIT, help="List at most N uses.")
@filter_options
@json_option
@server_option
@click.pass_context
def references(
    context: click.Context,
    /,
    *,
    client: Client,
    name: str,
    limit: int,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """List the lines that use NAME in all repositories, the most certain ones first.

    NAME may be the end of a qualified name, or a position of a name, as for `codelode definitions`.
    The filters do not apply to the position. Uses are calls, instantiations, decorators, and
    inherited bases; `codelode grep -w NAME` finds every line that has the name. A use that is not
    certain is marked: `imported` if the file imports a definition of that name, `name` if only the
    name is the same. Exit status: 0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode references retry
      codelode references Client.get --repo acme/web --not-path 'tests/**'
      codelode references acme/http/src/client.py:12:9
      codelode references open_session --json | jq '.references[] | select(.confidence != "name")'
    """
    found = client.references(name, limit=limit, **filters_of(filters))
    if as_json:
        click.echo(printing.to_json(asdict(found)))
    else:
        for one in found.references:
            click.echo(_use(one))
        _tell(found.notices, f"{counted(len(found.references), 'use')}, {found.took_ms:.1f} ms")
    context.exit(FOUND if found.references else NOTHING)


def _list(context: click.Context, found: SymbolList, *, as_json: bool) -> None:
    if as_json:
        click.echo(printing.to_json(asdict(found)))
    else:
        for one in found.symbols:
            click.echo(_definition(one))
        _tell(found.notices, f"{counted(len(found.symbols), 'definition')}, {found.took_ms:.1f} ms")
    context.exit(FOUND if found.symbols else NOTHING)


def _tell(notices: Iterable[str], summary: str) -> None:
    printing.notices(notices)
    printing.note(summary)


def _definition(one: Definition) -> str:
    name = click.style(quoted(one.name), bold=True)
    return f"{_place(one.repository, one.path, one.start_line)} {one.kind} {name}  {_code(one)}"


def _code(one: Definition) -> str:
    return plain(" ".join(one.signature.split()))


def _use(one: NameUse) -> str:
    sure = "" if one.confidence == "exact" else f"  ({one.confidence})"
    return f"{_place(one.repository, one.path, one.line)} {plain(one.text)}{sure}"


def _place(repository: str, path: str, line: int) -> str:
    return f"{quoted(repository)}:{quoted(path)}:{click.style(line, fg='green')}:"
