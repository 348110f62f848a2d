"""`codelode eval`: measure the quality of answers, and compare it with earlier results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codelode.cli import printing
from codelode.cli.options import (
    PRESETS,
    SearchOptions,
    json_option,
    server_option,
    set_option,
)
from codelode.counts import counted
from codelode.errors import InvalidSettings
from codelode.operations.evaluation import grep, history, judged
from codelode.operations.evaluation.metrics import SourceLocation

if TYPE_CHECKING:
    from codelode.client import Client, Copy, Hit

WORSE = 1

SCOPES = ("repository", "all")


@click.command("eval")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--preset",
    type=click.Choice(PRESETS),
    default="balanced",
    show_default=True,
    help="Ask each query with this preset; see `codelode search --preset`.",
)
@set_option
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="repository",
    show_default=True,
    help="Search each query's own repository, or all repositories at once, which is harder. "
    "This is not a scope of `codelode scopes`.",
)
@click.option(
    "--grep",
    "checkouts",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Compare with grep over the repositories in this folder: checkouts or bare repositories, "
    "named as in the index.",
)
@click.option(
    "--save", type=click.Path(path_type=Path), help="Write the results to this file, as JSON."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Compare with results that --save wrote earlier; see --max-drop.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Exit with status 1 if more than this share of the baseline's NDCG@10 is lost.",
)
@click.option(
    "--from-history",
    "checkout",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Do not measure, but write FILE from the last commits of this checkout: each subject is a "
    "query, and the files that the commit changed are its answer. Merges, reverts, commits of "
    "more than five files, and commits before the last 10,000 are left out.",
)
@click.option(
    "--repo",
    default="",
    metavar="NAME",
    help="With --from-history, name the repository as the index does. Default: the folder's name.",
)
@click.option(
    "--commits",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    help="With --from-history, go back this many commits of the main line (first parents).",
)
@click.option(
    "--since",
    default="",
    metavar="REVISION",
    help="With --from-history, take the commits after this one; index this one. "
    "Default: see --commits.",
)
@json_option
@server_option
@click.pass_context
def evaluate(
    context: click.Context,
    /,
    *,
    client: Client,
    file: Path,
    preset: str,
    overrides: SearchOptions,
    scope: str,
    checkouts: Path | None,
    save: Path | None,
    baseline: Path | None,
    max_drop: float,
    checkout: Path | None,
    repo: str,
    commits: int,
    since: str,
    as_json: bool,
) -> None:
    """Measure the answers to the judged queries of FILE.

    FILE is a JSON list of {"repo", "language", "queries": [{"query", "category", "relevant":
    [path or {"path", "start_line", "end_line"}]}]}; the repositories must be indexed. Exit status:
    0 measured, 1 worse than the baseline by more than --max-drop, 2 error.

    \b
    Examples:
      codelode eval queries.json
      codelode eval queries.json --grep ~/checkouts --save result.json
      codelode eval queries.json --grep ~/.local/share/codelode/mirrors
      codelode eval queries.json --baseline result.json --max-drop 0.05
      codelode eval queries.json --set rank.ranker=fused --baseline result.json
      codelode eval mine.json --from-history . --repo acme/http --since v2.0
    """
    if checkout is not None:
        _write_history(file, checkout, repo or checkout.resolve().name, commits, since)
        return
    queries = judged.read(file)
    if not queries:
        raise InvalidSettings(f"{file} contains no queries")
    found = judged.report(list(judged.ask_all(queries, _asking(client, preset, scope, overrides))))
    if checkouts is not None:
        found["grep"] = judged.report(list(judged.ask_all(queries, _grepping(checkouts))))
    if save is not None:
        save.write_text(printing.to_json(found) + "\n", "utf-8")
    click.echo(printing.to_json(found) if as_json else _text(found))
    if baseline is not None:
        context.exit(_gate(found, baseline, max_drop))


def _asking(client: Client, preset: str, scope: str, options: SearchOptions) -> judged.Ask:
    def ask(query: judged.Query) -> Sequence[judged.Shown]:
        result = client.search(
            query.text,
            repositories=[query.repository] if scope == "repository" else (),
            top_k=judged.TOP_K,
            preset=preset,
            options=options,
            skip_cache=True,
        )
        return [
            judged.Shown(
                _place(hit, query.repository), -(-len(hit.content) // judged.CHARS_PER_TOKEN)
            )
            for hit in result
        ]

    return ask


def _place(hit: Hit, repository: str) -> SourceLocation:
    """Return the location of the hit or its copy in the repository; else one that never matches."""
    places: tuple[Hit | Copy, ...] = (hit, *hit.copies)
    for at in places:
        if at.repository == repository:
            return SourceLocation(at.path, at.start_line, at.end_line)
    return SourceLocation(f"{hit.repository}:{hit.path}", hit.start_line, hit.end_line)


def _grepping(checkouts: Path) -> judged.Ask:
    files: dict[str, dict[str, grep.Text]] = {}

    def ask(query: judged.Query) -> Sequence[judged.Shown]:
        if query.repository not in files:
            files.clear()  # one repository in memory at a time
            folder = grep.locate(checkouts, query.repository)
            files[query.repository] = grep.read(folder, query.revision)
        return grep.search(query.text, files[query.repository])

    return ask


def _write_history(file: Path, checkout: Path, name: str, commits: int, since: str) -> None:
    entry = history.judged(checkout, name=name, commits=commits, since=since)
    file.write_text(printing.to_json([entry]) + "\n", "utf-8")
    printing.note(
        f"{counted(len(entry['queries']), 'query')} in {file}; to evaluate them, index the commit "
        f"{entry['revision']}"
    )


def _text(found: dict[str, Any]) -> str:
    """Return the metrics as a table, with those of grep if they were measured."""
    other = found.get("grep")
    header = ("", "search", *(("grep",) if other else ()))
    rows = [
        (name, f"{value:.3f}", *((f"{other['metrics'][name]:.3f}",) if other else ()))
        for name, value in found["metrics"].items()
    ]
    rows += [
        (name, f"{found[name]:,}", *((f"{other[name]:,}",) if other else ()))
        for name in ("found", "tokens_to_first")
    ]
    groups = [
        (f"ndcg@10 {name}", f"{value:.3f}")
        for by in ("by_category", "by_language")
        for name, value in found[by].items()
        if name
    ]
    latency = ", ".join(f"{name} {value:.1f} ms" for name, value in found["latency_ms"].items())
    queries = counted(found["queries"], "query")
    about = f"{queries} of {counted(found['repositories'], 'repository')}; {latency}"
    return "\n".join([printing.table(header, rows), *(f"{a}  {b}" for a, b in groups), about])


def _gate(found: dict[str, Any], baseline: Path, max_drop: float) -> int:
    try:
        lost = judged.drop(found, json.loads(baseline.read_text("utf-8")))
    except (ValueError, KeyError, TypeError) as exc:
        raise InvalidSettings(f"{baseline} was not written by `codelode eval --save`") from exc
    is_worse = lost > max_drop
    verdict = "worse than allowed" if is_worse else "within what is allowed"
    printing.note(f"{judged.GATED} fell by {lost:.1%}, {verdict} ({max_drop:.0%})")
    return WORSE if is_worse else 0
