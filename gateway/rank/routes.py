"""Recognise the declaration of a URL path: `/users/123` is served by `"/users/{id}"`. Pure.

Frameworks write parameters as `{id}`, `:id`, `<int:id>`, or `[id]`, and the rest of a path as
`*rest`. A route may be declared in parts, such as `"/users"` for a group and `"/{id}"` within it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: Minimum share of a path that a chunk must declare to count. Chosen by hand.
ENOUGH = 0.5

#: What a parameter counts, relative to an equal part of the path. Chosen by hand.
PARAMETER = 0.9

#: Maximum number of routes of a text that are compared.
MAX_ROUTES = 200

#: Matches a route in quotes, with or without the method: `"GET /users/{id}"`.
_ROUTE = re.compile(
    r"""["'`](?:[A-Z]{3,7} )?(?P<route>(?:/|[a-z][\w-]{0,60}/)[^"'`\s]{0,200})["'`]"""
)
_PARAMETER = re.compile(r"[:{<\[$(*].*")


def declared(path: Sequence[str], text: str) -> float:
    """Return the share of the path that the routes of the text declare; 0 if it is below ENOUGH."""
    if not any(part in text for part in path):
        return 0.0
    covered = [0.0] * len(path)
    by_parameters = list(covered)
    for route in _routes(text):
        parts = [part for part in route.split("/") if part]
        for start in _starts(path, parts, is_rooted=route.startswith("/")):
            values = [_value(part, given) for part, given in zip(parts, path[start:], strict=False)]
            into = covered if 1.0 in values else by_parameters
            for at, value in enumerate(values, start):
                into[at] = max(into[at], value)
    if not any(covered):
        return 0.0
    share = sum(map(max, covered, by_parameters)) / len(path)
    return share if share >= ENOUGH else 0.0


def _routes(text: str) -> Iterator[str]:
    for found, _ in zip(_ROUTE.finditer(text), range(MAX_ROUTES), strict=False):
        yield found["route"]


def _starts(path: Sequence[str], parts: Sequence[str], *, is_rooted: bool) -> Iterator[int]:
    """Yield where the parts match the path; without a slash before them, only its end."""
    last = len(path) - len(parts)
    if not parts or last < 0:
        return
    for start in range(last + 1) if is_rooted else (last,):
        if all(_value(part, given) for part, given in zip(parts, path[start:], strict=False)):
            yield start


def _value(part: str, given: str) -> float:
    if part == given:
        return 1.0
    return PARAMETER if _PARAMETER.match(part) else 0.0
