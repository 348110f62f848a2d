"""Find the trigrams that every match of a regular expression contains.

The expression has the syntax of RE2, and RE2 has accepted it. It is read in one pass. Each part of
it is described by the texts that it matches, or, if they are too many, by the trigrams that all of
them have. A part that is not understood counts as matching anything, so the result may have too few
trigrams, but never too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from codelode import grams
from codelode.grams import NOTHING, Grams

#: Maximum number of texts that describe a part of an expression, and of their characters together.
MAX_TEXTS = 32
MAX_CHARS = 512

#: Maximum number of characters of a class that are read as alternatives, as in `[0-9]`.
MAX_CLASS = 10

#: Maximum number of copies of a repeated part, as in `(ab){3}`, and maximum depth of groups.
MAX_COPIES = 8
MAX_DEPTH = 50

_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z]*i")
_GROUP = re.compile(r"\((?:\?P?<\w+>|\?[a-zA-Z-]*:)?")
_FLAGS = re.compile(r"\(\?[a-zA-Z-]+\)")
_REPEAT = re.compile(r"(?:(?P<sign>[*+?])|\{(?P<low>\d+)(?P<more>,(?P<high>\d*))?\})\??")
_ESCAPE = re.compile(
    r"\\(?:x\{(?P<long>[0-9A-Fa-f]+)\}|x(?P<hex>[0-9A-Fa-f]{2})|(?P<octal>[0-7]{1,3})"
    r"|[pP](?:\{[^}]*\}|.)|(?P<plain>.))",
    re.DOTALL,
)
_NAMED = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NO_TEXT = "bBAzE"
_QUOTED = re.compile(r"\\Q(?P<text>.*?)(?:\\E|\Z)", re.DOTALL)
_CLASS = re.compile(r"\[(?P<negated>\^)?(?P<members>\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*)\]", re.DOTALL)
_MEMBER = re.compile(
    r"(?P<named>\[:)|(?P<low>\\(?:x\{\w+\}|x\w\w|\d{1,3}|.)|.)"
    r"(?:-(?P<high>\\(?:x\{\w+\}|x\w\w|\d{1,3}|.)|.))?",
    re.DOTALL,
)


class _Unknown(Exception):
    """The expression has a part that is not understood."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: all folded texts that it matches, or trigrams that these have."""

    texts: frozenset[str] | None
    needed: Grams = NOTHING

    @property
    def needs(self) -> Grams:
        return self.needed if self.texts is None else _needs(self.texts)


_ANYTHING = _Part(None)
_EMPTY = _Part(frozenset({""}))


@dataclass(slots=True)
class _Group:
    """A group that is being read."""

    parts: list[_Part] = field(default_factory=list)  # of the last alternative
    alternatives: list[_Part] = field(default_factory=list)

    def next_alternative(self) -> None:
        self.alternatives.append(_sequence(self.parts))
        self.parts = []

    def whole(self) -> _Part:
        self.next_alternative()
        return _alternatives(self.alternatives)


def of_expression(expression: str, *, ignores_case: bool) -> Grams:
    """Return the trigrams that every text matched by the expression contains."""
    try:
        return _Reader(expression, ignores_case=ignores_case).read().needs
    except _Unknown:
        return NOTHING


class _Reader:
    """Reads an expression once, from its start to its end."""

    def __init__(self, expression: str, *, ignores_case: bool) -> None:
        self._expression = expression
        self._ignores_case = ignores_case or _IGNORES_CASE.search(expression) is not None
        self._at = 0
        self._groups = [_Group()]

    def read(self) -> _Part:
        while self._at < len(self._expression):
            self._read_next()
        if len(self._groups) != 1:
            raise _Unknown
        return self._groups[0].whole()

    def _read_next(self) -> None:
        sign = self._expression[self._at]
        if sign == "(":
            self._open()
        elif sign == ")":
            self._close()
        elif sign == "|":
            self._groups[-1].next_alternative()
            self._at += 1
        elif found := _REPEAT.match(self._expression, self._at):
            self._at = found.end()
            self._repeat(found)
        else:
            self._groups[-1].parts.extend(self._atoms(sign))

    def _open(self) -> None:
        if found := _FLAGS.match(self._expression, self._at):
            self._at = found.end()
            return
        found = _GROUP.match(self._expression, self._at)
        if found is None or len(self._groups) > MAX_DEPTH:
            raise _Unknown
        self._at = found.end()
        self._groups.append(_Group())

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise _Unknown
        group = self._groups.pop()
        self._groups[-1].parts.append(group.whole())
        self._at += 1

    def _repeat(self, found: re.Match[str]) -> None:
        parts = self._groups[-1].parts
        if not parts:
            raise _Unknown
        low, high = _times(found)
        parts.append(_repeated(parts.pop(), low, high))

    def _atoms(self, sign: str) -> list[_Part]:
        r"""Read one part, or a quotation, `\Q…\E`, as one part for each character."""
        if sign == "[":
            return [self._class()]
        if sign == "\\":
            return self._escape()
        self._at += 1
        if sign in "^$":
            return [_EMPTY]
        return [_ANYTHING if sign == "." else self._character(sign)]

    def _class(self) -> _Part:
        found = _CLASS.match(self._expression, self._at)
        if found is None:
            raise _Unknown
        self._at = found.end()
        characters = None if found["negated"] else _members(found["members"])
        if characters is None or len(characters) > MAX_CLASS:
            return _ANYTHING
        return _alternatives([self._character(one) for one in characters])

    def _escape(self) -> list[_Part]:
        if found := _QUOTED.match(self._expression, self._at):
            self._at = found.end()
            return [self._character(one) for one in found["text"]]
        found = _ESCAPE.match(self._expression, self._at)
        if found is None:
            raise _Unknown
        self._at = found.end()
        if found["plain"] and found["plain"] in _NO_TEXT:
            return [_EMPTY]
        character = _escaped(found)
        return [_ANYTHING if character is None else self._character(character)]

    def _character(self, character: str) -> _Part:
        if self._ignores_case and not character.isascii():
            return _ANYTHING
        return _Part(frozenset({grams.folded(character)}))


