"""`codelode search`."""

from __future__ import annotations

import click

from codelode.cli import printing
from codelode.cli.options import server_option
from codelode.client import Client, SearchResult
from codelode.model import Category, Kind

FOUND, NOTHING = 0, 1


@click.command()
@click.argument("query")
@click.option("--repo", "-r", "repositories", multiple=True, metavar="NAME", help="Only in this.")
@click.option("--language", "-l", "languages", multiple=True, metavar="NAME", help="python, go …")
@click.option("--path", "-p", "paths", multiple=True, metavar="GLOB", help="Over the whole path.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help=f"{', '.join(Kind)}.")
@click.option("--symbol", "symbols", multiple=True, metavar="GLOB", help="Over symbol names.")
@click.option(
    "--category", "categories", multiple=True, metavar="C", help=f"{', '.join(Category)}."
)
@click.option("--ref", default="", help="Branch or tag. Default: each repository's default.")
@click.option("--top-k", "-k", type=int, default=10, show_default=True, help="How many hits.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for machines.")
@click.option("--explain", is_flag=True, help="Show why each hit ranks where it does.")
@server_option
@click.pass_context
def search(
    context: click.Context,
    *,
    client: Client,
    query: str,
    as_json: bool,
    repositories: tuple[str, ...],
    languages: tuple[str, ...],
    paths: tuple[str, ...],
    kinds: tuple[str, ...],
    symbols: tuple[str, ...],
    categories: tuple[str, ...],
    ref: str,
    top_k: int,
    explain: bool,
) -> None:
    """Search all indexed code with words, an identifier or a piece of code.

    Filters of one option are alternatives, different options must all hold. Exit status: 0
    found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode search "retry with exponential back-off"
      codelode search getUserById --language go --language rust
      codelode search "parse config" --path 'src/**/*.py' --kind function
      codelode search "open a session" --repo acme/http --json | jq '.hits[].path'
    """
    result = client.search(
        query,
        repositories=repositories,
        languages=languages,
        paths=paths,
        kinds=kinds,
        symbols=symbols,
        categories=categories,
        ref=ref,
        top_k=top_k,
        explain=explain,
    )
    if as_json:
        click.echo(printing.search_json(result, explain=explain))
    else:
        _show(result, query=query, explain=explain)
    context.exit(FOUND if result else NOTHING)


def _show(result: SearchResult, *, query: str, explain: bool) -> None:
    for number, hit in enumerate(result):
        click.echo(("\n" if number else "") + printing.hit_text(hit, query))
        if explain and hit.explain:
            click.echo(printing.explanation(hit))
    for notice in result.notices:
        printing.note(f"note: {notice}")
    if explain:
        stages = ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in result.stages)
        printing.note(f"{result.query_kind} query: {stages or 'no stages reported'}")
    printing.note(_summary(result))


def _summary(result: SearchResult) -> str:
    if not result:
        return "nothing found; try other words, or fewer filters"
    cached = ", from the cache" if result.cached else ""
    return f"{len(result)} hit{'s' * (len(result) != 1)} in {result.took_ms:.1f} ms{cached}"
