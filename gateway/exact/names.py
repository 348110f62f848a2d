"""Read a glob over names, and derive which files may define a match and which definitions match.

A name that is given in parts, as in `Client.get` or `std::sort`, is compared with the end of the
qualified name. The index knows the last part of the names that a chunk defines, so only that part
is looked up; if it is only a wildcard, files must contain the text of the other parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from codelode import globs, grams
from codelode.grams import NOTHING, Grams
from codelode.model import Symbol
from codelode.name_resolution import dotted, is_named

_WILDCARDS = re.compile(r"[*?]+")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A name or a glob over names, and what a file must contain to define a match."""

    text: str
    last: str  # the part after the last dot
    matches: Callable[[Symbol], bool]
    defines: tuple[str, ...]  # globs over names; empty: see `needed`
    needed: Grams

    @property
    def is_wild(self) -> bool:
        """Return whether any file may define a match."""
        return not self.defines and self.needed == NOTHING


def name_pattern(text: str, *, is_literal: bool) -> NamePattern:
    """Read the pattern; with `is_literal`, it is a name without wildcards."""
    text = dotted(text)
    _, dot, last = text.rpartition(".")
    literals = [text] if is_literal else _WILDCARDS.split(text)
    defines = (last,) if last.strip("*?") else ()
    needed = NOTHING if defines else grams.all_of(map(grams.of_text, ".".join(literals).split(".")))
    matches = _named(text) if is_literal else _matching(text, is_qualified=bool(dot))
    return NamePattern(text, last, matches, defines, needed)


def _named(text: str) -> Callable[[Symbol], bool]:
    return lambda symbol: symbol.name == text or is_named(symbol.qualified_name, text)


def _matching(text: str, *, is_qualified: bool) -> Callable[[Symbol], bool]:
    whole = globs.matches_a_name(text)
    if not is_qualified:
        return lambda symbol: whole(symbol.name)
    end = globs.matches_a_name(f"*.{text}")
    return lambda symbol: whole(symbol.qualified_name) or end(symbol.qualified_name)
