"""`codelode search`, and the filters that every command shares which searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from codelode.cli import printing
from codelode.cli.options import server_option
from codelode.cli.tuning import Chosen, merged, set_option
from codelode.client import Client, SearchResult
from codelode.client.request import MOST, Filters
from codelode.counts import counted
from codelode.model import Category, Kind

FOUND, NOTHING = 0, 1

PRESETS = ("fast", "balanced", "thorough")
MODES = ("hybrid", "staged")

Command = TypeVar("Command", bound=Callable[..., object])

_FILTERS = (
    click.option(
        "--repo", "-r", "repositories", multiple=True, metavar="NAME", help="Only in this."
    ),
    click.option(
        "--language", "-l", "languages", multiple=True, metavar="NAME", help="python, go …"
    ),
    click.option(
        "--path", "-p", "paths", multiple=True, metavar="GLOB", help="Over the whole path."
    ),
    click.option("--kind", "kinds", multiple=True, metavar="KIND", help=f"{', '.join(Kind)}."),
    click.option("--symbol", "symbols", multiple=True, metavar="GLOB", help="Over symbol names."),
    click.option(
        "--category", "categories", multiple=True, metavar="C", help=f"{', '.join(Category)}."
    ),
    click.option(
        "--block-type",
        "block_types",
        multiple=True,
        metavar="TYPE",
        help="Of infrastructure: resource, job, service, stage, Deployment …",
    ),
    click.option("--ref", default="", help="Branch or tag. Default: each repository's default."),
)

top_k_option = click.option(
    "--top-k",
    "-k",
    type=int,
    default=10,
    show_default=True,
    help=f"How many hits, 1 to {MOST['top_k']}.",
)
preset_option = click.option(
    "--preset",
    type=click.Choice(PRESETS, case_sensitive=False),
    default="balanced",
    show_default=True,
    help="thorough: synonyms, a wider window, related files, import chains, whole definitions.",
)
mode_option = click.option(
    "--mode",
    type=click.Choice(MODES, case_sensitive=False),
    help="staged: files by their summaries first, then the chunks inside them.",
)


def filter_options(command: Command) -> Command:
    """Adds `--repo`, `--language`, … `--ref`."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.command()
@click.argument("query")
@filter_options
@top_k_option
@preset_option
@mode_option
@click.option(
    "--similarity",
    type=float,
    metavar="COSINE",
    help="Staged: least similarity of files and chunks. Default: the embedder's.",
)
@click.option(
    "--alpha", type=float, help="Weight of meaning against words, 0 to 1; the fused ranker."
)
@click.option("--compact", is_flag=True, help="Places and signatures without code.")
@set_option
@click.option("--page", default="", metavar="TOKEN", help="Go on after a previous answer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for machines.")
@click.option("--explain", is_flag=True, help="Show why each hit ranks where it does.")
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
    tuned: Chosen,
    page: str,
    as_json: bool,
    explain: bool,
    **filters: tuple[str, ...],
) -> None:
    """Search all indexed code with words, an identifier or a piece of code.

    Filters of one option are alternatives, different options must all hold. Exit status: 0
    found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode search "retry with exponential back-off"
      codelode search getUserById --language go --language rust
      codelode search "parse config" --path 'src/**/*.py' --kind function
      codelode search "how are sessions stored" --preset thorough --explain
      codelode search "how are sessions stored" --mode staged --similarity 0.3
      codelode search "session store" --set rank.reranker=judge --set analyze.rewrite=true
      codelode search "open a session" --repo acme/http --json | jq '.hits[].path'
    """
    retrieve = {
        "mode": mode,
        "alpha": alpha,
        "file_similarity": similarity,
        "chunk_similarity": similarity,
    }
    chosen: Chosen = {
        "retrieve": {name: value for name, value in retrieve.items() if value is not None},
        "assemble": {"compact": True} if compact else {},
    }
    result = client.search(
        query,
        **asked(filters),
        top_k=top_k,
        explain=explain,
        preset=preset,
        options=merged(chosen, tuned),
        page=page,
    )
    if as_json:
        click.echo(printing.search_json(result, explain=explain))
    else:
        show(result, query=query, explain=explain)
    context.exit(FOUND if result else NOTHING)


def asked(filters: dict[str, tuple[str, ...]]) -> Filters:
    """The values of `filter_options` as the client takes them."""
    found: Filters = {**filters}  # type: ignore[typeddict-item]
    return found


def show(result: SearchResult, *, query: str, explain: bool) -> None:
    """The hits, then what was found around them and what the answer says of itself."""
    for number, hit in enumerate(result):
        click.echo(("\n" if number else "") + printing.hit_text(hit, query))
        if explain and hit.explain:
            click.echo(printing.explanation(hit))
    if around := printing.around(result):
        click.echo("\n" + around)
    for notice in result.notices:
        printing.note(f"note: {notice}")
    if explain:
        stages = ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in result.stages)
        printing.note(f"{result.query_kind} query: {stages or 'no stages reported'}")
        for line in printing.reading(result):
            printing.note(line)
    if result.next_page:
        printing.note(f"more: --page {result.next_page}")
    printing.note(_summary(result))


def _summary(result: SearchResult) -> str:
    if not result:
        return "nothing found; try other words, or fewer filters"
    cached = ", from the cache" if result.cached else ""
    return f"{counted(len(result), 'hit')} in {result.took_ms:.1f} ms{cached}"
