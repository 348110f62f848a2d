"""Proto requests → checked model values, or InvalidQuery that names field and remedy.

All limits of the API stand here. Names are checked against what exists, because a misspelt
filter that silently finds nothing is the worst answer a search can give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from codelode import languages, patterns
from codelode.access import EVERYTHING
from codelode.errors import InvalidQuery
from codelode.ledger import Catalog
from codelode.model import DEFAULT_REF, Category, Filters, Kind, RefName, RepositoryName
from codelode.v1 import index_pb2, search_pb2
from gateway.api import choose
from gateway.state import SearchQuery

MAX_QUERY_CHARS = 8_192
MAX_TOP_K = 200
DEFAULT_TOP_K = 10
#: Of a context, which leaves out what does not fit.
CONTEXT_TOP_K = 20
MAX_PAGE_SIZE = 1_000
DEFAULT_PAGE_SIZE = 200
MAX_GLOB_CHARS = 1_024
#: Alternatives in one filter field; beyond it a filter is a mistake or an attack.
MAX_ALTERNATIVES = 1_000

#: Patterns that choose the files of a repository, on each side; every file is compared with each.
MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 500

#: Names told of those there are.
_LISTED = 10
#: What `codelode status` lists.
_IN_STATUS = ("repository", "ref")

#: A bracket that no other closes, nor a wildcard can stand for what closes it.
_UNCLOSED = re.compile(r"\[[^\]*?]*\Z")

Closed = TypeVar("Closed", bound=StrEnum)


def search_query(
    request: search_pb2.SearchRequest, catalog: Catalog, *, for_context: bool = False
) -> SearchQuery:
    """The request as the pipeline takes it, at its first page."""
    default = CONTEXT_TOP_K if for_context else DEFAULT_TOP_K
    return SearchQuery(
        text=query_text(request.query),
        top_k=bounded("top_k", request.top_k, default=default, most=MAX_TOP_K),
        filters=filters(request.filters, catalog),
        options=choose.options(request.options, for_context=for_context),
        visible=EVERYTHING,
    )


def similar_query(request: search_pb2.SimilarRequest, catalog: Catalog) -> SearchQuery:
    """How many hits of what; the place or snippet is checked by `similar_place`."""
    return SearchQuery(
        text=request.snippet,
        top_k=bounded("top_k", request.top_k, default=DEFAULT_TOP_K, most=MAX_TOP_K),
        filters=filters(request.filters, catalog),
        visible=EVERYTHING,
    )


def similar_place(
    request: search_pb2.SimilarRequest, catalog: Catalog
) -> tuple[RepositoryName, str, int, RefName] | None:
    """Repository, path, line and ref; None for a snippet, which is checked as a query is."""
    if request.snippet:
        if request.path:
            raise InvalidQuery("snippet", "and a path are given; give one of them")
        query_text(request.snippet, field="snippet")
        return None
    if not request.path:
        raise InvalidQuery("path", "is empty, and there is no snippet; give one of them")
    if request.line < 1:
        raise InvalidQuery("line", f"is {request.line}; lines begin at 1")
    repository = named_repository(request.repository, catalog)
    return repository, request.path, request.line, known_ref(request.ref, [repository], catalog)


def subject(request: search_pb2.ExplainRequest) -> str:
    """The path or name to explain, stripped."""
    found = query_text(request.subject, field="subject")
    return found.removeprefix("./")


def named_repository(name: str, catalog: Catalog) -> RepositoryName:
    """The repository, which may be left out where there is only one."""
    if name:
        return known_repositories([name], catalog, field="repository")[0]
    known = catalog.repositories()
    if len(known) != 1:
        raise InvalidQuery("repository", "is empty; name one of them, as `codelode repos` does")
    return known[0].name


def query_text(text: str, *, field: str = "query") -> str:
    """The query, stripped."""
    if not text.strip():
        raise InvalidQuery(field, "is empty; say in words or code what to look for")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidQuery(
            field, f"has {len(text):,} characters; at most {MAX_QUERY_CHARS:,} are allowed"
        )
    return text.strip()


def page_size(value: int) -> int:
    return bounded("page_size", value, default=DEFAULT_PAGE_SIZE, most=MAX_PAGE_SIZE)


def filters(given: search_pb2.Filters, catalog: Catalog) -> Filters:
    """The filters with every name resolved to what the index calls it."""
    for field in (
        "repositories",
        "languages",
        "paths",
        "kinds",
        "symbols",
        "categories",
        "block_types",
    ):
        _check_count(f"filters.{field}", getattr(given, field))
    repositories = known_repositories(given.repositories, catalog)
    return Filters(
        repositories=repositories,
        languages=_languages(given.languages),
        paths=tuple(map(_path, _globs("filters.paths", given.paths))),
        kinds=_members("filters.kinds", given.kinds, Kind),
        symbols=_globs("filters.symbols", given.symbols),
        categories=_members("filters.categories", given.categories, Category),
        block_types=_globs("filters.block_types", given.block_types),
        ref=known_ref(given.ref, repositories, catalog, field="filters.ref"),
    )


def known_repositories(
    names: Iterable[str], catalog: Catalog, *, field: str = "filters.repositories"
) -> tuple[RepositoryName, ...]:
    """The names, each once; InvalidQuery names the unknown one and those like it."""
    distinct = tuple(dict.fromkeys(names))
    if not distinct:
        return ()
    known = [repository.name for repository in catalog.repositories()]
    for name in distinct:
        if name not in known:
            raise InvalidQuery(field, unknown("repository", name, known))
    return tuple(RepositoryName(name) for name in distinct)


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """`there is no ref 'mian'; did you mean 'main'? (`codelode status` lists all)`"""
    close = nearest(name, known)
    text = f"there is no {what} {name[:100]!r}"
    if not known:
        return f"{text}; none is indexed yet: `codelode index URL_OR_PATH` does it"
    if not close and len(known) <= _LISTED:
        return f"{text}; there are: {', '.join(known)}"
    where = " (`codelode status` lists all)" if what in _IN_STATUS else ""
    if close:
        return f"{text}; did you mean {' or '.join(map(repr, close))}?{where}"
    return f"{text}; there are: {', '.join(known[:_LISTED])}, …{where}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are most like it, at most three."""
    lower = {candidate.lower(): candidate for candidate in known}
    return [lower[match] for match in get_close_matches(name.lower(), lower, n=3)]


