"""Trigrams, and conditions on those that a file must have so that a pattern can match in it.

Exact search looks only into files that have the trigrams of its pattern. A trigram is three
characters in a row, with ASCII letters in lower case, so that one index serves searches that
respect case and those that do not. Other letters keep their case, except the two that RE2 matches
with ASCII letters when it ignores case: these are indexed as the ASCII letters.

Russ Cox, "Regular Expression Matching with a Trigram Index", 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

#: Number of characters of a trigram.
SIZE = 3

#: The letters beyond ASCII that match `s` and `k` when case is ignored: long s and Kelvin sign.
_ALIKE = str.maketrans("\u017f\u212a", "sk")


@dataclass(frozen=True, slots=True)
class AllOf:
    """The condition that requires every part; without parts, every text meets it."""

    parts: tuple[Grams, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The condition that requires at least one of the parts."""

    parts: tuple[Grams, ...]


#: A condition on the trigrams of a text: one that is required, or a combination of conditions.
Grams: TypeAlias = str | AllOf | AnyOf

#: The condition of a pattern that may match in any text.
NOTHING = AllOf()


def folded(text: str) -> str:
    """Return the text with ASCII letters, and the two letters that match them, in lower case."""
    if text.isascii():
        return text.lower()
    raw = text.translate(_ALIKE).encode("utf-8", "replace")
    return raw.lower().decode("utf-8")  # changes only the bytes of ASCII letters


def grams(text: str) -> frozenset[str]:
    """Return the trigrams of a text."""
    lower = folded(text)
    return frozenset(lower[at : at + SIZE] for at in range(len(lower) - SIZE + 1))


def of_text(text: str) -> Grams:
    """Return the condition that every text which contains this one meets."""
    return all_of(sorted(grams(text)))


def all_of(parts: Iterable[Grams]) -> Grams:
    """Return the condition that requires all parts, simplified."""
    found: dict[Grams, None] = {}
    for part in parts:
        found.update(dict.fromkeys(part.parts if isinstance(part, AllOf) else (part,)))
    return next(iter(found)) if len(found) == 1 else AllOf(tuple(found))


def any_of(parts: Iterable[Grams]) -> Grams:
    """Return the condition that requires one of the parts, simplified."""
    found = tuple(dict.fromkeys(parts))
    if NOTHING in found:
        return NOTHING
    return found[0] if len(found) == 1 else AnyOf(found)


def holds(needed: Grams, has: Callable[[str], bool]) -> bool:
    """Return whether a text meets the condition; `has` tells whether it has a trigram."""
    if isinstance(needed, str):
        return has(needed)
    check = all if isinstance(needed, AllOf) else any
    return check(holds(part, has) for part in needed.parts)
