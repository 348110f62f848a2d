"""Check search requests; an InvalidQuery names the invalid field and the remedy.

All limits of searches are defined here. Names are checked against what is visible, because a
misspelt filter would otherwise silently find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from codelode import languages
from codelode.access import Visibility
from codelode.counts import counted
from codelode.errors import InvalidQuery
from codelode.globs import path_problem, signed
from codelode.model import Category, Filters, Kind, RefName, RepositoryName
from gateway.service import options
from gateway.service.catalog import VisibleCatalog, unknown
from gateway.service.requests import GivenFilters, SearchRequest, SimilarRequest
from gateway.state import Narrowing, SearchQuery

MAX_QUERY_CHARS = 8_192
MAX_TOP_K = 200
DEFAULT_TOP_K = 10
#: Default for a context: more than for a search, because hits that exceed the budget are dropped.
CONTEXT_TOP_K = 20
#: Longest value of a filter, characters.
MAX_VALUE_CHARS = 1_024
#: Maximum number of alternatives in one filter field; more are a mistake or an attack.
MAX_ALTERNATIVES = 1_000
#: Maximum number of globs in a filter field, and of their characters together: each glob is
#: compiled, and compared with every path or name of the index.
MAX_GLOBS = 100
MAX_GLOBS_CHARS = 16_384

#: Maximum number of files that are read if neither pattern nor name narrows them: about 20 MB.
MAX_UNNARROWED = 2_000

Closed = TypeVar("Closed", bound=StrEnum)


class Narrowed(NamedTuple):
    """The filters of a request, and the visibility and notices that follow from them."""

    filters: Filters
    visible: Visibility
    narrowing: Narrowing | None = None  # how `visible` was narrowed; None: it was not
    notices: tuple[str, ...] = ()


class SourceLocation(NamedTuple):
    """A line of an indexed file."""

    repository: RepositoryName
    path: str
    line: int
    ref: RefName


def check_narrowed(field: str, files: int, why: str, *, remedy: str) -> None:
    """Raise InvalidQuery if a request that does not narrow its files would read too many.

    `why` says what it lacks, before "all … files", and `remedy` what to add, before "such as".
    """
    if files > MAX_UNNARROWED:
        raise InvalidQuery(
            field,
            f"{why} all {counted(files, 'file')} inside the filters would have to be read, and at "
            f"most {MAX_UNNARROWED:,} are: add {remedy} such as a repository or a path",
        )


def search_query(
    request: SearchRequest, narrowed: Narrowed, *, for_context: bool = False
) -> SearchQuery:
    """Return the checked query for the first page of the search. Raises InvalidQuery."""
    default = CONTEXT_TOP_K if for_context else DEFAULT_TOP_K
    return SearchQuery(
        text=query_text(request.query),
        top_k=bounded("top_k", request.top_k, default=default, most=MAX_TOP_K),
        filters=narrowed.filters,
        options=options.chosen(request.options, for_context=for_context),
        visible=narrowed.visible,
        narrowing=narrowed.narrowing,
    )


def similar_query(request: SimilarRequest, narrowed: Narrowed) -> SearchQuery:
    """Return the checked query of a search for similar code; see also `similar_location`."""
    return SearchQuery(
        text=request.snippet,
        top_k=bounded("top_k", request.top_k, default=DEFAULT_TOP_K, most=MAX_TOP_K),
        filters=narrowed.filters,
        visible=narrowed.visible,
        narrowing=narrowed.narrowing,
    )


def similar_location(request: SimilarRequest, catalog: VisibleCatalog) -> SourceLocation | None:
    """Return the line whose similar code is wanted, or None for a snippet. Raises InvalidQuery."""
    if request.snippet:
        if request.path:
            raise InvalidQuery("snippet", "is given together with a path; give only one of them")
        query_text(request.snippet, field="snippet")
        return None
    if not request.path:
        raise InvalidQuery("path", "is empty, and there is no snippet; give one of them")
    if request.line < 1:
        raise InvalidQuery("line", f"is {request.line}; lines begin at 1")
    repository = catalog.known_or_only(request.repository)
    ref = catalog.ref(request.ref, [repository])
    return SourceLocation(repository, request.path, request.line, ref)


def subject(text: str) -> str:
    """Return the requested path or name, stripped."""
    return query_text(text, field="subject").removeprefix("./")


#: What to give for an empty text, by its field.
_REMEDIES = {
    "query": "say in words or code what to look for",
    "snippet": "give the code to find more of, or a path and a line",
    "subject": "give the path of a file, or the name of a symbol",
    "name": "give the name of a definition, such as retry or Client.get",
}


def query_text(text: str, *, field: str = "query") -> str:
    """Return the query, stripped. Raises InvalidQuery if it is empty or too long."""
    if not text.strip():
        raise InvalidQuery(field, f"is empty; {_REMEDIES[field]}")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidQuery(
            field, f"has {len(text):,} characters; at most {MAX_QUERY_CHARS:,} are allowed"
        )
    return text.strip()


def bounded(field: str, value: int | None, *, default: int, most: int) -> int:
    """Return the number, or the default for None. Raises InvalidQuery if it is out of bounds."""
    if value is None:
        return default
    if not 1 <= value <= most:
        raise InvalidQuery(field, f"is {value:,}; it must be 1 to {most:,}")
    return value


def filters(given: GivenFilters, catalog: VisibleCatalog) -> Filters:
    """Return the filters, with names resolved to those of the index.

    The scope is applied by `query_filters`, because it limits what is visible.
    """
    if given.is_empty:
        return NO_FILTERS
    check_sizes(given)
    given = _with_exclusions(given)
    check_sizes(given)
    check_globs(given)
    repositories = catalog.known(given.repositories)
    return Filters(
        repositories=repositories,
        languages=_languages("filters.languages", given.languages),
        paths=_paths("filters.paths", given.paths),
        kinds=_members("filters.kinds", given.kinds, Kind),
        symbols=_globs("filters.symbols", given.symbols),
        categories=_members("filters.categories", given.categories, Category),
        block_types=_globs("filters.block_types", given.block_types),
        ref=catalog.ref(given.ref, repositories, field="filters.ref"),
        not_repositories=catalog.known(given.not_repositories, field="filters.not_repositories"),
        not_languages=_languages("filters.not_languages", given.not_languages),
        not_paths=_paths("filters.not_paths", given.not_paths),
    )


NO_FILTERS = Filters()


def check_sizes(given: GivenFilters) -> None:
    """Raise InvalidQuery if a field has too many values or a value that is too long."""
    for field in fields(given):
        if field.name not in ("ref", "scope"):
            check_size(f"filters.{field.name}", getattr(given, field.name))


def check_globs(given: GivenFilters) -> None:
    """Raise InvalidQuery if a field has too many globs, or too many characters in them."""
    for name in ("paths", "not_paths", "symbols", "block_types"):
        _check_globs(f"filters.{name}", getattr(given, name))


def _with_exclusions(given: GivenFilters) -> GivenFilters:
    """Return the filters with the values that begin with `!` moved to the fields for exclusions."""
    repositories, not_repositories = _signed("filters.repositories", given.repositories)
    languages, not_languages = _signed("filters.languages", given.languages)
    paths, not_paths = _signed("filters.paths", given.paths)
    return replace(
        given,
        repositories=repositories,
        languages=languages,
        paths=paths,
        not_repositories=(*given.not_repositories, *not_repositories),
        not_languages=(*given.not_languages, *not_languages),
        not_paths=(*given.not_paths, *not_paths),
    )


def _signed(field: str, values: Sequence[str]) -> tuple[list[str], list[str]]:
    if "!" in values:
        raise InvalidQuery(field, "'!' leaves out nothing; write after it what to leave out")
    return signed(values)


def _languages(field: str, names: Iterable[str]) -> tuple[str, ...]:
    resolved = []
    for name in names:
        language = languages.resolve(name)
        if language is None:
            raise InvalidQuery(field, unknown("language", name, list(languages.names())))
        resolved.append(language)
    return tuple(dict.fromkeys(resolved))


def _members(field: str, names: Iterable[str], members: type[Closed]) -> tuple[Closed, ...]:
    """Return the enum members with these names, in upper or lower case."""
    known = [member.value for member in members]
    found = []
    for name in names:
        if name.lower() not in known:
            what = members.__name__.lower()
            raise InvalidQuery(field, f"{name!r} is not a {what}; use one of: {', '.join(known)}")
        found.append(members(name.lower()))
    return tuple(dict.fromkeys(found))


def _globs(field: str, patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_glob(field, pattern) for pattern in patterns))


def _check_globs(field: str, patterns: Sequence[str]) -> None:
    chars = sum(map(len, patterns))
    if len(patterns) > MAX_GLOBS or chars > MAX_GLOBS_CHARS:
        raise InvalidQuery(
            field,
            f"has {counted(len(patterns), 'glob')} of {chars:,} characters; at most {MAX_GLOBS:,} "
            f"of {MAX_GLOBS_CHARS:,} together are allowed: use wildcards, or several searches",
        )


def _glob(field: str, pattern: str) -> str:
    if not pattern.strip():
        raise InvalidQuery(
            field, "contains an empty glob; leave the filter out to allow all paths and names"
        )
    if not pattern.isprintable():
        raise InvalidQuery(field, f"{pattern!r} contains control characters")
    return pattern


def _paths(field: str, patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(_path(field, glob) for glob in _globs(field, patterns))


def _path(field: str, glob: str) -> str:
    """Return the glob. Raises InvalidQuery if no path can match it."""
    if problem := path_problem(glob):
        raise InvalidQuery(field, problem)
    return glob


def check_size(field: str, values: Sequence[str]) -> None:
    """Raise InvalidQuery if there are too many values or one that is too long."""
    if len(values) > MAX_ALTERNATIVES:
        raise InvalidQuery(
            field,
            f"has {len(values):,} values; at most {MAX_ALTERNATIVES:,} are allowed: use several "
            "searches",
        )
    longest = max(map(len, values), default=0)
    if longest > MAX_VALUE_CHARS:
        raise InvalidQuery(
            field,
            f"has a value of {longest:,} characters; at most {MAX_VALUE_CHARS:,} are allowed",
        )
