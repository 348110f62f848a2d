"""`codelode graph` and `explain`: show dependencies of a file, a symbol, or a repository."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.options import (
    FOUND,
    NOTHING,
    json_option,
    ref_option,
    repository_option,
    server_option,
)
from codelode.client.request import MOST
from codelode.counts import counted
from codelode.display import quoted
from codelode.text.links import link_ends

if TYPE_CHECKING:
    from codelode.client import About, Client, Graph, GraphLink

RELATIONS = (
    *("imports", "importers", "calls", "callers", "inherits", "subclasses", "definitions"),
    *("references", "tests", "cross_repository"),
)


subject_repository_option = repository_option(
    "Look in this repository. Default: the first by name that has such a file or symbol."
)


@click.command()
@click.argument("subject", metavar="[FILE|SYMBOL]", default="")
@subject_repository_option
@click.option(
    "--depth",
    type=int,
    default=3,
    show_default=True,
    help=f"Follow edges up to this many steps, 1 to {MOST['depth']}.",
)
@click.option(
    "--reverse",
    is_flag=True,
    help="Show what depends on the subject instead of what it depends on.",
)
@click.option(
    "--relation",
    "relations",
    multiple=True,
    type=click.Choice(RELATIONS),
    help="Show only this relation; repeatable. Default: all relations of the direction.",
)
@click.option(
    "--limit",
    type=int,
    default=200,
    show_default=True,
    help=f"Show at most this many edges of each relation, 1 to {MOST['limit']:,}.",
)
@ref_option
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

    With --repo alone, show the repositories on which it depends, through the packages that they
    publish.

    Imports and calls are followed up to --depth steps. An import from another indexed repository
    leads to the file and the symbol there, or to the package if they cannot be found. The
    confidence of an uncertain edge is printed after it: imported, or name. Exit status: 0 found,
    1 nothing found, 2 error.

    \b
    Examples:
      codelode graph src/http/client.py
      codelode graph src/http/client.py --reverse --depth 2
      codelode graph Client.get --repo acme/http --relation callers
      codelode graph --repo acme/http --reverse
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


@click.command()
@click.argument("subject")
@subject_repository_option
@ref_option
@json_option
@server_option
def explain(*, client: Client, subject: str, repository: str, ref: str, as_json: bool) -> None:
    """Show what is known about a file or a symbol; SUBJECT is its path or name.

    \b
    Examples:
      codelode explain src/http/client.py
      codelode explain Client.get --repo acme/http
      codelode explain Client --json | jq '.imported_by[]'
    """
    about = client.explain(subject, repository=repository, ref=ref)
    if as_json:
        click.echo(printing.to_json(_explain_json(about)))
        return
    click.echo(printing.plain(about.summary))
    for one in about.definitions:
        location = f"{quoted(one.repository)} {quoted(one.path)}:{one.start_line}-{one.end_line}"
        click.echo(f"{one.kind:<10} {quoted(one.name)}  {location}")
    relations = (
        ("imports", about.imports),
        ("imported by", about.imported_by),
        ("tested by", about.tests),
    )
    for name, paths in relations:
        for path in paths:
            click.echo(f"{name:<11} {quoted(path)}")
    printing.notices(about.notices)


def show(found: Graph) -> None:
    """Print one edge per line, indented by its distance."""
    for link in found.links:
        click.echo(_line(link, found.repository))
    printing.notices(found.notices)
    printing.note(f"{counted(len(found.links), 'link')} around a {found.subject_kind}")


def _line(link: GraphLink, home: str) -> str:
    indent = "  " * (link.depth - 1)
    sure = "" if link.confidence == "exact" else f"  ({link.confidence})"
    return f"{link.relation:<16} {indent}{link_ends(link, home)}{sure}"


def _explain_json(about: About) -> dict[str, object]:
    return {
        "kind": about.kind,
        "summary": about.summary,
        "definitions": [asdict(one) for one in about.definitions],
        "imports": list(about.imports),
        "imported_by": list(about.imported_by),
        "tests": list(about.tests),
        "notices": list(about.notices),
        "coverage": [asdict(one) for one in about.coverage],
    }
