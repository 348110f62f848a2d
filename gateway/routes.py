"""Recognise the declaration of a URL path: `/users/123` is served by `"/users/{id}"`. Pure.

Frameworks write parameters as `{id}`, `:id`, `<int:id>`, or `[id]`, and the rest of a path as
`*rest`. A route may be declared in parts, such as `"/users"` for a group and `"/{id}"` within it,
and its beginning elsewhere, such as `/api/v1`. It stands in quotes, after a word such as
`resources` or `@Controller`, or at the beginning of a line, as in comments and in OpenAPI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

#: Minimum share of a path that a chunk must declare to count. Chosen by hand.
ENOUGH = 0.5

#: What these count relative to an equal part of the path: a parameter; the part of a route for
#: another method; that of a route which the code only uses, as a link does. Chosen by hand.
PARAMETER = 0.9
OTHER_METHOD = 0.8
USED = 0.5

#: What a part before the first declared one counts in the length of a path, because another file
#: may declare it. Chosen by hand.
PREFIX = 0.5

#: Maximum number of routes of a text that are compared, for each way to write them.
MAX_ROUTES = 200

_METHODS = "get|post|put|patch|delete|head|options"

#: Matches a route in quotes, with or without the method: `"GET /users/{id}"`, `r"^users/(\d+)/$"`,
#: `${prefix}/users`.
_QUOTED = re.compile(
    r"""["'`](?:[A-Z]{3,7} )?\^?(?:\$\{[^"'`\s{}]{1,60}\}|%s)?"""
    r"""(?P<route>(?:/|[a-z:{<][\w:>}-]{0,60}/)[^"'`\s]{0,200})["'`]"""
)

#: Matches a part of a route after a word that declares it: `@Controller('users')`, `post :publish`.
#: Such a word after a dot is a call of something else: `names.get("users")`.
_DECLARED = re.compile(
    r"""(?<![.\w])@?(?P<word>resources?|apiResources?|namespace|scope|prefix|controller|path|route
        |(?:request|get|post|put|patch|delete)mapping|get|post|put|patch|delete|match)
        \s{0,4}\(?\s{0,4}(?:(?:value|path)\s?=\s?)?(?:["']|:(?=[a-z]))(?P<route>[\w-]{1,60})\b""",
    re.IGNORECASE | re.VERBOSE,
)

#: Matches a route at the beginning of a line, perhaps in a comment: `// @Router /users/{id} [get]`,
#: `/users/{id}:`, `GET /users/:id`, `path: /users`, `location /users {`.
_LINE = re.compile(
    rf"""^[^\S\n]*+(?:(?:\*|\#|//+)[^\S\n]++)?(?:(?:@\w+|(?:-[ ])?path:|location)[^\S\n]++)?
        (?:\{{?(?:{_METHODS})\}}?[^\S\n]++)?(?P<route>/[\w:{{<~][^\s"'`]{{0,200}})""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)

#: Matches what is written before a route that the code only uses.
_USE = re.compile(
    r"redirect|href|fetch|link_to|axios|client|curl|visit|action=|\bnavigate"
    rf"|\b(?:requests?|https?)\.(?:{_METHODS})\b",
    re.IGNORECASE,
)
#: Matches a method beside a route: `GET`, `.post(`, `@PutMapping`, `[delete]`.
_METHOD = re.compile(rf"(?<![a-z])(?:{_METHODS})(?=mapping\b|(?![a-z_]))", re.IGNORECASE)

#: Matches where a part has a parameter: `:id`, `{id}.json`, `v<int:version>`.
_PARAMETER = re.compile(r"[:{<\[$(*]")
#: Matches the beginning of an optional end of a route: `/users(/:id)`, `/tags(.:format)`.
_OPTIONAL = re.compile(r"\((?=[/.])")

#: Matches a part of a path that may be written in a route; others are probably values.
_WORD = re.compile(r"[A-Za-z]\w*+(?:[.-][A-Za-z]\w*+)*+")


@dataclass(frozen=True, slots=True)
class _Route:
    """A route, or a part of one, and how much it counts."""

    parts: tuple[str, ...]
    is_anywhere: bool  # otherwise, it is the end of a path
    worth: float


def declared(path: Sequence[str], text: str, *, method: str = "") -> float:
    """Return the share of the path that the routes of the text declare; 0 if it is below ENOUGH.

    `method`: that of the request, if known.
    """
    if not any(part in text for part in path):
        return 0.0
    covered = [0.0] * len(path)
    by_parameters = list(covered)
    for route in _routes(text, method):
        for start in _starts(path, route):
            values = list(map(_value, route.parts, path[start:]))
            into = covered if 1.0 in values else by_parameters
            for at, value in enumerate(values, start):
                into[at] = max(into[at], route.worth * value)
    if not any(covered):
        return 0.0
    counted = list(map(max, covered, by_parameters))
    before = next(at for at, value in enumerate(counted) if value)
    share = sum(counted) / (PREFIX * before + len(path) - before)
    return share if share >= ENOUGH else 0.0


def words(path: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a path that a route may have as they are: not numbers and the like."""
    return tuple(part for part in path if _WORD.fullmatch(part))


def _routes(text: str, method: str) -> Iterator[_Route]:
    """Yield the routes of the text in all forms."""
    for found in islice(_QUOTED.finditer(text), MAX_ROUTES):
        yield from _written(found["route"], _worth(text, found, method))
    for found in islice(_LINE.finditer(text), MAX_ROUTES):
        yield from _written(found["route"].rstrip(":,"), _worth(text, found, method))
    for found in islice(_DECLARED.finditer(text), MAX_ROUTES):
        worth, name = _worth(text, found, method), found["route"]
        yield _Route((name,), is_anywhere=True, worth=worth)
        if "resource" in found["word"].lower():
            for rest in ((":id",), ("new",), (":id", "edit")):
                yield _Route((name, *rest), is_anywhere=True, worth=worth)


def _written(route: str, worth: float) -> Iterator[_Route]:
    """Yield the route without its optional end, and with it."""
    ways = {route}
    if _OPTIONAL.search(route):
        ways = {_OPTIONAL.split(route)[0], _OPTIONAL.sub("", route).replace(")", "")}
    for way in sorted(ways):
        parts = tuple(filter(None, way.replace("[^/]", "").removesuffix("$").split("/")))
        yield _Route(parts, is_anywhere=way.startswith("/"), worth=worth)


def _worth(text: str, found: re.Match[str], method: str) -> float:
    """Return how much a route counts, by the rest of its line or of its call."""
    begin = found.start("route")
    start, end = text.rfind("\n", 0, begin) + 1, text.find("\n", found.end())
    if not text[start:begin].strip(" \t\"'`"):  # an argument on a line of its own
        start = text.rfind("\n", 0, max(start - 1, 0)) + 1
    line = text[start : end if end >= 0 else len(text)]
    worth = USED if _USE.search(line[: begin - start]) or "${" in found["route"] else 1.0
    methods = {one.lower() for one in _METHOD.findall(line)} if method else ()
    return worth * OTHER_METHOD if methods and method.lower() not in methods else worth


def _starts(path: Sequence[str], route: _Route) -> Iterator[int]:
    """Yield where the parts of the route match the path."""
    last = len(path) - len(route.parts)
    if not route.parts or last < 0:
        return
    for start in range(last + 1) if route.is_anywhere else (last,):
        if all(map(_value, route.parts, path[start:])):
            yield start


def _value(part: str, given: str) -> float:
    if part == given:
        return 1.0
    found = _PARAMETER.search(part)
    return PARAMETER if found and given.startswith(part[: found.start()]) else 0.0
