"""Identifier splitting: one function for indexing and for querying.

Code is searched by the words inside its identifiers and by the identifiers themselves, so both
are kept: `getUserById` → `get user by id getuserbyid`. Index and query must agree to the letter,
which is why nothing else in the program splits identifiers.

Words are case-folded, not lower-cased, and composed (NFC), so that `STRASSE` finds `straße` and
the two ways to write `ü` are one. Case marks word borders in every script that has case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import TypeVar

Value = TypeVar("Value")

#: A run of letters, digits and underscores in any script. Python's `\w` leaves out combining
#: accents, which would cut a decomposed `é` in two.
_IDENTIFIER = re.compile(r"[\w\u0300-\u036f]+")

#: What is in no such run becomes a blank.
_BLANKED = {code: " " for code in range(128) if not _IDENTIFIER.match(chr(code))}

#: The words of an identifier. Plural acronyms (`URLs`) are one word; `v2` is `v` and `2`.
_WORD = re.compile(
    r"[A-Z]{2,}s(?![a-z])"  # URLs, IDs
    r"|[A-Z]+(?=[A-Z][a-z])"  # HTTP in HTTPResponse
    r"|[A-Z]?[a-z]+"  # Response, get
    r"|[A-Z]+"  # HTTP, V
    r"|\d+"
    r"|[^\W\d_A-Za-z]+"  # scripts without case
)

#: A longer run is data (base64, a minified bundle), not an identifier.
MAX_IDENTIFIER_CHARS = 120

#: Results a memo keeps before it starts over.
_MEMO_ENTRIES = 1 << 16


class Memo(dict[str, Value]):
    """`memo[identifier]` → `compute(identifier)`, computed once while it is remembered.

    A dict with `__missing__` rather than `lru_cache`, because `map(memo.__getitem__, …)` runs in C
    and takes half the time; it starts over when full. Runs too long to be identifiers are not
    kept, so hostile content cannot fill it. Safe to share between threads: the worst race
    computes twice.
    """

    def __init__(self, compute: Callable[[str], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, run: str) -> Value:
        value = self._compute(run)
        if len(run) <= MAX_IDENTIFIER_CHARS:
            if len(self) >= _MEMO_ENTRIES:
                self.clear()
            self[run] = value
        return value


def runs(text: str) -> list[str]:
    """Every run of letters, digits and underscores in `text`, of any length, as written."""
    if text.isascii():  # nearly all code: in a third of the time
        return text.translate(_BLANKED).split()
    return _IDENTIFIER.findall(text)


def identifiers(text: str) -> Iterator[str]:
    """The identifiers in `text` as written, in order, repeats included."""
    for run in runs(text):
        if identifier := _identifier(run):
            yield identifier


def words(identifier: str) -> list[str]:
    """`parseHTTPResponse_v2` → `["parse", "http", "response", "v", "2"]`."""
    return list(_words(identifier))


def terms(text: str) -> list[str]:
    """Every index term of `text`, in order: the words of each identifier, then the whole of it.

    `"getUserById(x)"` → `["get", "user", "by", "id", "getuserbyid", "x"]`.
    """
    return joined_terms(text).split()


def joined_terms(text: str) -> str:
    """The same with a space between them, as an index takes them."""
    return " ".join(filter(None, map(_TERMS.__getitem__, runs(text))))


def _identifier(run: str) -> str:
    """The identifier in a run; empty when it is too long to be one, or only underscores."""
    identifier = run.strip("_")
    return identifier if len(identifier) <= MAX_IDENTIFIER_CHARS else ""


def _terms(run: str) -> str:
    parts = _words(_identifier(run))
    return " ".join((*parts, "".join(parts)) if len(parts) > 1 else parts)


def _words(identifier: str) -> tuple[str, ...]:
    if identifier.isascii():
        return tuple(word.lower() for word in _WORD.findall(identifier))
    composed = unicodedata.normalize("NFC", identifier)
    spans = (match.span() for match in _WORD.finditer("".join(map(_shape, composed))))
    return tuple(_fold(composed[start:end]) for start, end in spans)


def _shape(char: str) -> str:
    """An ASCII character of the same case, so that one expression splits every script."""
    if char == "_":
        return char
    if char.isupper():
        return "A"
    if char.isdigit():
        return "0"
    if char.islower() or unicodedata.combining(char):
        return "s" if char == "s" else "a"
    return "文"


def _fold(word: str) -> str:
    return unicodedata.normalize("NFC", word.casefold())


_TERMS = Memo(_terms)
