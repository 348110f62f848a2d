"""Recognise the intent of a query and the names in it, by form alone. Pure.

The first row that matches decides, so the rows are ordered from the surest sign to the vaguest. The
intent is shown to the caller and changes no ranking: a wrong guess must not cost a hit.
"""

from __future__ import annotations

import re

from gateway.state import Entity, EntityKind, Intent, QueryKind

_SIGNS: tuple[tuple[Intent, re.Pattern[str]], ...] = tuple(
    (intent, re.compile(expression, re.IGNORECASE))
    for intent, expression in (
        (
            Intent.FIND_USAGE,
            r"\b(?:usages?|callers?|references?)\b|\b(?:used|called|invoked|referenced)\b"
            r"|\bwho (?:uses|calls)\b|\b(?:uses|calls) of\b|\bexamples? of using\b",
        ),
        (
            Intent.FIND_SIMILAR,
            r"\b(?:similar|alike|like this|same as|copies of|duplicates? of)\b",
        ),
        (
            Intent.FIND_DEFINITION,
            r"\b(?:defin(?:e|es|ed|ition|itions)|declar(?:e|es|ed|ation)|implemented)\b"
            r"|^\s*(?:class|struct|enum|interface|trait|def|func|function|fn|type)\s+\S+\s*$",
        ),
        (
            Intent.UNDERSTAND_MODULE,
            r"\b(?:how (?:do|does|is|are)|explain|overview|architecture|understand|purpose of"
            r"|what (?:do|does|is|are))\b|\bmodule\b.{0,40}\b(?:work|do)",
        ),
    )
)

#: Matches a path, which has a folder or a known file suffix: `src/http.py`, not `Client.get`.
_PATH = re.compile(
    r"(?<![\w.@+-])(?:(?:[\w.@+-]+/)+[\w.@+-]*\w|[\w-]+\.(?:py|pyi|js|jsx|ts|tsx|go|rs|java|kt|rb|php|c|h|cc|cpp"
    r"|hpp|cs|swift|scala|sh|sql|md|rst|toml|ya?ml|json|xml|html|css|tf|lua|ex|proto|mod)\b)"
)
_NAMES: tuple[tuple[EntityKind, re.Pattern[str]], ...] = (
    (EntityKind.SNAKE_CASE, re.compile(r"\b_*[a-zA-Z][a-zA-Z0-9]*(?:_+[a-zA-Z0-9]+)+\b")),
    (EntityKind.PASCAL_CASE, re.compile(r"\b(?:[A-Z]+[a-z0-9]+){2,}[A-Z]*\b|\b[A-Z]{2,}[a-z]\w+")),
    (EntityKind.CAMEL_CASE, re.compile(r"\b[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+\b")),
)

#: Maximum number of characters that are read, and of names that are returned, which bounds the work
#: for pasted snippets. Chosen by hand.
MAX_CHARS = 1_000
MAX_ENTITIES = 20


def intent(text: str, kind: QueryKind) -> Intent:
    """Return the intent: `"where is retry defined"` → find_definition."""
    if kind is QueryKind.CODE:
        return Intent.FIND_SIMILAR
    read = text[:MAX_CHARS]
    found = next((intent for intent, sign in _SIGNS if sign.search(read)), None)
    if found is None and kind is QueryKind.IDENTIFIER:
        return Intent.FIND_DEFINITION
    return found or Intent.GENERAL


def entities(text: str) -> tuple[Entity, ...]:
    """Return the distinct paths and names of the query, in order and as written."""
    read = text[:MAX_CHARS]
    paths = _PATH.finditer(read)
    found = [(match.start(), Entity(EntityKind.PATH, match.group())) for match in paths]
    rest = _PATH.sub(lambda match: " " * len(match.group()), read)
    for kind, expression in _NAMES:
        found += [
            (match.start(), Entity(kind, match.group())) for match in expression.finditer(rest)
        ]
    ordered = [entity for _, entity in sorted(found, key=lambda pair: pair[0])]
    return tuple(dict.fromkeys(ordered))[:MAX_ENTITIES]
