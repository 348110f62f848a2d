"""Test whether a text has what a query wants to stand in it, and nothing that it excludes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codelode import grams
from codelode.grams import Grams
from codelode.query_language import WrittenText
from gateway.exact.pattern import Pattern, Wanted, compiled


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts and expressions that a chunk must have, and others that it must not have."""

    key: str  # by which two of them are told apart
    wanted: tuple[tuple[Pattern, ...], ...]  # of each group one
    excluded: tuple[Pattern, ...]

    @property
    def needed(self) -> Grams:
        """Return the trigrams of a file that may have a chunk with what is wanted."""
        groups = (grams.any_of(one.needed for one in group) for group in self.wanted)
        return grams.all_of(groups)

    @property
    def is_excluding(self) -> bool:
        """Return whether nothing is wanted."""
        return not self.wanted

    def holds(self, text: str) -> bool:
        """Return whether the text has what is wanted."""
        raw = text.encode("utf-8", "replace")
        return all(any(_is_in(one, raw) for one in group) for group in self.wanted)

    def admits(self, text: str) -> bool:
        """Return whether the text has nothing that is excluded."""
        raw = text.encode("utf-8", "replace")
        return not any(_is_in(one, raw) for one in self.excluded)


def texts(written: Iterable[WrittenText]) -> Texts:
    """Compile what is written in a query. Raises InvalidQuery."""
    wanted: list[list[Pattern]] = []
    excluded: list[Pattern] = []
    key = []
    for one in written:
        pattern = pattern_of(one)
        key.append((one.value, one.is_expression, one.is_exclusion, one.is_alternative))
        if one.is_exclusion:
            excluded.append(pattern)
        elif one.is_alternative:
            wanted[-1].append(pattern)
        else:
            wanted.append([pattern])
    return Texts(repr(key), tuple(map(tuple, wanted)), tuple(excluded))


def pattern_of(one: WrittenText) -> Pattern:
    """Compile a text or an expression; case matters if it has a capital. Raises InvalidQuery."""
    is_lower = one.value == one.value.lower()
    return compiled(Wanted(one.value, is_literal=not one.is_expression, ignores_case=is_lower))


def _is_in(pattern: Pattern, raw: bytes) -> bool:
    return next(pattern.spans(raw), None) is not None
