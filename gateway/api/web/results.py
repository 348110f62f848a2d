"""Arrange the hits of a search for the page: by file, with the lines that match the query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from codelode.display import plain
from codelode.text.excerpts import asked_index, matches, wanted_terms, window
from gateway.api.web.links import at_lines, code_url
from gateway.api.web.parameters import SearchParameters
from gateway.service.results import Copy, Hit, ListedScope, SearchAnswer

#: Maximum number of characters of a line that are shown; minified code has lines of a megabyte.
MAX_LINE_CHARS = 400

#: Maximum number of values of a filter that are offered, and of scopes, which have no counts to
#: choose by; the start page lists all.
MAX_OFFERED = 8
MAX_SCOPES = 20

#: The filters that are offered with counts: parameter, title, field of the facet, and the parameter
#: that excludes a value.
FACETS = (
    ("repo", "Repository", "repository", "not_repo"),
    ("language", "Language", "language", "not_language"),
    ("kind", "Kind", "kind", ""),
    ("path", "Folder", "folder", "not_path"),
)

#: Matches the suggestion at the end of a notice.
_SUGGESTION = re.compile(r"did you mean ['`]([^'`\n]{1,200})['`]\?")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of code in parts; each part has a flag whether it matches the query."""

    number: int
    parts: tuple[tuple[str, bool], ...]
    url: str


@dataclass(frozen=True, slots=True)
class ShownCopy:
    """A copy of a hit in another repository."""

    copy: Copy
    url: str  # of the copy's lines in the code view
    share: int  # percentage of the lines that both have


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit with those of its lines that are shown."""

    hit: Hit
    rank: int
    url: str  # of the lines in the code view
    lines: tuple[Line, ...]
    above: int  # lines of the hit that are left out above those shown
    below: int  # and below
    copies: tuple[ShownCopy, ...]


@dataclass(frozen=True, slots=True)
class ShownFile:
    """The hits in one file, by rank."""

    repository: str
    path: str
    language: str
    url: str  # in the code view
    only_url: str  # of this search in only the file's repository
    exclude_url: str  # of this search without the file's repository
    hits: tuple[ShownHit, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A file that is shown, and files of the same repository that are folded below it."""

    shown: ShownFile
    folded: tuple[ShownFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Chip:
    """A value of a filter that is set, or that is offered."""

    label: str
    url: str
    count: int = 0  # 0: not shown
    exclude_url: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of one filter that the candidates have."""

    title: str
    chips: tuple[Chip, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice, and the query that it suggests."""

    text: str
    suggestion: str = ""
    url: str = ""


def groups(answer: SearchAnswer, asked: SearchParameters) -> tuple[Group, ...]:
    """Return the files by their best hits; if collapsed, one group for each repository."""
    files = _files(answer, asked)
    if not asked.collapse:
        return tuple(map(Group, files))
    by_repository: dict[str, list[ShownFile]] = {}
    for file in files:
        by_repository.setdefault(file.repository, []).append(file)
    return tuple(Group(first, tuple(rest)) for first, *rest in by_repository.values())


def facets(
    answer: SearchAnswer, asked: SearchParameters, scopes: Sequence[ListedScope]
) -> Iterator[Facet]:
    """Yield the scopes, and the filters that would divide the candidates further."""
    if scopes:
        chips = (Chip(one.name, asked.url(scope=one.name)) for one in scopes[:MAX_SCOPES])
        yield Facet("Scope", tuple(chips))
    counts = {one.field: one.counts for one in answer.facets.fields} if answer.facets else {}
    for name, title, field, excluding in FACETS:
        held = getattr(asked, name)
        offered = [pair for pair in counts.get(field, ()) if pair[0] not in held]
        if len(offered) < 2:
            continue
        chips = (
            Chip(
                value,
                asked.with_value(name, value),
                count,
                asked.with_value(excluding, value) if excluding else "",
            )
            for value, count in offered
        )
        yield Facet(title, tuple(islice(chips, MAX_OFFERED)))


def active(asked: SearchParameters) -> Iterator[Chip]:
    """Yield the filters that are set; following a chip removes its filter."""
    for name, title, _, excluding in FACETS:
        for value in getattr(asked, name):
            yield Chip(value, asked.without_value(name, value), title=title)
        for value in getattr(asked, excluding) if excluding else ():
            yield Chip(value, asked.without_value(excluding, value), title=f"Not {title.lower()}")
    if asked.ref:
        yield Chip(asked.ref, asked.url(ref=""), title="Ref")
    if asked.scope:
        yield Chip(asked.scope, asked.url(scope=""), title="Scope")


def notices(answer: SearchAnswer, asked: SearchParameters) -> Iterator[Notice]:
    for text in answer.notices:
        found = _SUGGESTION.search(text)
        if found is None:
            yield Notice(text)
        else:
            yield Notice(text[: found.start()], found[1], asked.url(q=found[1]))


def _files(answer: SearchAnswer, asked: SearchParameters) -> list[ShownFile]:
    by_file: dict[tuple[str, str], list[ShownHit]] = {}
    for rank, hit in enumerate(answer.hits, 1):
        shown = shown_hit(hit, rank, asked.q, answer.ref)
        by_file.setdefault((hit.repository, hit.path), []).append(shown)
    return [_file(found, asked, answer.ref) for found in by_file.values()]


def _file(found: list[ShownHit], asked: SearchParameters, ref: str) -> ShownFile:
    first = found[0].hit
    return ShownFile(
        first.repository,
        first.path,
        first.language,
        code_url(first.repository, first.path, ref),
        asked.url(repo=[first.repository], not_repo=[]),
        asked.with_value("not_repo", first.repository),
        tuple(found),
    )


def shown_hit(hit: Hit, rank: int, query: str, ref: str, *, context: int | None = None) -> ShownHit:
    """Return the hit with the lines that match best; `context`: see `excerpts.window`."""
    wanted, first = wanted_terms(query), hit.start_line
    code = hit.content.replace("\r\n", "\n").rstrip("\n").split("\n")
    asked = asked_index(query, hit.path, first, len(code))
    start, end = window(code, wanted, asked=asked, otherwise=hit.line - first, context=context)
    url = code_url(hit.repository, hit.path, ref)
    numbers = range(hit.start_line + start, hit.start_line + end)
    return ShownHit(
        hit,
        rank,
        at_lines(url, hit.start_line, hit.end_line),
        tuple(
            Line(number, tuple(_parts(text, wanted)), at_lines(url, number, number))
            for number, text in zip(numbers, code[start:end], strict=True)
        ),
        start,
        len(code) - end,
        tuple(_copy(one, ref) for one in hit.copies),
    )


def _copy(copy: Copy, ref: str) -> ShownCopy:
    file_url = code_url(copy.repository, copy.path, ref)
    url = at_lines(file_url, copy.start_line, copy.end_line)
    return ShownCopy(copy, url, int(100 * copy.similarity))


def _parts(text: str, wanted: frozenset[str]) -> Iterable[tuple[str, bool]]:
    """Yield the parts of the text that match and those that do not, in order."""
    shown, done = plain(text.rstrip()[:MAX_LINE_CHARS]), 0
    for start, end in matches(shown, wanted):
        if done < start:
            yield shown[done:start], False
        yield shown[start:end], True
        done = end
    rest = shown[done:] + ("…" if len(text.rstrip()) > MAX_LINE_CHARS else "")
    if rest:
        yield rest, False