def known_ref(
    name: str, repositories: Sequence[RepositoryName], catalog: Catalog, *, field: str = "ref"
) -> RefName:
    """The ref when any of the repositories (all, when none is named) has it."""
    if name in ("", DEFAULT_REF):
        return DEFAULT_REF
    among = repositories or [repository.name for repository in catalog.repositories()]
    known = sorted({status.ref for repository in among for status in catalog.refs(repository)})
    if name not in known:
        raise InvalidQuery(field, unknown("ref", name, known))
    return RefName(name)


def included(request: index_pb2.StartRunRequest) -> tuple[str, ...] | None:
    """The patterns to include; None: those that are kept."""
    if not request.HasField("include"):
        return None
    for pattern in request.include.patterns:
        if pattern.startswith("!"):
            raise InvalidQuery(
                "include", f"{pattern[:100]!r} starts with '!'; exclude it, without the '!'"
            )
    return _patterns("include", request.include.patterns)


def excluded(request: index_pb2.StartRunRequest) -> tuple[str, ...] | None:
    """The patterns to exclude, in their order; None: those that are kept."""
    if not request.HasField("exclude"):
        return None
    return _patterns("exclude", request.exclude.patterns)


def _patterns(field: str, given: Sequence[str]) -> tuple[str, ...]:
    if len(given) > MAX_PATTERNS:
        raise InvalidQuery(
            field,
            f"has {len(given):,} patterns, at most {MAX_PATTERNS} are allowed; "
            "name folders, or commit a .codelodeignore",
        )
    return tuple(_file_pattern(field, pattern) for pattern in given)


