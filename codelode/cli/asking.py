"""`codelode context`, `explain`, `similar`: what an agent or a person asks beside a search."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from codelode.cli import printing
from codelode.cli.options import server_option
from codelode.cli.search import (
    FOUND,
    NOTHING,
    asked,
    filter_options,
    mode_option,
    preset_option,
    show,
    top_k_option,
)
from codelode.cli.tuning import Chosen, merged, set_option
from codelode.client import About, Client
from codelode.client.request import MOST
from codelode.counts import counted

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object for machines.")


@click.command()
@click.argument("query")
@filter_options
@click.option(
    "--tokens",
    type=int,
    default=8_000,
    show_default=True,
    help=f"Budget of the text, 100 to {MOST['budget_tokens']:,}.",
)
@click.option(
    "--top-k",
    "-k",
    type=int,
    default=20,
    show_default=True,
    help=f"Hits to choose from, 1 to {MOST['top_k']}.",
)
@preset_option
@mode_option
@set_option
@json_option
@server_option
@click.pass_context
def context(
    ctx: click.Context,
    /,
    *,
    client: Client,
    query: str,
    tokens: int,
    top_k: int,
    preset: str,
    mode: str | None,
    tuned: Chosen,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """The code that answers QUERY as one Markdown text for an agent.

    A quarter of the budget, at most 2,000 tokens, is left to the agent's own words. Exit status:
    0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode context "how does a job retry" | llm "explain this"
      codelode context "session storage" --repo acme/http --tokens 16000
      codelode context "session storage" --preset thorough --json | jq .tokens
    """
    budget = tuned.get("assemble", {}).get("budget_tokens", tokens)
    reserved = {"reserved_tokens": min(2_000, budget // 4)} if isinstance(budget, int) else {}
    made = client.context(
        query,
        top_k=top_k,
        preset=preset,
        options=merged(
            {
                "retrieve": {"mode": mode} if mode else {},
                "assemble": {"budget_tokens": budget, **reserved},
            },
            tuned,
        ),
        **asked(filters),
    )
    if as_json:
        fields = {
            "text": made.text,
            "tokens": made.tokens,
            "left_out": made.left_out,
            "notices": list(made.search.notices),
        }
        click.echo(printing.to_json(fields))
    elif made.text:
        click.echo(printing.plain(made.text))
    for notice in made.search.notices:
        printing.note(f"note: {notice}")
    of = counted(len(made.search), "hit")
    printing.note(f"{counted(made.tokens, 'token')}, {made.left_out} of {of} left out")
    ctx.exit(FOUND if made.text else NOTHING)


@click.command()
@click.argument("subject")
@click.option("--repo", "-r", "repository", default="", metavar="NAME", help="Where it is.")
@click.option("--ref", default="", help="Branch or tag. Default: the repository's default.")
@json_option
@server_option
def explain(*, client: Client, subject: str, repository: str, ref: str, as_json: bool) -> None:
    """What is known about a file or a symbol: SUBJECT is a path or a name.

    \b
    Examples:
      codelode explain src/http/client.py
      codelode explain Client.get --repo acme/http
      codelode explain Client --json | jq '.imported_by[]'
    """
    about = client.explain(subject, repository=repository, ref=ref)
    if as_json:
        click.echo(printing.to_json(_fields(about)))
        return
    click.echo(printing.plain(about.summary))
    for one in about.definitions:
        place = f"{one.path}:{one.start_line}-{one.end_line}"
        click.echo(printing.plain(f"{one.kind:<10} {one.name}  {place}"))
    relations = (
        ("imports", about.imports),
        ("imported by", about.imported_by),
        ("tested by", about.tests),
    )
    for name, paths in relations:
        for path in paths:
            click.echo(printing.plain(f"{name:<11} {path}"))
    for notice in about.notices:
        printing.note(f"note: {notice}")


@click.command()
@click.argument("place", metavar="PATH:LINE")
@click.option("--repo", "-r", "repository", default="", metavar="NAME", help="Where the place is.")
@click.option("--in", "repositories", multiple=True, metavar="NAME", help="Look only in this.")
@click.option("--language", "-l", "languages", multiple=True, metavar="NAME", help="python, go …")
@click.option("--ref", default="", help="Branch or tag. Default: the repository's default.")
@top_k_option
@json_option
@server_option
@click.pass_context
def similar(
    ctx: click.Context,
    /,
    *,
    client: Client,
    place: str,
    repository: str,
    repositories: tuple[str, ...],
    languages: tuple[str, ...],
    ref: str,
    top_k: int,
    as_json: bool,
) -> None:
    """Code like the code at PATH:LINE, most similar first; `-` for PATH:LINE: like standard input.

    The repository may be left out where only one is indexed. Exit status: 0 found, 1 nothing
    found, 2 error.

    \b
    Examples:
      codelode similar src/http/retry.py:42
      git show HEAD~3:retry.py | codelode similar -
      codelode similar src/http/retry.py:42 --repo acme/http --in acme/web
    """
    path, line, snippet = _source(place)
    result = client.similar(
        path,
        line,
        snippet=snippet,
        repository=repository,
        repositories=repositories,
        languages=languages,
        ref=ref,
        top_k=top_k,
    )
    if as_json:
        click.echo(printing.search_json(result, explain=False))
    else:
        show(result, query="", explain=False)
    ctx.exit(FOUND if result else NOTHING)


def _source(text: str) -> tuple[str, int, str]:
    """Path and line of a place, or the snippet on standard input."""
    if text == "-":
        return "", 0, sys.stdin.read()
    return (*_place(text), "")


def _place(text: str) -> tuple[str, int]:
    path, _, line = text.rpartition(":")
    if not path or not line.isascii() or not line.isdecimal():
        raise click.BadParameter(f"{text!r} is no PATH:LINE, as src/a.py:42")
    return path, int(line)


def _fields(about: About) -> dict[str, object]:
    return {
        "kind": about.kind,
        "summary": about.summary,
        "definitions": [asdict(one) for one in about.definitions],
        "imports": list(about.imports),
        "imported_by": list(about.imported_by),
        "tests": list(about.tests),
        "notices": list(about.notices),
    }
