"""Format results for a terminal and as JSON.

Repository content is not trusted: see `codelode.display`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from codelode.cli.fields import worded
from codelode.cli.terminal import look
from codelode.counts import counted
from codelode.display import plain as plain  # used by the commands
from codelode.display import quoted
from codelode.text.copies import copies_lines
from codelode.text.excerpts import excerpt

if TYPE_CHECKING:
    from codelode.client import ConnectionPermissions, Hit, SearchResult, Source


def note(text: str) -> None:
    """Print one line on stderr."""
    click.echo(plain(text.replace("\n", "\\n")), err=True)


def notices(found: Iterable[str]) -> None:
    """Print the notices of an answer on stderr, with fields written as options."""
    command = click.get_current_context().command
    for notice in found:
        note(f"note: {worded(notice, command)}")


def complain(message: str) -> None:
    """Print an error as one plain line on stderr."""
    note(f"codelode: {' '.join(message.split())}")


def hit_text(hit: Hit, query: str = "", *, context: int | None = None) -> str:
    """Return the location of a hit, its copies, and its lines; see `excerpts.excerpt`."""
    location = f"{quoted(hit.path)}:{hit.start_line}-{hit.end_line}"
    head = [quoted(hit.repository), click.style(location, fg="green")]
    symbol = f"  {click.style(quoted(hit.symbol), bold=True)}" if hit.symbol else ""
    found = click.style(f"  ({hit.score:.4g}, {hit.match})", dim=True)
    lines = excerpt(hit, query, context=context, look=look())
    copies = [click.style(f"    {line}", dim=True) for line in copies_lines(hit)]
    return "\n".join([" ".join(head) + symbol + found, *copies, *lines])


def explanation(hit: Hit) -> str:
    """Return the parts of the hit's score, one per line."""
    return "\n".join(f"    {quoted(name)} = {value:.4g}" for name, value in hit.explain)


def query_facts(result: SearchResult) -> Iterator[str]:
    """Yield the analysis of the query and the coverage of its repositories, line by line."""
    facts = {
        "intent": result.intent,
        "names": ", ".join(f"{one.text} ({one.kind})" for one in result.entities),
        "synonyms": ", ".join(result.synonyms),
        "also asked": "; ".join(result.alternates),
        "files": ", ".join(f"{quoted(one.path)} ({one.similarity:.2f})" for one in result.files),
    }
    yield from (f"{name}: {value}" for name, value in facts.items() if value)
    for one in result.coverage:
        missing = f", {counted(one.pending, 'file')} pending, {one.failed:,} failed"
        yield (
            f"searched {one.repository} {quoted(one.ref)} at {one.revision[:12] or 'nothing yet'}"
            + (missing if one.pending or one.failed else "")
        )


def search_json(result: SearchResult, *, explain: bool) -> str:
    """Return the documented object of `search --json`; traces only with `explain`.

    Fields that an option adds are left out if they are empty. The notices and the coverage are
    always there, because they say where the answer is incomplete.
    """
    hits = [_hit_json(hit, explain=explain) for hit in result]
    answer: dict[str, object] = {
        "hits": hits,
        "took_ms": result.took_ms,
        "notices": list(result.notices),
        "coverage": [asdict(one) for one in result.coverage],
    }
    for name in ("related", "imports", "duplicates", "files"):
        if found := getattr(result, name):
            answer[name] = [asdict(one) for one in found]
    for name in ("abstained", "unmatched"):
        if getattr(result, name):
            answer[name] = True
    if result.next_page:
        answer["next_page"] = result.next_page
    if explain:
        answer["explain"] = {
            "query_kind": result.query_kind,
            "intent": result.intent,
            "entities": [asdict(one) for one in result.entities],
            "synonyms": list(result.synonyms),
            "alternates": list(result.alternates),
            "tokens": result.tokens,
            "cached": result.cached,
            "stages": [{"stage": name, "took_ms": ms} for name, ms in result.stages],
        }
    return to_json(answer)


def _hit_json(hit: Hit, *, explain: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "repository": hit.repository,
        "path": hit.path,
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "language": hit.language,
        "symbol": hit.symbol,
        "line": hit.line,
        "kind": hit.kind,
        "category": hit.category,
        "score": hit.score,
        "keyword_score": hit.keyword_score,
        "similarity": hit.similarity,
        "match": hit.match,
        "revision": hit.revision,
        "url": hit.url,
        "content": hit.content,
    }
    if hit.copies:
        fields["copies"] = [asdict(one) for one in hit.copies]
    if hit.block_type:
        fields["block_type"] = hit.block_type
    if hit.passage is not None:
        fields["passage"] = asdict(hit.passage)
    if explain:
        fields["explain"] = [{"name": name, "value": value} for name, value in hit.explain]
    return fields


def to_json(value: object) -> str:
    """Return JSON in ASCII, which no terminal or locale can garble."""
    return json.dumps(value, indent=2)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return left-aligned columns under bold headings."""
    cells = [list(header), *([quoted(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([click.style(lines[0], bold=True), *lines[1:]])


def request_budget(one: Source | ConnectionPermissions) -> Iterator[str]:
    """Yield how many more requests the code host of a connection accepts, if known."""
    if one.requests_allowed:
        until = f" until {moment(one.resets_at)}" if one.resets_at else ""
        left = f"{one.requests_left:,} of {one.requests_allowed:,} requests"
        yield f"{one.connection}: its host accepts {left} more{until}"


def moment(seconds: float) -> str:
    """Return local date and time, or a dash for never."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"
