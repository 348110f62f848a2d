"""`codelode graph`: what depends on what, around a file or a symbol."""

from __future__ import annotations

from dataclasses import asdict

import click

from codelode.cli import printing
from codelode.cli.asking import json_option
from codelode.cli.options import server_option
from codelode.cli.search import FOUND, NOTHING
from codelode.client import Client, Graph, GraphLink, GraphPlace
from codelode.client.request import MOST
from codelode.counts import counted

RELATIONS = (
    *("imports", "importers", "calls", "callers", "inherits", "subclasses", "definitions"),
    *("references", "tests", "cross_repository"),
)


@click.command()
@click.argument("subject", metavar="FILE|SYMBOL")
@click.option("--repo", "-r", "repository", default="", metavar="NAME", help="Where it is.")
@click.option(
    "--depth", type=int, default=3, show_default=True, help=f"Steps, 1 to {MOST['depth']}."
)
@click.option("--reverse", is_flag=True, help="What depends on it, instead of on what it depends.")
@click.option(
    "--relation",
    "relations",
    multiple=True,
    type=click.Choice(RELATIONS),
    help="Only this. Default: those of the direction.",
)
@click.option(
    "--limit",
    type=int,
    default=200,
    show_default=True,
    help=f"Links of each relation, 1 to {MOST['limit']:,}.",
)
@click.option("--ref", default="", help="Branch or tag. Default: the repository's default.")
@json_option
@server_option
@click.pass_context
def graph(
    context: click.Context,
    /,
    *,
    client: Client,
    subject: str,
    repository: str,
    depth: int,
    reverse: bool,
    relations: tuple[str, ...],
    limit: int,
    ref: str,
    as_json: bool,
) -> None:
    """Show what a file or a symbol depends on, or with --reverse what depends on it.

    Imports and calls are followed up to --depth steps, also into other repositories. How sure a
    link is stands behind it: exact, imported, or name alone. Exit status: 0 found, 1 nothing
    found, 2 error.

    \b
    Examples:
      codelode graph src/http/client.py
      codelode graph src/http/client.py --reverse --depth 2
      codelode graph Client.get --repo acme/http --relation callers
      codelode graph src/http/client.py --json | jq '.links[].target.path'
    """
    found = client.graph(
        subject,
        repository=repository,
        depth=depth,
        reverse=reverse,
        relations=relations,
        limit=limit,
        ref=ref,
    )
    if as_json:
        click.echo(printing.to_json(asdict(found)))
    else:
        show(found)
    context.exit(FOUND if found.links else NOTHING)


def show(found: Graph) -> None:
    """One link a line, indented by its distance."""
    for link in found.links:
        click.echo(printing.plain(_line(link, found.repository)))
    for notice in found.notices:
        printing.note(f"note: {notice}")
    printing.note(f"{counted(len(found.links), 'link')} around a {found.subject_kind}")


def _line(link: GraphLink, home: str) -> str:
    indent = "  " * (link.depth - 1)
    sure = "" if link.confidence == "exact" else f"  ({link.confidence})"
    source, target = _place(link.source, home), _place(link.target, home)
    ends = target if link.relation == "definitions" else f"{source} → {target}"
    return f"{link.relation:<16} {indent}{ends}{sure}"


def _place(place: GraphPlace, home: str) -> str:
    """`src/a.py:12 Client.get`; of another repository with its name before it."""
    if not place.repository:
        return f"{place.symbol} (external)"
    at = f"{place.path}:{place.line}" if place.line else place.path
    named = " ".join(part for part in (at, place.symbol) if part)
    return named if place.repository == home else f"{place.repository} {named}".strip()
