"""Apply the filters and texts that are written in a query (`codelode.query_language`).

A glob over names of repositories narrows the visibility of the search. It is not replaced by the
matching names, because there may be thousands, and because a new one must not change the page
tokens or the cache keys of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from codelode import languages, repository_globs
from codelode.access import Visibility
from codelode.errors import InvalidQuery
from codelode.globs import is_literal
from codelode.model import Filters, Kind, RefName, RepositoryName
from codelode.query_language import (
    PREFIXES,
    QueryParts,
    Written,
    WrittenFilter,
    WrittenPart,
    by_group,
    parts_of,
)
from codelode.scopes import Scope
from gateway.exact.texts import Texts, pattern_of, texts
from gateway.service import queries
from gateway.service.audit import involve
from gateway.service.catalog import VisibleCatalog, unknown
from gateway.service.queries import Narrowed
from gateway.service.requests import GivenFilters
from gateway.service.scopes import FoundScope, VisibleScopes, limited, outside
from gateway.state import Narrowing

#: For each field, the field that a filter with a leading `-` sets instead.
_EXCLUDING = {
    "repositories": "not_repositories",
    "languages": "not_languages",
    "paths": "not_paths",
}
_EXCLUDABLE = "`repo:`, `lang:`, `path:`, and `file:`"

#: The fields with exact values, so that two lists of alternatives can be intersected.
_EXACT = ("languages", "kinds")
#: The fields that are checked without reading the catalog.
_STATIC = (*_EXACT, "paths", "symbols", "not_languages", "not_paths")

#: Minimum number of other words in a query that may be a message, in which a filter with an unknown
#: name is text: `pull access denied for repo:latest`. In a shorter query, such a name is an error.
MESSAGE_WORDS = 3

#: Longest part of a query in a notice or an error, characters.
_MAX_SHOWN = 200

_AS_TEXT = {
    "query": "in quotes it is searched as text",
    "pattern": "as a literal it is searched as text",
}

#: The written filters, by the field of Filters that they set.
_ByField = Mapping[str, Sequence[WrittenFilter]]


def recognised(
    text: str, parts: QueryParts, scopes: VisibleScopes, given: Sequence[str] = ()
) -> QueryParts:
    """Return the parts of a query; in a message, a filter with an unknown name is text.

    Its whole group is then text, because the group would mean something else without it. A
    repository that is not visible is unknown. All named repositories are added to the audit record.
    `given`: the repositories of the request, in which a ref is looked up too.
    """
    involve(_named(parts.filters))
    if len(parts.words.split()) < MESSAGE_WORDS:
        return parts
    catalog = scopes.catalog
    existing = catalog.existing([*_names(parts.filters), *map(RepositoryName, given)])
    refs = {one.value for one in parts.filters if one.field == "ref"}
    # A search has one ref. If there are several, they remain filters and cause an error later.
    is_foreign = len(refs) == 1 and catalog.is_unlike_refs(refs.pop(), sorted(existing))
    known: list[WrittenFilter] = []
    for group in by_group(parts.filters):
        if all(_is_known(one, existing, scopes, is_foreign=is_foreign) for one in group):
            known += group
    return parts if len(known) == len(parts.filters) else parts_of(text, known)


def notices(written: Sequence[WrittenFilter], read: Sequence[WrittenFilter]) -> Iterator[str]:
    """Yield notices that tell which filters of a query were read as filters and which as text."""
    if read:
        yield f"{shown_filters(read)} was read as filters; {_AS_TEXT['query']}"
    known = set(read)
    if left := [one for one in written if one not in known]:
        yield (
            f"{shown_filters(left)} was searched as text, because it names a repository, language, "
            "kind, ref, or scope that does not exist"
        )


def shown_filters(written: Sequence[WrittenFilter]) -> str:
    """Return the filters as a text for a notice; in an excluded group, each has a `-`."""
    signed = ("-" * one.is_exclusion + one.text.removeprefix("-") for one in written)
    return repr(" ".join(signed)[:_MAX_SHOWN])


def compiled_texts(written: Sequence[WrittenPart]) -> Texts | None:
    """Return the test of the written texts; None if there are none. Raises InvalidQuery."""
    for one in chain.from_iterable(part.leaves for part in written):
        try:
            pattern_of(one)
        except InvalidQuery as exc:
            raise _wrong(one, exc.message) from exc
    return texts(written) if written else None


@dataclass(frozen=True, slots=True)
class FilterReader:
    """Reads the filters of a request, and those that are written in its query or pattern."""

    scopes: VisibleScopes
    field: Literal["query", "pattern"] = "query"

    @property
    def catalog(self) -> VisibleCatalog:
        return self.scopes.catalog

    def narrowed(self, given: GivenFilters, written: Sequence[WrittenFilter] = ()) -> Narrowed:
        """Return the filters of the request combined with those of its query. Raises InvalidQuery.

        Values of one field are alternatives, so if both have globs of a field, these cannot be
        combined. The repositories that the query names are added to the audit record.
        """
        if given.is_empty and not written:
            return Narrowed(queries.NO_FILTERS, self.catalog.visible)
        filters = queries.filters(given, self.catalog)
        involve(_named(written))
        by_field = self._by_field(written)
        self._check_sizes(filters, by_field)
        self._check_names(by_field)
        found = self._scope(given.scope, by_field["scope"])
        scope = found.scope if found else None
        visible, narrowing = self._bound(by_field, found)
        changed: dict[str, Any] = {
            name: self._merged(name, by_field[name], filters) for name in _STATIC
        }
        changed["not_repositories"] = (
            *filters.not_repositories,
            *_names(by_field["not_repositories"]),
        )
        changed["repositories"] = self._repositories(filters, by_field, visible, scope)
        catalog = replace(self.catalog, visible=visible)
        changed["ref"] = self._ref(filters.ref, by_field, catalog, changed["repositories"])
        filters = replace(filters, **changed)
        told: tuple[str, ...] = ()
        if found is not None:
            has_ref = bool(given.ref or by_field["ref"])
            try:
                filters, told = limited(filters, found, catalog, has_ref=has_ref)
            except InvalidQuery as exc:
                if by_field["ref"] and exc.field == "filters.ref":
                    raise self._wrong(
                        by_field["ref"][0], f"is not a filter: {exc.message}"
                    ) from exc
                raise
        return Narrowed(filters, visible, narrowing, told)

    def _scope(self, given: str, written: Sequence[WrittenFilter]) -> FoundScope | None:
        """Return the scope of the request or of its query. Raises InvalidQuery for two scopes."""
        first = given or (written[0].value if written else "")
        for one in written:
            if one.value != first:
                raise self._wrong(
                    one, "is a second scope; a search has one: declare one that has both"
                )
        try:
            return self.scopes.get(first) if first else None
        except InvalidQuery as exc:
            if given:
                raise
            raise self._wrong(written[0], f"is not a filter: {exc.message}") from exc

    def _by_field(self, written: Sequence[WrittenFilter]) -> _ByField:
        by_field: dict[str, list[WrittenFilter]] = {
            name: [] for name in (*PREFIXES.values(), *_EXCLUDING.values())
        }
        for one in written:
            if one.is_mixed:
                raise self._wrong(
                    one,
                    "is in a group with something else than filters of the same prefix, but the "
                    "filters of a search must all hold: search once for each alternative",
                )
            if one.is_exclusion and one.field not in _EXCLUDING:
                raise self._wrong(one, f"excludes what cannot be excluded: only {_EXCLUDABLE} can")
            if one.value.startswith("!"):
                raise self._wrong(
                    one, "is not a filter: write `-` before the word to leave out what it matches"
                )
            by_field[_EXCLUDING[one.field] if one.is_exclusion else one.field].append(one)
        return by_field

    def _check_sizes(self, filters: Filters, by_field: _ByField) -> None:
        """Raise InvalidQuery if a field has too many values or a value that is too long.

        The request's exclusions are counted with those of the query.
        """
        values: dict[str, Any] = {
            name: tuple(map(_value, written))
            for name, written in by_field.items()
            if name not in ("ref", "scope")
        }
        for name in _EXCLUDING.values():
            values[name] = (*getattr(filters, name), *values.get(name, ()))
        given = GivenFilters(**values)
        queries.check_sizes(given)
        queries.check_globs(given)

    def _check_names(self, by_field: _ByField) -> None:
        """Raise InvalidQuery for an unknown repository."""
        written = (*by_field["repositories"], *by_field["not_repositories"])
        existing = self.catalog.existing(_names(written))
        for one in written:
            if is_literal(one.value) and one.value not in existing:
                told = unknown("repository", one.value, self.catalog.names())
                raise self._wrong(one, f"is not a filter: {told}")

    def _bound(
        self, by_field: _ByField, found: FoundScope | None
    ) -> tuple[Visibility, Narrowing | None]:
        """Return the visible repositories within the globs and the scope, and the narrowing."""
        wanted, unwanted = by_field["repositories"], _globs(by_field["not_repositories"])
        if not _globs(wanted):
            wanted = ()
        scope, visible = found.scope if found else None, self.catalog.visible
        if not wanted and not unwanted and scope is None:
            return visible, None
        globs, excluded = (tuple(dict.fromkeys(map(_value, part))) for part in (wanted, unwanted))
        narrowing = Narrowing(visible, globs, excluded, scope)
        names: Collection[RepositoryName] = found.repositories if found else ()
        if wanted or unwanted:
            matched = self._matched(wanted, unwanted)
            names = set(matched).intersection(names) if scope else matched
        elif scope and not scope.repositories:
            return visible, narrowing  # the scope has all of them, including new ones
        if scope and wanted and not names:
            raise self._wrong(wanted[0], f"matches no repository of the scope {scope.name!r}")
        return visible.only(names), narrowing

    def _matched(
        self, wanted: Sequence[WrittenFilter], unwanted: Sequence[WrittenFilter]
    ) -> list[RepositoryName]:
        for one in _globs((*wanted, *unwanted)):
            if problem := repository_globs.problem([one.value]):
                raise self._wrong(one, problem)
        for part in (wanted, unwanted):
            if problem := repository_globs.problem(list(map(_value, _globs(part)))):
                raise self._wrong(part[-1], f"is one filter too many: the query {problem}")
        names = self.catalog.names()
        for one in _globs(wanted):
            if not any(map(_matcher([one]), names)):
                raise self._wrong(one, _unmatched(one.value, names))
        is_wanted, is_unwanted = _matcher(wanted), _matcher(unwanted)
        return [name for name in names if (not wanted or is_wanted(name)) and not is_unwanted(name)]

    def _repositories(
        self, filters: Filters, by_field: _ByField, visible: Visibility, scope: Scope | None
    ) -> tuple[RepositoryName, ...]:
        """Return the names that request, query, and scope all admit; globs are in `visible`."""
        written = by_field["repositories"]
        names = [] if _globs(written) else _names(written)
        found = named = filters.repositories or tuple(names)
        if names:
            found = tuple(name for name in found if name in names)
        found = tuple(name for name in found if name in visible)
        if named and not found:
            if written:
                raise self._outside(written[0], scope)
            assert scope is not None  # without one, the names of the request are visible
            raise outside("filters.repositories", scope)
        return found

    def _ref(
        self,
        given: RefName,
        by_field: _ByField,
        catalog: VisibleCatalog,
        repositories: Sequence[RepositoryName],
    ) -> RefName:
        default = made = Filters().ref
        for one in {one.value: one for one in by_field["ref"]}.values():
            try:
                found = catalog.ref(one.value, repositories)
            except InvalidQuery as exc:
                raise self._wrong(one, f"is not a filter: {exc.message}") from exc
            if made not in (default, found) or given not in (default, found):
                raise self._wrong(one, "is a second ref; a search has one")
            made = found
        return made if by_field["ref"] else given

    def _merged(
        self, name: str, written: Sequence[WrittenFilter], filters: Filters
    ) -> tuple[str, ...]:
        """Return the values of a field that both the request and the query admit."""
        values = tuple(dict.fromkeys(chain(*(self._resolved(name, one) for one in written))))
        given = getattr(filters, name)
        if name in _EXCLUDING.values():
            return (*given, *values)
        if not given or not written:
            return values or given
        if name not in _EXACT:
            raise self._wrong(
                written[0], "is given as a filter of the request as well; leave one of them out"
            )
        found = tuple(one for one in values if one in given)
        if not found:
            raise self._outside(written[0])
        return found

    def _resolved(self, name: str, one: WrittenFilter) -> tuple[str, ...]:
        value = f"**/{one.value}" if one.prefix == "file" and "/" not in one.value else one.value
        given: dict[str, Any] = {name: (value,)}
        try:
            found: tuple[str, ...] = getattr(
                queries.filters(GivenFilters(**given), self.catalog), name
            )
        except InvalidQuery as exc:
            raise self._wrong(one, f"is not a filter: {exc.message}") from exc
        return found

    def _outside(self, one: WrittenFilter, scope: Scope | None = None) -> InvalidQuery:
        or_scope = f" or of the scope {scope.name!r}" if scope else ""
        return self._wrong(one, f"is outside of the filter {one.field} of the request{or_scope}")

    def _wrong(self, one: WrittenFilter, why: str) -> InvalidQuery:
        return _wrong(one, why, self.field)


def _wrong(one: Written, why: str, field: Literal["query", "pattern"] = "query") -> InvalidQuery:
    """Return an error that names the wrong part of the query and its position."""
    text = one.text[:100]
    return InvalidQuery(field, f"{text!r} at character {one.at} {why}; {_AS_TEXT[field]}")


def _value(one: WrittenFilter) -> str:
    return one.value


def _named(written: Sequence[WrittenFilter]) -> Iterator[str]:
    return (one.value for one in written if one.field == "repositories" and not one.is_exclusion)


def _names(written: Sequence[WrittenFilter]) -> list[RepositoryName]:
    """Return the names of repositories, without globs."""
    values = (one.value for one in written if one.field == "repositories")
    return [RepositoryName(value) for value in dict.fromkeys(values) if is_literal(value)]


def _globs(written: Sequence[WrittenFilter]) -> list[WrittenFilter]:
    return [one for one in written if not is_literal(one.value)]


def _matcher(written: Sequence[WrittenFilter]) -> Callable[[str], bool]:
    return repository_globs.matcher(tuple(map(_value, written)))


def _unmatched(glob: str, names: Collection[RepositoryName]) -> str:
    """Return a message for a glob that matches none of the visible names."""
    wider = glob.replace("**", "*").replace("*", "**")
    if wider != glob and any(map(repository_globs.matcher((wider,)), names)):
        return f"matches no repository, because '*' stops at '/'; {wider!r} matches some"
    return "matches no repository (`codelode repos` lists them)"


def _is_known(
    one: WrittenFilter,
    existing: frozenset[RepositoryName],
    scopes: VisibleScopes,
    *,
    is_foreign: bool,
) -> bool:
    """Return whether the value of the filter exists. `is_foreign`: its ref is unlike known refs."""
    match one.field:
        case "scope":
            return scopes.find(one.value) is not None
        case "ref":
            return not is_foreign
        case "repositories":
            return not is_literal(one.value) or one.value in existing
        case "languages":
            return languages.resolve(one.value) is not None
        case "kinds":
            return one.value.lower() in set(Kind)
    return True
