"""Patterns that choose which files of a repository are indexed → checked, or an InvalidQuery."""

from __future__ import annotations

from collections.abc import Sequence

from codelode import patterns
from codelode.errors import InvalidQuery

#: Bounds of each list, because every file is compared with every pattern.
MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 500


def included(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """The patterns to include; None: the repository keeps those it has."""
    if given is None:
        return None
    for pattern in given:
        if pattern.startswith("!"):
            raise InvalidQuery(
                "include", f"{pattern[:100]!r} starts with '!'; exclude it, without the '!'"
            )
    return _patterns("include", given)


def excluded(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """The patterns to exclude, in their order; None: the repository keeps those it has."""
    return None if given is None else _patterns("exclude", given)


def _patterns(field: str, given: Sequence[str]) -> tuple[str, ...]:
    if len(given) > MAX_PATTERNS:
        raise InvalidQuery(
            field,
            f"has {len(given):,} patterns, at most {MAX_PATTERNS} are allowed; "
            "name folders, or commit a .codelodeignore",
        )
    return tuple(_file_pattern(field, pattern) for pattern in given)


def _file_pattern(field: str, pattern: str) -> str:
    if not pattern.strip():
        raise InvalidQuery(field, "holds an empty pattern; give no patterns at all to clear them")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InvalidQuery(
            field,
            f"holds a pattern of {len(pattern):,} characters, at most {MAX_PATTERN_CHARS} are "
            "allowed; match a part of the path with '*' or '**'",
        )
    if not pattern.isprintable():
        raise InvalidQuery(
            field, f"{pattern[:100]!r} holds control characters; give each pattern by itself"
        )
    if not patterns.can_match(pattern):
        raise InvalidQuery(
            field,
            f"{pattern[:100]!r} can match no path; write it as in a .gitignore, relative to the "
            r"repository's root ('src/', '*.min.js'; '\#' and '\[' for the characters themselves)",
        )
    return pattern
