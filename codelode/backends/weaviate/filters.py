"""Filters as conditions of the server, and the exact test of what it found.

Globs reach the server as conditions that admit at least what they match: equality on the folders a
path is in, its base name, extension and depth, and the server's LIKE where nothing narrower is
known. LIKE has one `*`, which crosses `/`; so what comes back is matched again here, and a search
that lost hits to this asks for more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn

from codelode.backends import globs
from codelode.backends.weaviate.codec import basename, names, text, visible
from codelode.model import Chunk, FileKey, Filters, RefName, RepositoryName

#: A base name pattern that asks for an extension only.
_ANY_WITH_EXTENSION = re.compile(r"\*\.([^*?.]+)")


def condition(filters: Filters) -> FilterReturn | None:
    """A condition that every chunk inside the filters meets; None: no chunk can be inside."""
    if not (_can_match(filters.paths) and _can_match(filters.symbols)):
        return None
    conditions = [
        holds("refs", filters.ref),
        *(among(name, values) for name, values in _fields(filters).items() if values),
        _any_of([_path(glob) for glob in filters.paths if glob]),
        _any_of([_symbol(glob) for glob in filters.symbols if glob]),
    ]
    return Filter.all_of([one for one in conditions if one is not None])


def in_files(places: Sequence[FileKey], ref: RefName) -> FilterReturn:
    """What the chunks of the files at the ref have in common; there must be one file."""
    paths: dict[RepositoryName, list[str]] = {}
    for repository, path in places:
        paths.setdefault(repository, []).append(visible(text(path)))
    files = [
        holds("repository", repository) & Filter.by_property("path").contains_any(held)
        for repository, held in paths.items()
    ]
    return holds("refs", ref) & Filter.any_of(files)


def among(name: str, values: Iterable[str]) -> FilterReturn:
    """The property has one of the values, of which there must be one."""
    return Filter.by_property(name).contains_any([text(str(value)) for value in values])


def holds(name: str, value: str) -> FilterReturn:
    """The property is the value, or the list has it."""
    return Filter.by_property(name).equal(text(value))


def has_globs(filters: Filters) -> bool:
    """Whether something that meets the condition may be outside of the filters."""
    return bool(filters.paths or filters.symbols)


def admission(filters: Filters) -> Callable[[Chunk], bool]:
    """Whether a chunk that meets the condition is inside the globs as well."""
    paths = _expression(filters.paths, globs.path_expression)
    symbols = _expression(filters.symbols, globs.name_expression)

    def admits(chunk: Chunk) -> bool:
        return (paths is None or paths.fullmatch(chunk.path) is not None) and (
            symbols is None or any(map(symbols.fullmatch, names(chunk)))
        )

    return admits


def _fields(filters: Filters) -> dict[str, tuple[str, ...]]:
    return {
        "repository": filters.repositories,
        "language": filters.languages,
        "kind": filters.kinds,
        "category": filters.categories,
        "block_type": filters.block_types,
    }


def _can_match(wanted: Sequence[str]) -> bool:
    """The empty glob matches nothing, and the server does not take an empty text."""
    return not wanted or any(wanted)


def _expression(wanted: Sequence[str], translate: Callable[[str], str]) -> re.Pattern[str] | None:
    if not wanted:
        return None
    return re.compile("|".join(f"(?:{translate(text(glob))})" for glob in wanted), re.DOTALL)


def _path(glob: str) -> FilterReturn | None:
    """What the paths that match have in common; None: nothing that the server knows."""
    if globs.is_literal(glob):
        return _equal("path", glob)
    folder = globs.literal_prefix(glob).rpartition("/")[0]
    last = basename(glob)
    conditions = [_equal("folders", folder)] if folder else []
    if "**" not in last:
        conditions += _last_part(last)
    if "**" not in glob:
        conditions.append(Filter.by_property("depth").equal(glob.count("/")))
    if not _is_covered(glob, folder=folder, last=last):
        conditions.append(_like("path", re.sub(r"\*\*/|\*+", "*", glob)))
    return Filter.all_of(conditions) if conditions else None


def _last_part(last: str) -> list[FilterReturn]:
    if globs.is_literal(last):
        return [_equal("basename", last)]
    if found := _ANY_WITH_EXTENSION.fullmatch(last):
        return [_equal("extension", found.group(1))]
    return [] if last == "*" else [_like("basename", last)]


def _is_covered(glob: str, *, folder: str, last: str) -> bool:
    """Whether folder, depth and last part say all that the glob does."""
    between = glob.removeprefix(folder).removesuffix(last).strip("/")
    return between in ("", "**") and (last == "**" or "**" not in last)


def _symbol(glob: str) -> FilterReturn:
    if globs.is_literal(glob):
        return _equal("names", glob)
    return _like("names", re.sub(r"\*+", "*", glob))


def _equal(name: str, value: str) -> FilterReturn:
    return Filter.by_property(name).equal(visible(text(value)))


def _like(name: str, pattern: str) -> FilterReturn:
    return Filter.by_property(name).like(visible(text(pattern)))


def _any_of(conditions: Sequence[FilterReturn | None]) -> FilterReturn | None:
    """One of them; None, no condition at all, when there is none or one admits everything."""
    known = [one for one in conditions if one is not None]
    return Filter.any_of(known) if known and len(known) == len(conditions) else None
