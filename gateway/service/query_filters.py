"""Apply the filters and texts that are written in a query (`codelode.query_language`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from codelode import repository_globs
from codelode.errors import InvalidQuery
from codelode.globs import is_literal
from codelode.model import Filters, RepositoryName
from codelode.query_language import PREFIXES, WrittenFilter, WrittenText
from gateway.exact.texts import Texts, pattern_of, texts
from gateway.service import queries
from gateway.service.audit import involve
from gateway.service.catalog import VisibleCatalog
from gateway.service.requests import GivenFilters

#: The field of what a `-` before the word leaves out.
_EXCLUDING = {
    "repositories": "not_repositories",
    "languages": "not_languages",
    "paths": "not_paths",
}
_EXCLUDABLE = "`repo:`, `lang:`, `path:`, and `file:`"

#: The fields whose values are exact, so that two lists of alternatives have values in common.
_EXACT = ("repositories", "languages", "kinds")


def narrowed(
    filters: Filters, written: Sequence[WrittenFilter], catalog: VisibleCatalog
) -> Filters:
    """Return the filters of the request with those of its query. Raises InvalidQuery.

    Values of one field are alternatives, so globs of both places cannot be put together. The
    repositories that the query names are added to the audit record first, as those of the request.
    """
    made = Filters()
    involve(_named(written))
    for one in written:
        found = _checked(one, catalog)
        name = _EXCLUDING[one.field] if one.is_exclusion else one.field
        value = getattr(found, name)
        if name == "ref":
            if made.ref not in (Filters().ref, value) or filters.ref not in (Filters().ref, value):
                raise _wrong(one, "is a second ref; a search has one")
        elif not one.is_exclusion and (given := getattr(filters, name)):
            value = _common(one, given, value)
        if name != "ref":
            value = tuple(dict.fromkeys((*getattr(made, name), *value)))
        changed: dict[str, Any] = {name: value}
        made = replace(made, **changed)
    return _merged(filters, made)


def _named(written: Sequence[WrittenFilter]) -> Iterator[str]:
    return (one.value for one in written if one.field == "repositories" and not one.is_exclusion)


def compiled_texts(written: Sequence[WrittenText]) -> Texts | None:
    """Return the test of what is written; None: there is nothing. Raises InvalidQuery."""
    for one in written:
        try:
            pattern_of(one)
        except InvalidQuery as exc:
            raise _wrong(one, exc.message) from exc
    return texts(written) if written else None


def _common(one: WrittenFilter, given: tuple[str, ...], value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values that the request and the query both admit."""
    if one.field not in _EXACT:
        raise _wrong(one, "is given as a filter of the request as well; leave one of them out")
    found = tuple(each for each in value if each in given)
    if not found:
        raise _wrong(one, f"is outside of the filter {one.field} of the request")
    return found


def _wrong(one: WrittenFilter | WrittenText, why: str) -> InvalidQuery:
    """Return the error that says where in the query what is wrong."""
    text = one.text[:100]
    return InvalidQuery(
        "query", f"{text!r} at character {one.at} {why}; in quotes it is searched as text"
    )


def _checked(one: WrittenFilter, catalog: VisibleCatalog) -> Filters:
    """Return the filters that have this one alone."""
    if one.is_exclusion and one.field not in _EXCLUDING:
        raise _wrong(one, f"excludes what cannot be excluded: only {_EXCLUDABLE} can")
    if one.field == "repositories":
        names = _repositories(one, catalog)
        return Filters(not_repositories=names) if one.is_exclusion else Filters(repositories=names)
    if one.value.startswith("!"):
        raise _wrong(one, "is not a filter: write `-` before the word to leave out what it matches")
    name = _EXCLUDING[one.field] if one.is_exclusion else one.field
    value = f"**/{one.value}" if one.prefix == "file" and "/" not in one.value else one.value
    given: dict[str, Any] = {name: value if name == "ref" else (value,)}
    try:
        return queries.filters(GivenFilters(**given), catalog)
    except InvalidQuery as exc:
        raise _wrong(one, f"is not a filter: {exc.message}") from exc


def _repositories(one: WrittenFilter, catalog: VisibleCatalog) -> tuple[RepositoryName, ...]:
    """Return the visible repositories that a name or a glob means."""
    if is_literal(one.value):
        try:
            return catalog.known([one.value])
        except InvalidQuery as exc:
            raise _wrong(one, f"is not a filter: {exc.message}") from exc
    if problem := repository_globs.problem([one.value]):
        raise _wrong(one, problem)
    found = tuple(filter(repository_globs.matcher((one.value,)), catalog.names()))
    if not found and not one.is_exclusion:
        raise _wrong(one, "matches no repository (`codelode repos` lists them)")
    return found


def _merged(filters: Filters, written: Filters) -> Filters:
    """Return the filters of both; no field is in both, but for what is left out."""
    fields = {
        name: getattr(written, name)
        for name in (*PREFIXES.values(), *_EXCLUDING.values())
        if getattr(written, name) != getattr(Filters(), name)
    }
    for name in _EXCLUDING.values():
        fields[name] = (*getattr(filters, name), *getattr(written, name))
    return replace(filters, **fields)
