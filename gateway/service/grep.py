"""Find the matches of a text or a regular expression in all indexed files.

The index names the files that have the trigrams of the pattern. They are read in order, a batch at
a time, and searched for the pattern, so an answer is exact. It is complete unless its summary says
where the search stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from codelode import deadline, globs
from codelode.access import Principal, Visibility
from codelode.counts import counted
from codelode.errors import InvalidQuery
from codelode.file_text import text_by_file
from codelode.grams import NOTHING
from codelode.model import Chunk, FileKey, FileQuery, FileText, Filters, RepositoryName
from codelode.permalinks import permalink
from codelode.query_language import WrittenFilter, leading_filters, whole_text
from codelode.scopes import Scope
from gateway.exact.matching import lines, matching
from gateway.exact.pattern import Pattern, Wanted, check_length, compiled
from gateway.service import queries
from gateway.service.audit import involve, note
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog
from gateway.service.coverage import Coverage
from gateway.service.dependencies import Dependencies
from gateway.service.hints import filter_hints
from gateway.service.query_filters import FilterReader, shown_filters
from gateway.service.requests import GrepRequest
from gateway.service.results import GrepPart, GrepSummary, MatchingFile
from gateway.service.scopes import VisibleScopes

#: Default and maximum limit of the matching lines in an answer.
DEFAULT_LIMIT = 1_000
MAX_LIMIT = 100_000

#: Maximum number of lines before, and of lines after, each matching line.
MAX_AROUND = 50

#: Number of files in the first batch, which is small so that its matches come soon, and in others.
BATCHES = (16, 64)

#: Number of lines at which a part of an answer ends. Sending one part for each file would take as
#: long as finding its lines; all lines of a batch could be too large for one message to a client.
LINES_PER_PART = 1_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Search:
    """A checked request."""

    pattern: Pattern
    filters: Filters
    limit: int
    request: GrepRequest
    visible: Visibility
    written: tuple[WrittenFilter, ...] = ()  # the filters at the beginning of the pattern
    named: tuple[RepositoryName, ...] = ()  # the repositories that these and the request name
    notices: tuple[str, ...] = ()  # about the filters
    scope: Scope | None = None  # part of the filters

    @property
    def has_context(self) -> bool:
        return bool(self.request.before_lines or self.request.after_lines)

    @property
    def most_per_file(self) -> int:
        return self.request.limit_per_file or self.limit


@dataclass(slots=True)
class _Progress:
    """The files that were read and the matches that were found so far, and where it stopped."""

    read: int = 0
    files: int = 0
    count: int = 0
    repositories: dict[RepositoryName, None] = field(default_factory=dict)  # with a match
    stopped_at: FileKey | None = None  # the file at which the limit was reached; None: it was not


@permitted
async def grep(
    dependencies: Dependencies, principal: Principal, request: GrepRequest
) -> AsyncIterator[GrepPart]:
    """Find the lines that a pattern matches, file by file. Raises InvalidQuery."""
    started = time.perf_counter()
    involve(query=request.pattern)
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    reader = FilterReader(VisibleScopes(dependencies.scopes, catalog), "pattern")
    search = await asyncio.to_thread(_checked, request, reader)
    places = await _places(dependencies, search)
    done = _Progress()
    for batch in _batches(places):
        for files in _parts(await _found(dependencies, search, batch, done)):
            yield GrepPart(files)
        if done.stopped_at:
            break
    note(files=done.files, lines=done.count, read=done.read)
    took_ms = 1000 * (time.perf_counter() - started)
    covered = await _covered(dependencies, search, done)
    hints = await _hints(dependencies, search, done)
    yield GrepPart(summary=_summary(search, done, len(places), took_ms, covered, hints))


def _checked(request: GrepRequest, reader: FilterReader) -> _Search:
    """Return the request with its pattern compiled. Raises InvalidQuery."""
    check_length(request.pattern)
    written, text = ((), request.pattern) if request.literal else leading_filters(request.pattern)
    whole = whole_text(text) if written else None
    pattern = compiled(
        Wanted(
            whole.value if whole else text,
            is_literal=not whole.is_expression if whole else request.literal,
            ignores_case=request.ignore_case,
            whole_words=request.whole_word,
            multiline=request.multiline,
        )
    )
    for name in ("before_lines", "after_lines"):
        _in_bounds(name, getattr(request, name), MAX_AROUND)
    _in_bounds("limit_per_file", request.limit_per_file, MAX_LIMIT)
    limit = queries.bounded("limit", request.limit, default=DEFAULT_LIMIT, most=MAX_LIMIT)
    filters, visible, narrowing, notices = reader.narrowed(request.filters, written)
    named = filters.repositories or (narrowing.named if narrowing else ())
    scope = narrowing.scope if narrowing else None
    return _Search(pattern, filters, limit, request, visible, written, named, notices, scope)


def _in_bounds(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise InvalidQuery(name, f"is {value:,}; it must be 0 to {most:,}")


async def _places(dependencies: Dependencies, search: _Search) -> Sequence[FileKey]:
    """Return the files to read, in order. Raises InvalidQuery if a scan would be too long."""
    query = FileQuery(search.pattern.needed, search.filters, visible=search.visible)
    found = await dependencies.published.call(lambda backends: backends.chunks.holding(query))
    if query.grams == NOTHING:
        why = "has no three characters in a row that every match contains, so"
        queries.check_narrowed("pattern", len(found), why, remedy="characters to it, or filters")
    return found


async def _found(
    dependencies: Dependencies, search: _Search, batch: Sequence[FileKey], done: _Progress
) -> list[MatchingFile]:
    """Search the files of a batch, and return those that match."""
    ref = search.filters.ref
    call = dependencies.published.call
    chunks: Mapping[FileKey, Sequence[Chunk]] = {}
    if _admits_parts(search.filters):  # text and chunks must be of one version of each file
        chunks = await call(lambda backends: backends.chunks.files(batch, ref))
        held: Mapping[FileKey, FileText] = await asyncio.to_thread(text_by_file, chunks)
    else:
        needed = search.pattern.needed_in_line
        held = await call(lambda backends: backends.chunks.texts(batch, ref, needed))
        if needed != NOTHING and search.has_context:  # now read the lines around matches as well
            held = await call(lambda backends: backends.chunks.texts([*held], ref))
    found = await asyncio.to_thread(_searched, search, batch, held, chunks, done)
    named = tuple(dict.fromkeys(file.repository for file in found))
    done.repositories.update(dict.fromkeys(named))
    involve(named)
    covered = {one.repository: one for one in await dependencies.coverage.of(named, ref)}
    return [_at_commit(file, covered[file.repository]) for file in found]


def _searched(
    search: _Search,
    batch: Sequence[FileKey],
    held: Mapping[FileKey, FileText],
    chunks: Mapping[FileKey, Sequence[Chunk]],
    done: _Progress,
) -> list[MatchingFile]:
    """Search the files of a batch. `chunks`: their chunks, if filters may admit only some."""
    found = []
    for place in batch:
        if done.count >= search.limit:
            break
        deadline.check()
        done.read += 1
        if place in held:  # else it was removed meanwhile
            is_inside = _admitted(chunks.get(place, ()), search.filters)
            file = _file(search, place, held[place], is_inside, most=search.limit - done.count)
            if file is not None:
                found.append(file)
                done.files += 1
                done.count += file.count
        if done.count >= search.limit:
            done.stopped_at = place
    return found


def _file(
    search: _Search,
    place: FileKey,
    held: FileText,
    is_inside: Callable[[int], bool] | None,
    *,
    most: int,
) -> MatchingFile | None:
    """Return the matching lines of a file; None if there are none."""
    found = matching(search.pattern, held.raw)
    if is_inside is not None:
        found = (one for one in found if is_inside(one.number))
    matched = list(islice(found, min(most, search.most_per_file)))
    if not matched:
        return None
    request = search.request
    around = {"before": request.before_lines, "after": request.after_lines}
    shown = () if request.without_lines else lines(held.raw, matched, **around)
    return MatchingFile(*place, held.language, len(matched), shown)


def _at_commit(file: MatchingFile, covered: Coverage) -> MatchingFile:
    """Add the indexed commit, and the link to the first matching line at this commit."""
    first = next((line.number for line in file.lines if line.is_match), 1)
    url = permalink(covered.url, covered.revision, file.path, first, first)
    return replace(file, revision=covered.revision, url=url)


async def _covered(
    dependencies: Dependencies, search: _Search, done: _Progress
) -> tuple[Coverage, ...]:
    filters, catalog = search.filters, VisibleCatalog(dependencies.ledger, search.visible)
    found = await dependencies.coverage.searched(catalog, filters, tuple(done.repositories))
    covered = {one.repository for one in found}
    others = [name for name in search.named if name not in covered]
    return (*found, *(await dependencies.coverage.of(others, filters.ref) if others else ()))


async def _hints(dependencies: Dependencies, search: _Search, done: _Progress) -> tuple[str, ...]:
    """Return a notice for each filter that matches nothing."""
    return await dependencies.published.call(
        lambda backends: filter_hints(
            search.filters,
            search.visible,
            backends,
            is_found=bool(done.count),
            scope=search.scope,
        )
    )


def _summary(
    search: _Search,
    done: _Progress,
    files: int,
    took_ms: float,
    covered: tuple[Coverage, ...],
    hints: tuple[str, ...],
) -> GrepSummary:
    return GrepSummary(
        files=done.files,
        count=done.count,
        read_files=done.read,
        complete=done.stopped_at is None,
        notices=(*_notices(search, done, files, covered), *hints),
        took_ms=took_ms,
        coverage=covered,
    )


def _notices(
    search: _Search, done: _Progress, files: int, covered: Iterable[Coverage]
) -> Iterator[str]:
    if search.written:
        read = shown_filters(search.written)
        yield f"{read} was read as filters; ask for a literal to find it as text"
    yield from search.notices
    if done.stopped_at:
        repository, path = done.stopped_at
        yield (
            f"stopped in {repository} {path} at the limit of {counted(search.limit, 'line')}; "
            f"{counted(files - done.read, 'file')} that may match were not read"
        )
    if search.pattern.needed == NOTHING:
        yield (
            "every file inside the filters was read, because the pattern has no three characters "
            "in a row that every match contains"
        )
    for one in covered:
        if not one.is_complete and one.repository in search.named:
            yield f"{one.repository} is not completely indexed yet"


def _parts(files: Iterable[MatchingFile]) -> Iterator[tuple[MatchingFile, ...]]:
    """Yield the files in parts; the file that reaches LINES_PER_PART ends a part."""
    part: list[MatchingFile] = []
    count = 0
    for file in files:
        part.append(file)
        count += len(file.lines)
        if count >= LINES_PER_PART:
            yield tuple(part)
            part, count = [], 0
    if part:
        yield tuple(part)


def _batches(places: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the places in batches; all but the first have the same size."""
    first, size = BATCHES
    yield places[:first]
    for start in range(first, len(places), size):
        yield places[start : start + size]


def _admits_parts(filters: Filters) -> bool:
    """Return whether the filters may admit only a part of a file."""
    return bool(filters.kinds or filters.symbols or filters.block_types)


def _admitted(chunks: Sequence[Chunk], filters: Filters) -> Callable[[int], bool] | None:
    """Return a predicate that tells whether a line is in an admitted chunk; None if all are."""
    if not _admits_parts(filters):
        return None
    ranges = [
        range(chunk.start_line, chunk.end_line + 1)
        for chunk in chunks
        if globs.is_inside(chunk, filters)
    ]
    return lambda number: any(number in one for one in ranges)
