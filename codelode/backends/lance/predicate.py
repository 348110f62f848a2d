"""Filters as a predicate of the store, in its SQL dialect.

Everything a caller wrote passes through `quoted`. Literals use the scalar indexes; a glob is
narrowed by its literal prefix before its expression runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from codelode.backends import globs
from codelode.model import Filters


def predicate(filters: Filters) -> str:
    """The condition that rows inside the filters meet; each field narrows, values in it widen."""
    conditions = [
        contains("refs", filters.ref),
        among("repository", filters.repositories),
        among("language", filters.languages),
        among("kind", filters.kinds),
        among("category", filters.categories),
        _any_of(map(_path, filters.paths)),
        _any_of(map(_symbol, filters.symbols)),
    ]
    return " AND ".join(filter(None, conditions))


def among(column: str, values: Iterable[str]) -> str:
    """The column has one of the values; "" when there are none to choose from."""
    quoted_values = ", ".join(map(quoted, values))
    return f"{column} IN ({quoted_values})" if quoted_values else ""


def contains(column: str, value: str) -> str:
    """The list column has the value."""
    return f"array_has({column}, {quoted(value)})"


def quoted(text: str) -> str:
    """The text as an SQL literal; backslashes have no meaning in these."""
    safe = str(text).encode("utf-8", "replace").decode("utf-8")
    return "'" + safe.replace("'", "''") + "'"


def _path(glob: str) -> str:
    if globs.is_literal(glob):
        return f"path = {quoted(glob)}"
    matches = f"regexp_like(path, {quoted(f'(?s)^(?:{globs.path_expression(glob)})$')})"
    prefix = globs.literal_prefix(glob)
    return f"(starts_with(path, {quoted(prefix)}) AND {matches})" if prefix else matches


def _symbol(glob: str) -> str:
    matches = f"regexp_like(names, {quoted(f'(?m)^(?:{globs.name_expression(glob)})$')})"
    return f"(names <> '' AND {matches})"


def _any_of(conditions: Iterable[str]) -> str:
    joined = " OR ".join(conditions)
    return f"({joined})" if joined else ""
