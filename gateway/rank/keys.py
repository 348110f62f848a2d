"""Recognise code that declares or reads a key: a flag, an option, a variable, a short message.

The text around the key decides, whatever the language: `{"history-limit", NUMBER}` declares it,
`options.get("history-limit")` reads it, and `# see history-limit` only mentions it. Pure.
"""

from __future__ import annotations

import re

#: The worth of a text that declares, reads, or assigns a key. Chosen by hand: other values change
#: the first hit of at most one in 60 queries.
DECLARED, READ, ASSIGNED = 1.0, 0.7, 0.5

#: Maximum number of places of a text that are examined.
MAX_PLACES = 12

_QUOTES = frozenset("\"'`")

#: Characters after a key at the beginning of a text in quotes: `json:"size,omitempty"`, `--size=N`,
#: `"syntax error: %s"`.
_ENDS = frozenset(",=[:")

#: Matches the text of a line before a key if the line begins with the key or gives it a name.
_LINE_START = re.compile(
    r"\s*+(?:[{(\[|*-]\s*+)?(?:(?:case|when)\s++|[.@:]?\w++\s*+(?::|=>?)\s*+)?"
)

#: Matches an assignment or a type after a key at the beginning of a line. `=` without a space
#: passes an argument.
_ASSIGNMENT = re.compile(r"\??:(?!:)| {1,40}=(?![=>])")

#: Number of characters before a variable in which the name of a function for the environment may
#: be, as in `getenv("HOME")`.
_NEAR = 24


def use(key: str, text: str) -> float:
    """Return DECLARED, READ, or ASSIGNED if the text uses the key in this way; otherwise 0.

    The name of a flag is also a use of it, which is worth less: `retry-delay` of `--retry-delay`.
    """
    name = key.lstrip("-")
    best, at = 0.0, text.find(name)
    for _ in range(MAX_PLACES):
        if at < 0 or best == DECLARED:
            break
        best = max(best, _use_at(text, at, at + len(name), key))
        at = text.find(name, at + 1)
    return best


def _use_at(text: str, start: int, end: int, key: str) -> float:
    after, name = text[end : end + 1], start
    while text[start - 1 : start] == "-":
        start -= 1
    line = text[text.rfind("\n", 0, start) + 1 : start]
    mark, line = line[-1:], line[:-1]
    if mark in _QUOTES and (after in _QUOTES or after in _ENDS or (start < name and after == " ")):
        return _quoted(line, key, has_dashes=start < name)
    if after.isalnum() or after in ("_", "-"):
        return 0.0
    if mark == ":" and line[-1:] in ("", " ", "(", "[", ","):
        return DECLARED if _LINE_START.fullmatch(line) else READ
    if f"{line}{mark}".endswith(("env.", "${", "$")):
        return READ
    is_first = not f"{line}{mark}".strip()
    return ASSIGNED if is_first and _ASSIGNMENT.match(text, end) else 0.0


def _quoted(line: str, key: str, *, has_dashes: bool) -> float:
    """Return the worth of a key in quotes after this part of its line."""
    is_declared = _LINE_START.fullmatch(line) is not None
    if key.startswith("-"):
        return DECLARED if has_dashes else READ if is_declared else ASSIGNED
    is_variable = key.isupper() and "env" in line[-_NEAR:].lower()
    return DECLARED if is_declared or is_variable else READ
