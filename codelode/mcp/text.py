"""Write answers as compact text: a location, a name, and a few lines of code for each hit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from codelode.counts import counted
from codelode.display import quoted
from codelode.mcp.answers import MAX_BYTES, fitting
from codelode.text.copies import copies_lines
from codelode.text.excerpts import excerpt
from codelode.text.fields import reworded
from codelode.text.links import around, link_ends
from codelode.text.runs import run_line

if TYPE_CHECKING:
    from codelode.client import (
        About,
        Coverage,
        Definition,
        FileFailure,
        FileLines,
        Graph,
        GraphLink,
        Hit,
        IndexedRepository,
        Matches,
        NameUse,
        ReferenceList,
        Scope,
        SearchResult,
        Status,
        SymbolList,
    )

#: Maximum number of paths of one relation that `explain` lists; `graph` lists the others.
MAX_PATHS = 20
#: Maximum number of repositories, files that are not indexed, runs, and scopes in `status`.
MAX_REPOSITORIES = 100
MAX_FAILURES = 50
MAX_RUNS = 5
MAX_SCOPES = 50

#: Number of characters shown of a line that is longer than an answer; escapes may lengthen each.
MAX_LINE_CHARS = MAX_BYTES // 10

NARROW_SEARCH = "ask for fewer hits (top_k), signatures only (compact), or narrow it with filters"
NARROW_EXACT = "ask for fewer lines (top_k), or narrow it with filters"
NOTHING = "nothing found; try other words, or fewer filters"


def search_lines(found: SearchResult, query: str, *, context: int | None = None) -> list[str]:
    """Return as many whole hits as fit, grouped by repository, and the notes."""
    hits = [_hit(rank, hit, query, context) for rank, hit in enumerate(found, 1)]
    tail = [*filter(None, [around(found)]), *notes(found.notices, found.coverage)]
    room = MAX_BYTES - sum(len(line.encode()) for line in tail) - 1_000
    kept = fitting(hits, room) or hits[:1]
    if left := len(hits) - len(kept):
        more = f"{counted(left, 'hit')} did not fit; repeat with top_k={len(kept)} for their page, "
        tail.append(f"note: {more}or {NARROW_SEARCH}")
    elif found.next_page:
        tail.append(f'more: page="{found.next_page}"')
    return [*_grouped(found, kept), *tail] if hits else [NOTHING, *tail]


def matching_lines(found: Matches) -> Iterator[str]:
    """Yield the lines that a pattern matches, as `src/a.py:9: text`, and the notes."""
    for name, group in groupby(found.matches, key=lambda file: file.repository):
        files = list(group)
        yield f"## {quoted(name)} at {files[0].revision[:12]}"
        for file in files:
            for line in file.lines:
                sign = ":" if line.is_match else "-"
                yield f"{quoted(file.path)}{sign}{line.number}{sign} {line.text}"
    summary = found.summary
    yield from notes(summary.notices, summary.coverage)
    yield f"{counted(summary.count, 'line')} in {counted(summary.files, 'file')}"


def symbol_lines(found: SymbolList) -> list[str]:
    """Return the definitions with their signatures, and the notes."""
    lines = [*map(_definition, found.symbols)] or [NOTHING]
    return [*lines, *_notes_on_names(found)]


def reference_lines(found: ReferenceList) -> list[str]:
    """Return the uses by repository, as `src/a.py:9 text`, and the notes."""
    lines: list[str] = []
    for name, group in groupby(found.references, key=lambda one: one.repository):
        lines += [f"## {quoted(name)}", *map(_use, group)]
    return [*(lines or [NOTHING]), *_notes_on_names(found)]


def _notes_on_names(found: SymbolList | ReferenceList) -> list[str]:
    """Return the notes. The limit of a list is `top_k`, unlike that of a graph."""
    return notes(found.notices, found.coverage, named=_argument_of_list)


def _argument_of_list(field: str) -> str:
    return "`top_k`" if field == "limit" else _argument(field)


def _use(one: NameUse) -> str:
    sure = "" if one.confidence == "exact" else f" ({one.confidence})"
    return f"{quoted(one.path)}:{one.line} {one.text}{sure}"


def _grouped(found: SearchResult, hits: list[str]) -> Iterator[str]:
    """Yield the hits under their repositories, the one with the best hit first."""
    refs = {one.repository: one.ref for one in found.coverage}
    order = {name: at for at, name in enumerate(dict.fromkeys(hit.repository for hit in found))}
    pairs = sorted(zip(found, hits, strict=False), key=lambda pair: order[pair[0].repository])
    for name, group in groupby(pairs, key=lambda pair: pair[0].repository):
        some = list(group)
        ref = f" {quoted(refs[name])}" if refs.get(name) else ""
        yield f"## {quoted(name)}{ref} at {some[0][0].revision[:12]}"
        yield from (text for _, text in some)


def _hit(rank: int, hit: Hit, query: str, context: int | None) -> str:
    """Return `1. src/a.py:9-11 Client.retry (method)`, its signature, and the lines that match."""
    about = [f"{rank}. {quoted(hit.path)}:{hit.start_line}-{hit.end_line}"]
    about += [quoted(hit.symbol)] if hit.symbol else []
    lines = excerpt(hit, query, context=context)
    head = [f"{' '.join(about)} ({hit.kind})", *copies_lines(hit)]
    return "\n".join([*head, *_signature(hit, lines), *lines])


def _signature(hit: Hit, shown: list[str]) -> list[str]:
    """Return the line that defines the symbol, unless `shown` contains it."""
    code, at = hit.content.split("\n"), hit.line - hit.start_line
    if not 0 <= at < len(code) or any(line.split()[:1] == [str(hit.line)] for line in shown):
        return []
    return [f"{hit.line}  {code[at].strip()[:200]}"]


def _argument(field: str) -> str:
    """Return the argument of a filter, which all tools name alike; empty for another field."""
    filtering = field.removeprefix("filters.")
    return filtering if filtering != field else ""


def notes(
    notices: Iterable[str],
    coverage: Iterable[Coverage] = (),
    *,
    named: Callable[[str], str] = _argument,
) -> list[str]:
    """Return notes about what the answer lacks: its notices, and files that are not indexed.

    `named`: see `reworded`.
    """
    missing = [
        f"{quoted(one.repository)} {quoted(one.ref)} is not complete: "
        f"{counted(one.pending, 'file')} pending, {one.failed:,} failed"
        for one in coverage
        if one.pending or one.failed
    ]
    told = (reworded(notice, named) for notice in notices)
    return [f"note: {' '.join(text.split())}" for text in (*told, *missing)]


def file_lines(found: FileLines) -> list[str]:
    """Return the location and as many numbered lines as fit, or a part of a line that is longer."""
    width = len(str(found.end_line))
    code = enumerate(found.content.split("\n"), found.start_line)
    numbered = [f"{number:>{width}}  {line}" for number, line in code]
    shown = fitting(numbered, MAX_BYTES - 2_000)
    cut = [] if shown else [f"note: line {found.start_line} is longer than an answer"]
    shown = shown or [numbered[0][:MAX_LINE_CHARS]]
    end = found.start_line + len(shown) - 1
    is_more = end < found.end_line or found.truncated
    rest = [f"more of the file: start_line={end + 1}"] if is_more else []
    at = f" at {found.revision[:12]}" if found.revision else ""
    place = f"{quoted(found.path)}:{found.start_line}-{end} of {found.line_count}"
    head = f"## {quoted(found.repository)}{at} {place}"
    return [head, *shown, *cut, *rest, *notes((), found.coverage)]


def about_lines(about: About) -> list[str]:
    """Return the summary, the definitions with their signatures, and the related files."""
    relations = (
        ("imports", about.imports),
        ("imported by", about.imported_by),
        ("tested by", about.tests),
    )
    return [
        about.summary,
        *map(_definition, about.definitions),
        *(line for name, paths in relations for line in _paths(name, paths)),
        *notes(about.notices, about.coverage),
    ]


def _definition(one: Definition) -> str:
    where = f"{quoted(one.repository)} {quoted(one.path)}:{one.start_line}-{one.end_line}"
    text = " ".join((one.signature or one.name).split())
    doc = f"\n    {' '.join(one.doc.split())[:200]}" if one.doc else ""
    return f"{where} {quoted(one.name)} ({one.kind})\n    {text[:200]}{doc}"


def _paths(relation: str, paths: tuple[str, ...]) -> list[str]:
    if not paths:
        return []
    shown = [f"  {quoted(path)}" for path in paths[:MAX_PATHS]]
    more = ["  … and others, which `graph` lists"] if len(paths) > MAX_PATHS else []
    return [f"{relation}:", *shown, *more]


def graph_lines(found: Graph) -> list[str]:
    """Return the edges grouped by relation, indented by their distance."""
    lines = [f"{found.subject_kind} in {quoted(found.repository)}"]
    for relation, links in groupby(found.links, key=lambda link: link.relation):
        some = [_link(link, found.repository) for link in links]
        lines += [f"{relation}: {len(some):,}", *some]
    if not found.links:
        lines.append("no edges; try the other direction (reverse), or other relations")
    return [*lines, *notes(found.notices, found.coverage)]


def _link(link: GraphLink, home: str) -> str:
    sure = "" if link.confidence == "exact" else f" ({link.confidence})"
    return f"{'  ' * link.depth}{link_ends(link, home)}{sure}"


def status_lines(
    status: Status, failures: tuple[FileFailure, ...], scopes: tuple[Scope, ...]
) -> list[str]:
    """Return the repositories with their refs, the scopes, the latest runs, and what is wrong."""
    repositories, runs = status.repositories, status.runs
    lines = [line for each in repositories[:MAX_REPOSITORIES] for line in _refs(each)]
    if (more := len(repositories) - MAX_REPOSITORIES) > 0:
        lines.append(f"… {counted(more, 'more repository')}; name one in `repository`")
    if not repositories:
        lines.append("no repositories yet; add one with index")
    lines += [f"scope: {_scope(one)}" for one in scopes[:MAX_SCOPES]]
    if len(scopes) > MAX_SCOPES:
        lines.append(f"… {counted(len(scopes) - MAX_SCOPES, 'more scope')}")
    lines += [f"run: {_run(run_line(run), run.waits_for)}" for run in runs[:MAX_RUNS]]
    lines += [f"{one.state}: {_failure(one)}" for one in failures[:MAX_FAILURES]]
    if len(failures) > MAX_FAILURES:
        lines.append(f"… more than {MAX_FAILURES} files; `codelode failures` lists all")
    lines += [f"problem: {one.role}: {one.problem}" for one in status.servers if one.problem]
    return [*lines, *(f"problem: {problem}" for problem in status.problems)]


def _refs(each: IndexedRepository) -> Iterator[str]:
    name = quoted(each.repository.name)
    if not each.refs:
        yield f"{name} is not indexed yet"
    for ref in each.refs:
        failed = f", {ref.failed:,} failed" if ref.failed else ""
        commit = (ref.indexed or "nothing yet")[:12]
        yield f"{name} {quoted(ref.ref)} at {commit}: {counted(ref.files, 'file')}{failed}"


def _scope(one: Scope) -> str:
    about = f": {quoted(one.description)}" if one.description else ""
    return f"{one.name}, {counted(one.repository_count, 'repository')}{about}"


def _run(line: str, waits_for: str) -> str:
    return f"{line}  waits: {' '.join(waits_for.split())}" if waits_for else line


def _failure(one: FileFailure) -> str:
    where = f"{quoted(one.repository)} {quoted(one.ref)} {quoted(one.path)}"
    return f"{where}: {' '.join(one.reason.split())}"
