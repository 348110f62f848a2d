"""`codelode symbols`, `definitions`, `references`, and `callers`: find where names are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

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
from codelode.counts import counted, plural
from codelode.display import plain, quoted

if TYPE_CHECKING:
    from codelode.client import Client, Definition, NameUse, SymbolList


def _listing(limits: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of these commands; `limits` says what N limits."""
    limit = click.option(
        "--limit",
        type=click.IntRange(1, 10_000),
        metavar="N",
        default=200,
        show_default=True,
        help=limits,
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        return limit(filter_options(json_option(server_option(click.pass_context(command)))))

    return add


@click.command()
@click.argument("name", metavar="GLOB")
@_listing("List at most N definitions.")
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
@_listing("List at most N definitions.")
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
@_listing("List at most N uses.")
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


@click.command()
@click.argument("name")
@_listing("Read at most N uses.")
def callers(
    context: click.Context,
    /,
    *,
    client: Client,
    name: str,
    limit: int,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """List the definitions that call NAME in all repositories, the most certain ones first.

    These are the uses that `codelode references` lists, without inherited bases, one for each
    definition around them, with all lines of its calls. NAME may be a position, PATH:LINE:COLUMN.
    Calls outside of definitions are listed by file. `codelode graph NAME --relation callers` also
    finds the callers of callers. Exit status: 0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode callers retry
      codelode callers Client.get --repo acme/web --not-path 'tests/**'
      codelode callers acme/http/src/client.py:12:9 --json | jq '.callers[].symbol'
    """
    found = client.references(name, limit=limit, **filters_of(filters))
    calling = _callers(found.references)
    if as_json:
        shown = {
            "callers": [*map(asdict, calling)],
            "notices": found.notices,
            "took_ms": found.took_ms,
            "coverage": [*map(asdict, found.coverage)],
        }
        click.echo(printing.to_json(shown))
    else:
        for one in calling:
            click.echo(_caller(one))
        _tell(found.notices, f"{counted(len(calling), 'caller')}, {found.took_ms:.1f} ms")
    context.exit(FOUND if calling else NOTHING)


@dataclass(slots=True)
class Caller:
    """A definition that calls a name, or a file that does so outside of definitions."""

    repository: str
    path: str
    symbol: str  # empty: outside of definitions
    lines: list[int]
    text: str  # of the first of the lines
    confidence: str  # of the most certain call: exact, imported, or name


def _callers(uses: Iterable[NameUse]) -> list[Caller]:
    found: dict[tuple[str, str, str], Caller] = {}
    for use in uses:
        if use.kind != "implementation":
            at = (use.repository, use.path, use.symbol)
            caller = found.setdefault(at, Caller(*at, [], use.text, use.confidence))
            caller.lines.append(use.line)
    return list(found.values())


def _caller(one: Caller) -> str:
    first, *more = one.lines
    place = _place(one.repository, one.path, first)
    name = click.style(quoted(one.symbol), bold=True) if one.symbol else "(outside of definitions)"
    lines = f"{plural(len(more), 'line')} {', '.join(map(str, more))}"
    also = f"  (and {lines})" if more else ""
    return f"{place} {name}  {plain(one.text)}{also}{_doubt(one.confidence)}"


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
    place = _place(one.repository, one.path, one.line)
    return f"{place} {plain(one.text)}{_doubt(one.confidence)}"


def _doubt(confidence: str) -> str:
    return "" if confidence == "exact" else f"  ({confidence})"


def _place(repository: str, path: str, line: int) -> str:
    return f"{quoted(repository)}:{quoted(path)}:{click.style(line, fg='green')}:"
