"""`codelode context`: print the code that answers a question, within a token budget."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from codelode.cli import printing
from codelode.cli.options import (
    FOUND,
    NOTHING,
    SearchOptions,
    filter_options,
    filters_of,
    json_option,
    merged,
    mode_option,
    preset_option,
    require_match_option,
    server_option,
    set_option,
)
from codelode.cli.query_argument import QueryCommand
from codelode.client.request import MOST
from codelode.counts import counted

if TYPE_CHECKING:
    from codelode.client import Client


@click.command(cls=QueryCommand)
@click.argument("query")
@filter_options
@click.option(
    "--tokens",
    type=int,
    default=8_000,
    show_default=True,
    help=f"Fit the text into this many tokens, 100 to {MOST['budget_tokens']:,}.",
)
@click.option(
    "--top-k",
    "-k",
    type=int,
    default=20,
    show_default=True,
    help=f"Choose from this many hits, 1 to {MOST['top_k']}.",
)
@preset_option
@mode_option
@set_option
@require_match_option
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
    overrides: SearchOptions,
    require_match: bool,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """Print the code that answers QUERY as one Markdown text, for an agent.

    A quarter of the budget, at most 2,000 tokens, stays free for the agent's answer. Exit status:
    0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode context "how does a job retry" | llm "explain this"
      codelode context "session storage" --repo acme/http --tokens 16000
      codelode context "session storage" --preset thorough --json | jq .tokens
    """
    budget = overrides.get("assemble", {}).get("budget_tokens", tokens)
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
            overrides,
        ),
        **filters_of(filters),
    )
    if as_json:
        fields: dict[str, object] = {
            "text": made.text,
            "tokens": made.tokens,
            "left_out": made.left_out,
            "notices": list(made.search.notices),
            "coverage": [asdict(one) for one in made.search.coverage],
        }
        if made.search.unmatched:
            fields["unmatched"] = True
        click.echo(printing.to_json(fields))
    elif made.text:
        click.echo(printing.plain(made.text))
    printing.notices(made.search.notices)
    of = counted(len(made.search), "hit")
    printing.note(f"{counted(made.tokens, 'token')}, {made.left_out} of {of} left out")
    is_found = made.text and not (require_match and made.search.unmatched)
    ctx.exit(FOUND if is_found else NOTHING)
