"""`codelode search` and `codelode similar`: find code by words, location, or snippet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from codelode.cli import printing, terminal
from codelode.cli.options import (
    FOUND,
    NOTHING,
    SearchOptions,
    filter_options,
    filters_of,
    json_option,
    merged,
    mode_option,
    narrowing_options,
    preset_option,
    ref_option,
    repository_option,
    require_match_option,
    server_option,
    set_option,
    top_k_option,
)
from codelode.cli.query_argument import QueryCommand
from codelode.counts import counted
from codelode.text.links import around

if TYPE_CHECKING:
    from codelode.client import Client, SearchResult

#: The gateway's limits: lines before and after a hit, and lines of the whole passage.
MAX_CONTEXT = 200
MAX_PASSAGE_LINES = 1_000


@click.command(cls=QueryCommand)
@click.argument("query")
@filter_options
@top_k_option
@preset_option
@mode_option
@click.option(
    "--similarity",
    type=float,
    metavar="COSINE",
    help="With --mode staged, drop files and chunks whose similarity to the query is lower. "
    "Default: a threshold that suits the embedding model.",
)
@click.option(
    "--alpha",
    type=float,
    help="With rank.ranker=fused (experimental), weigh vectors against keywords: 0 is "
    "keywords only, 1 vectors only.",
)
@click.option(
    "--compact",
    is_flag=True,
    help="Return the line and the signature of each symbol instead of code.",
)
@click.option(
    "--context",
    "-C",
    "context_lines",
    type=click.IntRange(0, MAX_CONTEXT),
    metavar="N",
    help="Show N lines before and after the line that matches best, even outside the hit, "
    f"0 to {MAX_CONTEXT}.",
)
@click.option(
    "--all-copies",
    is_flag=True,
    help="Show code that several repositories share, such as forks, as several hits. Default: one "
    "hit that names the other repositories.",
)
@set_option
@click.option(
    "--page",
    default="",
    metavar="TOKEN",
    help="Return the hits that follow those of the answer that printed this token.",
)
@json_option
@require_match_option
@click.option("--explain", is_flag=True, help="Show the parts of each hit's score.")
@server_option
@click.pass_context
def search(
    context: click.Context,
    /,
    *,
    client: Client,
    query: str,
    top_k: int,
    preset: str,
    mode: str | None,
    similarity: float | None,
    alpha: float | None,
    compact: bool,
    context_lines: int | None,
    all_copies: bool,
    overrides: SearchOptions,
    page: str,
    as_json: bool,
    require_match: bool,
    explain: bool,
    **filters: tuple[str, ...],
) -> None:
    """Search all indexed code for words, an identifier, or a piece of code.

    Values of one filter are alternatives; different filters must all match, and --not options
    exclude what they match. Filters may also stand in QUERY: repo:, lang:, path:, file:, ref:,
    sym:, kind:, scope:; - before repo:, lang:, path:, or file: excludes. Exit status: 0 found, 1
    nothing found, 2 error.

    \b
    Examples:
      codelode search "retry with exponential back-off"
      codelode search getUserById --language go --language rust
      codelode search "parse config" --path 'src/**/*.py' --kind function
      codelode search "parse config" --not-path 'tests/**' --not-language go
      codelode search "parse config repo:acme/* -file:*_test.go"
      codelode search "how are sessions stored" --preset thorough --explain
      codelode search "how are sessions stored" --mode staged --similarity 0.3
      codelode search "session store" --set rank.reranker=judge --set analyze.rewrite=true
      codelode search closeSession --context 10
      codelode search closeSession --all-copies
      codelode search "open a session" --repo acme/http --json | jq '.hits[].path'
      codelode search parseConfig --require-match && echo "the name exists"
    """
    retrieve = {
        "mode": mode,
        "alpha": alpha,
        "file_similarity": similarity,
        "chunk_similarity": similarity,
    }
    chosen: SearchOptions = {
        "retrieve": {name: value for name, value in retrieve.items() if value is not None},
        "rank": {"collapse_copies": False} if all_copies else {},
        "expand": _surroundings(context_lines),
        "assemble": {"compact": True} if compact else {},
    }
    if compact and context_lines is not None:
        raise click.UsageError("--compact shows no code, --context more of it; give one of them")
    result = client.search(
        query,
        **filters_of(filters),
        top_k=top_k,
        explain=explain,
        preset=preset,
        options=merged(chosen, overrides),
        page=page,
    )
    if as_json:
        click.echo(printing.search_json(result, explain=explain))
    else:
        show(result, query=query, explain=explain, context_lines=context_lines)
    is_found = result and not (require_match and result.unmatched)
    context.exit(FOUND if is_found else NOTHING)


@click.command()
@click.argument("place", metavar="PATH:LINE")
@repository_option("Read PATH:LINE in this repository. Default: the only one that is indexed.")
@click.option(
    "--in",
    "repositories",
    multiple=True,
    metavar="NAME",
    help="Search only this repository; repeatable.",
)
@narrowing_options
@ref_option
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
    top_k: int,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """Find code like the code at PATH:LINE, or with `-` like the code on standard input.

    The most similar code comes first. Exit status: 0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode similar src/http/retry.py:42
      git show HEAD~3:retry.py | codelode similar -
      codelode similar src/http/retry.py:42 --repo acme/http --in acme/web
      codelode similar src/http/retry.py:42 --kind function --not-path 'tests/**'
    """
    path, line, snippet = _source(place)
    result = client.similar(
        path,
        line,
        snippet=snippet,
        repository=repository,
        top_k=top_k,
        **filters_of(filters),
    )
    if as_json:
        click.echo(printing.search_json(result, explain=False))
    else:
        show(result, query="", explain=False)
    ctx.exit(FOUND if result else NOTHING)


def show(
    result: SearchResult, *, query: str, explain: bool, context_lines: int | None = None
) -> None:
    """Print the hits, their related results, and the notices of the answer."""
    parts = [
        "\n".join([text, *([printing.explanation(hit)] if explain and hit.explain else [])])
        for hit in result
        for text in [printing.hit_text(hit, query, context=context_lines)]
    ]
    if text := "\n\n".join(filter(None, (*parts, around(result)))):
        terminal.show(text)
    printing.notices(result.notices)
    if explain:
        stages = ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in result.stages)
        printing.note(f"{result.query_kind} query: {stages or 'no stages reported'}")
        for line in printing.query_facts(result):
            printing.note(line)
    if result.next_page:
        printing.note(f"more: --page {result.next_page}")
    printing.note(_summary(result))


def _surroundings(lines: int | None) -> dict[str, object]:
    """Return the options that add lines around a hit to the answer."""
    if not lines:
        return {}
    return {"before_lines": lines, "after_lines": lines, "max_lines": MAX_PASSAGE_LINES}


def _summary(result: SearchResult) -> str:
    if not result:
        return "nothing found; try other words, or fewer filters"
    cached = ", from the cache" if result.cached else ""
    return f"{counted(len(result), 'hit')} in {result.took_ms:.1f} ms{cached}"


def _source(text: str) -> tuple[str, int, str]:
    """Return path and line, or the snippet on standard input."""
    if text == "-":
        return "", 0, sys.stdin.read()
    return (*_location(text), "")


def _location(text: str) -> tuple[str, int]:
    path, _, line = text.rpartition(":")
    if not path or not line.isascii() or not line.isdecimal():
        raise click.BadParameter(f"{text!r} is not PATH:LINE, for example src/a.py:42")
    return path, int(line)
