"""Compile a pattern of exact search: a text or a regular expression of RE2.

RE2 takes time linear in the text for every expression (github.com/google/re2/wiki/Syntax), and
therefore has no backreferences and no look-around. Only the size of the compiled program must be
bounded, because a byte of text may take a step for each instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from codelode import grams
from codelode.errors import InvalidQuery
from codelode.grams import NOTHING, Grams
from gateway.exact import needs

#: Maximum number of characters of a pattern, and of instructions of its program. `\pL{15}` has
#: 18,000 instructions.
MAX_CHARS = 1_000
MAX_INSTRUCTIONS = 2_000

#: Maximum number of repetitions that RE2 allows (its `kMaxRepeat`).
MAX_REPETITIONS = 1_000

#: Memory for a program and the states of its automaton, bytes: RE2's own default.
MAX_BYTES = 8 << 20

#: Maximum number of cached patterns.
CACHED = 64

#: Characters with a special meaning in regular expressions.
_SIGNS = frozenset("\\.+*?()|[]{}^$")

#: Matches what may refer to the start or the end of the whole text: `\A`, `\z`, and flags such as
#: `(?-m)`, after which `^` and `$` no longer match at each line.
_OUTSIDE_LINE = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-")

#: The flag that makes `^` and `$` match at each line.
_EACH_LINE = "(?m)"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pattern to compile: by default a regular expression that matches within a line."""

    text: str
    is_literal: bool = False
    ignores_case: bool = False
    whole_words: bool = False
    multiline: bool = False  # a match may contain line breaks
    is_in_query: bool = False  # written in a search query, which has no option `literal`


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern, and the trigrams that a file must have to match it."""

    expression: Any  # the library has no types
    needed: Grams
    text: bytes  # the only text that the pattern matches, in UTF-8; empty: unknown
    is_of_line: bool  # whether a line matches does not depend on the lines around it

    @property
    def needed_in_line(self) -> Grams:
        """Return the trigrams that a line must have to match."""
        return self.needed if self.is_of_line else NOTHING

    def spans(self, raw: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the start and end, in bytes, of each match from `start` on; matches do not overlap.

        A literal is found without RE2, whose Python interface takes 5 µs for each match.
        """
        if self.text:
            return _occurrences(self.text, raw, start)
        return (found.span() for found in self.expression.finditer(raw, start))


@lru_cache(maxsize=CACHED)
def compiled(wanted: Wanted) -> Pattern:
    """Compile a pattern. Raises InvalidQuery."""
    _check(wanted)
    expression = re2.escape(wanted.text) if wanted.is_literal else wanted.text
    if wanted.whole_words:
        expression = rf"\b(?:{expression})\b"
    options = re2.Options()
    options.case_sensitive = not wanted.ignores_case
    options.never_nl = not wanted.multiline
    options.max_mem = MAX_BYTES
    options.log_errors = False
    try:
        made = re2.compile(f"{_EACH_LINE}{expression}", options)
    except re2.error as exc:
        raise InvalidQuery("pattern", "; ".join(_told(exc, wanted))) from exc
    if made.programsize > MAX_INSTRUCTIONS:
        raise InvalidQuery(
            "pattern",
            f"compiles to {made.programsize:,} instructions, at most {MAX_INSTRUCTIONS:,} are "
            "allowed; repeat less in it",
        )
    text = _only_text(wanted).encode()
    return Pattern(made, _needed(wanted), text, is_of_line=_is_of_line(wanted))


def check_length(text: str) -> None:
    """Raise InvalidQuery if a pattern is empty or too long."""
    if not text:
        raise InvalidQuery("pattern", "is empty; give a text or a regular expression")
    if len(text) > MAX_CHARS:
        raise InvalidQuery(
            "pattern", f"has {len(text):,} characters; at most {MAX_CHARS:,} are allowed"
        )


def _check(wanted: Wanted) -> None:
    check_length(wanted.text)
    if not wanted.multiline and "\n" in wanted.text:
        raise InvalidQuery(
            "pattern", "has a line break, and matches end with their line; allow `multiline`"
        )


def _needed(wanted: Wanted) -> Grams:
    if wanted.is_literal:
        return _of_literal(wanted)
    return needs.of_expression(wanted.text, ignores_case=wanted.ignores_case)


def _of_literal(wanted: Wanted) -> Grams:
    """Return the trigrams of a text; if case is ignored, only those of its ASCII parts."""
    if not wanted.ignores_case:
        return grams.of_text(wanted.text)
    runs = "".join(one if one.isascii() else "\0" for one in wanted.text).split("\0")
    return grams.all_of(map(grams.of_text, runs))


def _occurrences(text: bytes, raw: bytes, start: int) -> Iterator[tuple[int, int]]:
    at = raw.find(text, start)
    while at >= 0:
        yield at, at + len(text)
        at = raw.find(text, at + len(text))


def _only_text(wanted: Wanted) -> str:
    """Return the only text that the pattern matches; empty if it may match several."""
    is_text = wanted.is_literal or _SIGNS.isdisjoint(wanted.text)
    return "" if wanted.ignores_case or wanted.whole_words or not is_text else wanted.text


def _is_of_line(wanted: Wanted) -> bool:
    if wanted.multiline:
        return False
    return wanted.is_literal or _OUTSIDE_LINE.search(wanted.text) is None


def _told(error: Exception, wanted: Wanted) -> Iterator[str]:
    """Yield the error that RE2 reports, and remedies."""
    (said,) = error.args
    reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    reason = reason.replace(_EACH_LINE, "", 1)
    yield f"is not a regular expression of RE2: {reason}"
    if reason.startswith("invalid repetition size"):
        yield (
            f"a repetition, and all those inside each other multiplied, is at most "
            f"{MAX_REPETITIONS:,}: repeat less"
        )
        return
    if reason.startswith(("invalid perl operator", "invalid escape sequence")):
        yield "look-around and backreferences are not possible"
    if not wanted.is_in_query:
        yield "to find the pattern as it is written, use `literal`"
