"""`codelode grep`: print the lines that a pattern matches, as grep does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from codelode.cli import printing
from codelode.cli.options import (
    FOUND,
    NOTHING,
    filters_of,
    grep_filter_options,
    json_option,
    server_option,
)
from codelode.cli.query_argument import QueryCommand
from codelode.client.results import GrepSummary, MatchingFile, MatchingLine, matches_of
from codelode.counts import counted
from codelode.display import plain, quoted

if TYPE_CHECKING:
    from codelode.client import Client

#: The gateway's limits: lines before and after a match, and matching lines.
MAX_AROUND = 50
MAX_LINES = 100_000

#: Number of matching lines after which the search stops by default.
DEFAULT_LINES = 1_000

#: The line between groups of lines that are not adjacent.
GAP = "--"

#: Returns the text to print for a file.
Form = Callable[[MatchingFile], str]

_AROUND: dict[str, Any] = {"type": click.IntRange(0, MAX_AROUND), "metavar": "N", "default": 0}


@click.command(cls=QueryCommand)
@click.argument("pattern")
@click.option(
    "--fixed-strings", "-F", "literal", is_flag=True, help="Search for PATTERN as literal text."
)
@click.option("--ignore-case", "-i", is_flag=True, help="Ignore the case of letters.")
@click.option("--word-regexp", "-w", "whole_word", is_flag=True, help="Match only whole words.")
@click.option(
    "--multiline",
    "-U",
    is_flag=True,
    help="Let a match contain line breaks; with `(?s)` in PATTERN, `.` matches them too.",
)
@click.option("--files-with-matches", "-l", "only_files", is_flag=True, help="Print only paths.")
@click.option(
    "--count",
    "-c",
    "only_counts",
    is_flag=True,
    help="Print only the number of matching lines of each file.",
)
@click.option("--after-context", "-A", "after_lines", **_AROUND, help="Show N lines after a match.")
@click.option(
    "--before-context", "-B", "before_lines", **_AROUND, help="Show N lines before a match."
)
@click.option("--context", "-C", "around_lines", **_AROUND, help="Show N lines before and after.")
@click.option(
    "--max-count",
    "-m",
    "limit_per_file",
    type=click.IntRange(1, MAX_LINES),
    metavar="N",
    help="Stop in each file after N matching lines.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LINES),
    metavar="N",
    help=f"Stop after N matching lines. Default: {DEFAULT_LINES:,}; with -l and -c {MAX_LINES:,}.",
)
@grep_filter_options
@json_option
@server_option
@click.pass_context
def grep(
    context: click.Context,
    /,
    *,
    client: Client,
    pattern: str,
    literal: bool,
    ignore_case: bool,
    whole_word: bool,
    multiline: bool,
    only_files: bool,
    only_counts: bool,
    after_lines: int,
    before_lines: int,
    around_lines: int,
    limit_per_file: int | None,
    limit: int | None,
    as_json: bool,
    **filters: tuple[str, ...],
) -> None:
    """Print the lines of indexed files that PATTERN matches.

    PATTERN is a regular expression of RE2 (https://github.com/google/re2/wiki/Syntax), which takes
    time in proportion to the text. Filters may stand before it, as in a search. Lines are printed
    as REPOSITORY:PATH:LINE:TEXT, or with one --repo as PATH:LINE:TEXT. If the search stops early,
    standard error says why. Exit status: 0 found, 1 nothing found, 2 error.

    \b
    Examples:
      codelode grep 'func \\w+\\(ctx context\\.Context' --language go
      codelode grep -F 'errno == EAGAIN' --repo redis -C 2
      codelode grep -w -i todo --path 'src/**' --not-path '**/vendor/**'
      codelode grep -l 'import requests$' --category source
      codelode grep -c panic --repo acme/api --ref v2
      codelode grep -U 'try:\\n\\s+pass' --language python --json | jq '.matches[].path'
    """
    is_short = only_files or only_counts
    found = client.grep(
        pattern,
        literal=literal,
        ignore_case=ignore_case,
        whole_word=whole_word,
        multiline=multiline,
        after_lines=after_lines or around_lines,
        before_lines=before_lines or around_lines,
        limit=limit or (MAX_LINES if is_short else DEFAULT_LINES),
        limit_per_file=1 if only_files else limit_per_file or 0,
        without_lines=is_short,
        **filters_of(filters),
    )
    summary = _print_json(found) if as_json else _print(found, _form(filters, context.params))
    context.exit(FOUND if summary.files else NOTHING)


def _form(filters: Mapping[str, Sequence[str]], given: Mapping[str, Any]) -> Form:
    """Return the function that formats a file as the options say."""
    name = _path if len(filters["repositories"]) == 1 else _place
    if given["only_files"]:
        return name
    if given["only_counts"]:
        return lambda file: f"{name(file)}:{file.count}"
    return lambda file: "\n".join(_lines(file, name(file)))


def _print_json(found: Iterator[MatchingFile | GrepSummary]) -> GrepSummary:
    made = matches_of(found)
    click.echo(printing.to_json(asdict(made)))
    return made.summary


def _print(found: Iterator[MatchingFile | GrepSummary], form: Form) -> GrepSummary:
    """Print the files as they arrive, and what the summary says on stderr."""
    summary: GrepSummary | None = None
    gap = ""
    for part in found:
        if isinstance(part, GrepSummary):
            summary = part
            continue
        click.echo(f"{gap}{form(part)}")
        gap = f"{GAP}\n" if any(not line.is_match for line in part.lines) else gap
    assert summary is not None, "the stream ends with it"
    printing.notices(summary.notices)
    printing.note(_told(summary))
    return summary


def _told(summary: GrepSummary) -> str:
    lines, files = counted(summary.count, "line"), counted(summary.files, "file")
    return f"{lines} in {files} of {summary.read_files:,} read, {summary.took_ms:.1f} ms"


def _path(file: MatchingFile) -> str:
    return quoted(file.path)


def _place(file: MatchingFile) -> str:
    return f"{quoted(file.repository)}:{quoted(file.path)}"


def _lines(file: MatchingFile, name: str) -> Iterator[str]:
    """Yield `name:12:text` for a matching line, `name-13-text` for one around it, and gaps."""
    has_context = any(not line.is_match for line in file.lines)
    before = 0
    for line in file.lines:
        if has_context and before and line.number > before + 1:
            yield GAP
        sign = ":" if line.is_match else "-"
        number = click.style(line.number, fg="green")
        yield f"{name}{sign}{number}{sign}{_marked(line)}{'…' * line.truncated}"
        before = line.number


def _marked(line: MatchingLine) -> str:
    """Return the line with its matches in bold."""
    parts, at = [], 0
    for span in line.spans:
        parts.append(plain(line.text[at : span.start]))
        parts.append(click.style(plain(line.text[span.start : span.end]), fg="red", bold=True))
        at = span.end
    return "".join([*parts, plain(line.text[at:])])
