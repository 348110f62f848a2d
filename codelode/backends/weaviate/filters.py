"""Translate filters to conditions of the server, and match globs exactly on what comes back.

A glob becomes a condition that admits at least what the glob matches: equality on the ancestor
folders of a path, its base name, extension, and depth, and the server's LIKE where nothing narrower
is possible. In LIKE, `*` also matches `/`, so hits are matched again with the glob itself, and a
search that lost hits to this asks for more. An excluded glob becomes the negation of its condition
if that admits nothing but what the glob matches; the others are only applied to the hits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from weaviate.classes.query import Filter, FilterReturn

from codelode import globs
from codelode.backends.weaviate.codec import (
    FIRST,
    basename,
    gram_term,
    mark_whitespace,
    names,
    text,
)
from codelode.covers import Cover
from codelode.grams import NOTHING, AnyOf, Grams
from codelode.model import Chunk, FileKey, Filters, RefName, RepositoryName

#: A base name pattern that names an extension only.
_ANY_WITH_EXTENSION = re.compile(r"\*\.([^*?.]+)")

#: A glob for everything below the folders of one name, wherever they are.
_BELOW_ANY = re.compile(r"\*\*/([^*?]+)/\*\*")

#: Ends the folders of a glob whose last part may match only the end of a name: `x**/a` and `xa`.
_ENDS_PARTIAL = re.compile(r"[^/]\*\*/\Z")

#: Characters that the server stores or reads as others: marked white space, an escape character.
_AMBIGUOUS = re.compile(r"[\s\\␠]")


@lru_cache(maxsize=16)  # most searches use one of a few filters; some have thousands of globs
def condition(filters: Filters, cover: Cover | None = None) -> FilterReturn | None:
    """Return a condition that every chunk inside the filters meets; None: no chunk can match.

    `cover`: only chunks of the repositories that it admits meet the condition.
    """
    if not all(map(_can_match, (filters.paths, filters.within, filters.symbols))):
        return None
    conditions = [
        equals("refs", filters.ref),
        None if cover is None else _covered(cover),
        *(one_of(name, values) for name, values in _fields(filters).items() if values),
        _any_of([_path(glob) for glob in filters.paths if glob]),
        _any_of([_path(glob) for glob in filters.within if glob]),
        _any_of([_symbol(glob) for glob in filters.symbols if glob]),
        *(_none_of(name, values) for name, values in _excluded(filters).items() if values),
    ]
    for glob in filter(_is_exact, filters.not_paths):
        excluded = _path(glob)
        if excluded is None:
            return None
        conditions.append(Filter.not_(excluded))
    return Filter.all_of([one for one in conditions if one is not None])


def first_with(needed: Grams) -> FilterReturn:
    """Return the condition that the first chunks of the files with these trigrams meet."""
    is_first = Filter.by_property("grams").equal(FIRST)
    return is_first if needed == NOTHING else is_first & _with(needed)


def _with(needed: Grams) -> FilterReturn:
    """Return the condition for the trigrams; several that must all occur become one text."""
    if isinstance(needed, str):
        return Filter.by_property("grams").equal(gram_term(needed))
    if isinstance(needed, AnyOf):
        return Filter.any_of([_with(part) for part in needed.parts])
    terms = [gram_term(part) for part in needed.parts if isinstance(part, str)]
    conditions = [_with(part) for part in needed.parts if not isinstance(part, str)]
    if terms:
        conditions.append(Filter.by_property("grams").equal(" ".join(terms)))
    return Filter.all_of(conditions)


def in_files(files: Sequence[FileKey], ref: RefName) -> FilterReturn:
    """Return the condition that the chunks of these files (at least one) meet at the ref."""
    paths: dict[RepositoryName, list[str]] = {}
    for repository, path in files:
        paths.setdefault(repository, []).append(path)
    held = [in_paths(repository, some) for repository, some in paths.items()]
    return equals("refs", ref) & Filter.any_of(held)


def in_paths(repository: str, paths: Iterable[str]) -> FilterReturn:
    """Return the condition that the chunks of these files of a repository meet."""
    marked = [mark_whitespace(text(path)) for path in paths]
    return equals("repository", repository) & Filter.by_property("path").contains_any(marked)


def one_of(name: str, values: Iterable[str]) -> FilterReturn:
    """Return the condition that the property is one of the values, which must not be empty."""
    return Filter.by_property(name).contains_any([text(str(value)) for value in values])


def equals(name: str, value: str) -> FilterReturn:
    """Return the condition that the property is the value, or a list that contains it."""
    return Filter.by_property(name).equal(text(value))


def has_globs(filters: Filters) -> bool:
    """Return whether a chunk that meets the condition may be outside of the filters."""
    is_globbed = bool(filters.paths or filters.within or filters.symbols)
    return is_globbed or not all(map(_is_exact, filters.not_paths))


def glob_matcher(filters: Filters) -> Callable[[Chunk], bool]:
    """Return a predicate that tells whether a chunk that meets the condition matches the globs."""
    has_path = path_matcher(filters)
    symbols = [globs.matches_a_name(text(glob)) for glob in filters.symbols]

    def matches(chunk: Chunk) -> bool:
        lines = "\n".join(names(chunk)) if symbols else ""
        return has_path(chunk.path) and (not symbols or any(match(lines) for match in symbols))

    return matches


def path_matcher(filters: Filters) -> Callable[[str], bool]:
    """Return a predicate that tells whether a path matches the globs of paths."""
    wanted = [_any_matcher(some) for some in (filters.paths, filters.within) if some]
    excluded = _any_matcher(filters.not_paths)
    return lambda path: all(match(path) for match in wanted) and not excluded(path)


def _any_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    tests = [globs.matches_path(text(glob)) for glob in patterns]
    return lambda path: any(match(path) for match in tests)


def _covered(cover: Cover) -> FilterReturn:
    values = {"prefixes": cover.tokens, "repository": cover.names}
    covered = Filter.any_of([one_of(name, some) for name, some in values.items() if some])
    return covered & _none_of("repository", cover.but) if cover.but else covered


def _fields(filters: Filters) -> dict[str, tuple[str, ...]]:
    return {
        "repository": filters.repositories,
        "language": filters.languages,
        "kind": filters.kinds,
        "category": filters.categories,
        "block_type": filters.block_types,
    }


def _excluded(filters: Filters) -> dict[str, tuple[str, ...]]:
    return {"repository": filters.not_repositories, "language": filters.not_languages}


def _none_of(name: str, values: Iterable[str]) -> FilterReturn:
    return Filter.by_property(name).contains_none([text(value) for value in values])


def _can_match(patterns: Sequence[str]) -> bool:
    """Return whether a glob can match: an empty one cannot, nor does the server accept it."""
    return not patterns or any(patterns)


def _path(glob: str) -> FilterReturn | None:
    """Return a condition for all paths that match; None: the server cannot narrow them."""
    if globs.is_literal(glob):
        return _equal("path", glob)
    if below := _BELOW_ANY.fullmatch(glob):
        name = below.group(1)
        return Filter.any_of([_equal("folders", name), _like("folders", f"*/{name}")])
    folder, last = _folder_of(glob), basename(glob)
    conditions = [_equal("folders", folder)] if folder else []
    if "**" not in last and not _ENDS_PARTIAL.search(glob.removesuffix(last)):
        conditions += _last_part(last)
    if "**" not in glob:
        conditions.append(Filter.by_property("depth").equal(glob.count("/")))
    if not _is_covered(glob, folder=folder, last=last):
        conditions.append(_pattern(glob, last=last))
    return Filter.all_of(conditions) if conditions else None


def _pattern(glob: str, *, last: str) -> FilterReturn:
    """Return a condition on the folders of a path if possible, because there are fewer than paths.

    The server compares a pattern with every value that begins with its literal prefix. The other
    conditions are about the last part of the path, unless this has `**` and something else.
    """
    folder = glob.removesuffix(last).removesuffix("/")
    while folder.endswith("/**"):  # does not narrow the folders
        folder = folder.removesuffix("/**")
    about_folder = not folder.endswith("**") and (last == "**" or "**" not in last)
    name, value = ("folders", folder) if folder and about_folder else ("path", glob)
    return _like(name, re.sub(r"\*\*/|\*+", "*", value))


def _is_exact(glob: str) -> bool:
    """Return whether the condition of `_path` admits only paths that the glob matches."""
    if not glob or _AMBIGUOUS.search(glob):
        return False
    if globs.is_literal(glob) or _BELOW_ANY.fullmatch(glob):
        return True
    return _is_covered(glob, folder=_folder_of(glob), last=basename(glob))


def _folder_of(glob: str) -> str:
    """Return the folder that all matching paths are in: `src/**/*.py` → `src`."""
    return globs.literal_prefix(glob).rpartition("/")[0]


def _last_part(last: str) -> list[FilterReturn]:
    if globs.is_literal(last):
        return [_equal("basename", last)]
    if found := _ANY_WITH_EXTENSION.fullmatch(last):
        return [_equal("extension", found.group(1))]
    return [] if last == "*" else [_like("basename", last)]


def _is_covered(glob: str, *, folder: str, last: str) -> bool:
    """Return whether folder, depth, and last part express the whole glob."""
    between = glob.removeprefix(folder).removesuffix(last).strip("/")
    return between in ("", "**") and (last == "**" or "**" not in last)


def _symbol(glob: str) -> FilterReturn:
    if globs.is_literal(glob):
        return _equal("names", glob)
    return _like("names", re.sub(r"\*+", "*", glob))


def _equal(name: str, value: str) -> FilterReturn:
    return Filter.by_property(name).equal(mark_whitespace(text(value)))


def _like(name: str, pattern: str) -> FilterReturn:
    return Filter.by_property(name).like(mark_whitespace(text(pattern)))


def _any_of(conditions: Sequence[FilterReturn | None]) -> FilterReturn | None:
    """Return the disjunction; None (no condition) if there are none, or one admits everything."""
    known = [one for one in conditions if one is not None]
    return Filter.any_of(known) if known and len(known) == len(conditions) else None
