"""Test whether a text has everything that a query requires, and nothing that it excludes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codelode import grams
from codelode.grams import Grams
from codelode.query_language import WrittenPart, WrittenText
from gateway.exact.pattern import Pattern, Wanted, compiled


@dataclass(frozen=True, slots=True)
class Test:
    """A pattern, or clauses of alternative tests; may be negated."""

    pattern: Pattern | None
    clauses: tuple[tuple[Test, ...], ...] = ()
    is_negated: bool = False

    @property
    def needed(self) -> Grams:
        """Return the trigrams that a file must have for one of its chunks to pass."""
        if self.is_negated:
            return grams.NOTHING
        return self.pattern.needed if self.pattern else _needed(self.clauses)

    def passes(self, raw: bytes) -> bool:
        """Return whether a text passes the test."""
        is_found = _is_in(self.pattern, raw) if self.pattern else _all(self.clauses, raw)
        return is_found != self.is_negated


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts and expressions that a chunk must have, and others that it must not have."""

    key: str  # differs for different texts
    wanted: tuple[tuple[Test, ...], ...]  # of each clause, one must pass
    excluding: tuple[Test, ...]  # negated

    @property
    def needed(self) -> Grams:
        """Return the trigrams that a file must have for one of its chunks to have the texts."""
        return _needed(self.wanted)

    @property
    def is_excluding(self) -> bool:
        """Return whether the query only excludes texts."""
        return not self.wanted

    def holds(self, text: str) -> bool:
        """Return whether the text has everything that is required."""
        return _all(self.wanted, text.encode("utf-8", "replace"))

    def admits(self, text: str) -> bool:
        """Return whether the text has nothing that is excluded."""
        raw = text.encode("utf-8", "replace")
        return all(one.passes(raw) for one in self.excluding)


def texts(written: Sequence[WrittenPart]) -> Texts:
    """Compile the texts that are written in a query. Raises InvalidQuery."""
    wanted = [one for one in written if not one.is_exclusion]
    excluding = [_test(one) for one in written if one.is_exclusion]
    return Texts(repr([_key(one) for one in written]), _clauses(wanted), tuple(excluding))


def _clauses(parts: Iterable[WrittenPart]) -> tuple[tuple[Test, ...], ...]:
    clauses: list[list[Test]] = []
    for one in parts:
        if one.is_alternative:
            clauses[-1].append(_test(one))
        else:
            clauses.append([_test(one)])
    return tuple(map(tuple, clauses))


def _test(one: WrittenPart) -> Test:
    if isinstance(one, WrittenText):
        return Test(pattern_of(one), is_negated=one.is_exclusion)
    return Test(None, _clauses(one.parts), is_negated=one.is_exclusion)


def _key(one: WrittenPart) -> tuple[object, ...]:
    how = (one.is_exclusion, one.is_alternative)
    if isinstance(one, WrittenText):
        return (one.value, one.is_expression, *how)
    return (*map(_key, one.parts), *how)


def _needed(clauses: Iterable[Iterable[Test]]) -> Grams:
    return grams.all_of(grams.any_of(one.needed for one in clause) for clause in clauses)


def _all(clauses: Iterable[Iterable[Test]], raw: bytes) -> bool:
    return all(any(one.passes(raw) for one in clause) for clause in clauses)


def pattern_of(one: WrittenText) -> Pattern:
    """Compile a text or an expression; one with a capital matches case. Raises InvalidQuery."""
    is_lower = one.value == one.value.lower()
    is_literal = not one.is_expression
    return compiled(Wanted(one.value, is_literal, ignores_case=is_lower, is_in_query=True))


def _is_in(pattern: Pattern, raw: bytes) -> bool:
    return next(pattern.spans(raw), None) is not None