def _times(found: re.Match[str]) -> tuple[int, int | None]:
    """Return the minimum and the maximum number of repetitions; None if that is unbounded."""
    if sign := found["sign"]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
    low = int(found["low"])
    if not found["more"]:
        return low, low
    return low, int(found["high"]) if found["high"] else None


def _repeated(part: _Part, low: int, high: int | None) -> _Part:
    if low == 0:
        return _alternatives([part, _EMPTY]) if high == 1 else _ANYTHING
    copies = [part] * min(low, MAX_COPIES)
    return _sequence(copies if low == high and low <= MAX_COPIES else [*copies, _ANYTHING])


def _alternatives(parts: Sequence[_Part]) -> _Part:
    texts = frozenset().union(*(part.texts or () for part in parts))
    if len(texts) <= MAX_TEXTS and all(part.texts is not None for part in parts):
        return _Part(texts)
    return _Part(None, grams.any_of(part.needs for part in parts))


def _sequence(parts: Sequence[_Part]) -> _Part:
    """Return the concatenation of the parts.

    When there are too many texts, their trigrams are recorded, and only their last two characters
    are kept, so that trigrams across the border to the next part are found.
    """
    texts, needed = frozenset({""}), list[Grams]()
    for part in parts:
        if part.texts is None:
            needed += [_needs(texts), part.needed]
            texts = frozenset({""})
            continue
        if _is_too_much(texts, part.texts):
            needed.append(_needs(texts))
            texts = frozenset(text[1 - grams.SIZE :] for text in texts)
        if _is_too_much(texts, part.texts):
            texts = frozenset({""})
        texts = frozenset(map("".join, product(texts, part.texts)))
    if not needed:
        return _Part(texts)
    return _Part(None, grams.all_of([*needed, _needs(texts)]))


def _is_too_much(texts: frozenset[str], more: frozenset[str]) -> bool:
    chars = len(more) * sum(map(len, texts)) + len(texts) * sum(map(len, more))
    return len(texts) * len(more) > MAX_TEXTS or chars > MAX_CHARS


def _needs(texts: Iterable[str]) -> Grams:
    return grams.any_of(map(grams.of_text, sorted(texts)))


def _members(members: str) -> frozenset[str] | None:
    """Return the characters of a class; None if they are too many or not understood."""
    found: set[str] = set()
    for member in _MEMBER.finditer(members):
        low = _value(member["low"])
        high = _value(member["high"]) if member["high"] else low
        if low is None or high is None or ord(high) - ord(low) >= MAX_CLASS:
            return None
        found.update(map(chr, range(ord(low), ord(high) + 1)))
    return frozenset(found)


def _value(written: str | None) -> str | None:
    """Return the character that a member of a class stands for; None if it may be several."""
    if written is None or not written.startswith("\\"):
        return written
    found = _ESCAPE.fullmatch(written)
    return None if found is None else _escaped(found)


def _escaped(found: re.Match[str]) -> str | None:
    """Return the character that an escape stands for; None if it may be several."""
    plain = found["plain"]
    if plain:
        return _NAMED.get(plain) or (None if plain.isalnum() else plain)
    for name, base in (("long", 16), ("hex", 16), ("octal", 8)):
        if found[name]:
            return _character(int(found[name], base))
    return None


def _character(number: int) -> str | None:
    """Return the character with this code point; None if it is a surrogate or out of range."""
    return chr(number) if number < 0xD800 or 0xE000 <= number < 0x110000 else None
