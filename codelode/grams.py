"""Trigrams: what the text of a file must have so that a pattern can match in it.

Exact search looks only into files that have the trigrams of its pattern. A trigram is three
characters in a row, with ASCII letters in lower case, so that one index serves searches that
respect case and those that do not. All other letters keep their case. Those two that RE2 takes for
ASCII letters when it ignores case are indexed as these.

Russ Cox, "Regular Expression Matching with a Trigram Index", 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

#: Characters of a trigram.
SIZE = 3

#: The letters beyond ASCII that match `s` and `k` when case is ignored: long s and Kelvin.
_ALIKE = str.maketrans("\u017f\u212a", "sk")


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part is needed; without parts nothing is."""

    parts: tuple[Grams, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the parts is needed."""

    parts: tuple[Grams, ...]


#: A trigram, or a combination of them.
Grams: TypeAlias = str | AllOf | AnyOf

#: The needs of a pattern that any text may match.
NOTHING = AllOf()


def folded(text: str) -> str:
    """Return the text with ASCII letters in lower case, and the two letters alike them."""
    if text.isascii():
        return text.lower()
    raw = text.translate(_ALIKE).encode("utf-8", "replace")
    return raw.lower().decode("utf-8")  # changes bytes of ASCII letters alone


def grams(text: str) -> frozenset[str]:
    """Return the trigrams of a text."""
    lower = folded(text)
    return frozenset(lower[at : at + SIZE] for at in range(len(lower) - SIZE + 1))


def of_text(text: str) -> Grams:
    """Return what is needed to contain the text."""
    return all_of(sorted(grams(text)))


def all_of(parts: Iterable[Grams]) -> Grams:
    """Return that all parts are needed, as simply as possible."""
    found: dict[Grams, None] = {}
    for part in parts:
        found.update(dict.fromkeys(part.parts if isinstance(part, AllOf) else (part,)))
    return next(iter(found)) if len(found) == 1 else AllOf(tuple(found))


def any_of(parts: Iterable[Grams]) -> Grams:
    """Return that one of the parts is needed, as simply as possible."""
    found = tuple(dict.fromkeys(parts))
    if NOTHING in found:
        return NOTHING
    return found[0] if len(found) == 1 else AnyOf(found)


def holds(needed: Grams, has: Callable[[str], bool]) -> bool:
    """Return whether a text that has these trigrams has what is needed."""
    if isinstance(needed, str):
        return has(needed)
    check = all if isinstance(needed, AllOf) else any
    return check(holds(part, has) for part in needed.parts)