def _file_pattern(field: str, pattern: str) -> str:
    if not pattern.strip():
        raise InvalidQuery(field, "holds an empty pattern; give no patterns at all to clear them")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InvalidQuery(
            field,
            f"holds a pattern of {len(pattern):,} characters, at most {MAX_PATTERN_CHARS} are "
            "allowed; match a part of the path with '*' or '**'",
        )
    if not pattern.isprintable():
        raise InvalidQuery(
            field, f"{pattern[:100]!r} holds control characters; give each pattern by itself"
        )
    if not patterns.can_match(pattern):
        raise InvalidQuery(
            field,
            f"{pattern[:100]!r} can match no path; write it as in a .gitignore, relative to the "
            r"repository's root ('src/', '*.min.js'; '\#' and '\[' for the characters themselves)",
        )
    return pattern


def _languages(names: Iterable[str]) -> tuple[str, ...]:
    resolved = []
    for name in names:
        language = languages.resolve(name)
        if language is None:
            raise InvalidQuery(
                "filters.languages", unknown("language", name, list(languages.names()))
            )
        resolved.append(language)
    return tuple(dict.fromkeys(resolved))


def _members(field: str, names: Iterable[str], members: type[Closed]) -> tuple[Closed, ...]:
    """The named members of a closed set; upper case is fine."""
    known = [member.value for member in members]
    found = []
    for name in names:
        if name.lower() not in known:
            what = members.__name__.lower()
            raise InvalidQuery(field, f"{name!r} is no {what}; there are: {', '.join(known)}")
        found.append(members(name.lower()))
    return tuple(dict.fromkeys(found))


def _globs(field: str, patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_glob(field, pattern) for pattern in patterns))


def _glob(field: str, pattern: str) -> str:
    if not pattern.strip():
        raise InvalidQuery(field, "holds an empty glob; leave the filter out to allow all")
    if len(pattern) > MAX_GLOB_CHARS:
        raise InvalidQuery(field, f"holds a glob of more than {MAX_GLOB_CHARS:,} characters")
    if not pattern.isprintable():
        raise InvalidQuery(field, f"{pattern!r} holds control characters")
    return pattern


def _path(glob: str) -> str:
    """The glob when there can be a path that it matches.

    `[` is an ordinary character in it: `pages/[id].tsx` is the file of that name.
    """
    field, shown, parts = "filters.paths", repr(glob[:100]), glob.split("/")
    if not parts[0]:
        raise InvalidQuery(
            field, f"{shown} starts with '/'; paths are relative to the repository's root"
        )
    if not parts[-1]:
        raise InvalidQuery(field, f"{shown} ends with '/'; write '{glob[:100]}**' for all inside")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise InvalidQuery(
            field,
            f"{shown} can match no path; write it relative to the repository's root: 'src/**/*.py'",
        )
    if _UNCLOSED.search(glob):
        raise InvalidQuery(
            field,
            f"{shown} has a '[' that nothing closes; it stands for itself, as in 'pages/[id].tsx', "
            "and '?' for one character of any kind",
        )
    return glob


def _check_count(field: str, values: Sequence[str]) -> None:
    if len(values) > MAX_ALTERNATIVES:
        raise InvalidQuery(
            field, f"has {len(values):,} values; at most {MAX_ALTERNATIVES:,} are allowed"
        )


def bounded(field: str, value: int, *, default: int, most: int) -> int:
    """The number, 0 being its default; InvalidQuery names what it must be."""
    if not 0 <= value <= most:
        raise InvalidQuery(field, f"is {value:,}; it must be 1 to {most:,}")
    return value or default
