"""Globs over the names of repositories, as API keys, access rules, and scopes use them.

`*` stands for a part of a name without `/`, and `**` for anything: `payments/*` matches
`payments/api`, and `**` matches every name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from codelode.access import Bounds
from codelode.globs import is_literal, matches_path

#: Bounds of a list, because every glob is compared with every name.
MAX_GLOBS = 100
MAX_GLOB_CHARS = 200

_GLOB = re.compile(r"[A-Za-z0-9._/*?-]+")


def problem(globs: Sequence[str], *, of: str = "repositories") -> str:
    """Return what is wrong with a list of globs over names, with the remedy; empty: nothing.

    The text follows the name of the list: `repositories` `holds 'a b'; …`.
    """
    if len(globs) > MAX_GLOBS:
        return f"has {len(globs):,} globs, at most {MAX_GLOBS} are allowed; use '*' or '**'"
    for glob in globs:
        if len(glob) > MAX_GLOB_CHARS:
            return f"holds a glob of {len(glob):,} characters, at most {MAX_GLOB_CHARS} are allowed"
        if not _GLOB.fullmatch(glob):
            return (
                f"holds {glob!r}; write names of {of} with letters, digits, and . _ - /, "
                "where '*' stands for a part of a name and '**' for anything"
            )
        if "***" in glob:
            return f"holds {glob!r}; write '**' for anything"
    return ""


@lru_cache(maxsize=1024)
def matcher(globs: tuple[str, ...]) -> Callable[[str], bool]:
    """Return a predicate that tells whether one of the globs matches a whole name."""
    names = literals(globs)
    tests = [matches_path(glob) for glob in globs if not is_literal(glob)]
    return lambda name: name in names or any(test(name) for test in tests)


def literals(globs: Iterable[str]) -> frozenset[str]:
    """Return the globs that are names: those that match exactly one text."""
    return frozenset(filter(is_literal, globs))


class Within:
    """The names within bounds, including names of repositories that do not exist."""

    def __init__(self, bounds: Bounds) -> None:
        self._tests = tuple(map(matcher, bounds))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and all(test(name) for test in self._tests)
