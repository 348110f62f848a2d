"""Split identifiers into index terms, in the same way for indexing and for querying.

Code is searched by the words inside identifiers and by whole identifiers, so both are index terms:
`getUserById` → `get user by id getuserbyid`. Index and query must agree exactly, so no other module
splits identifiers.

Words are case-folded rather than lower-cased, and composed (NFC), so that `STRASSE` finds `straße`
and both encodings of `ü` are equal. A change of case starts a word in every script that has case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import TypeVar

Value = TypeVar("Value")

#: A run of letters, digits, and underscores in any script. Python's `\w` does not match combining
#: accents, which would split a decomposed `é`.
_IDENTIFIER = re.compile(r"[\w\u0300-\u036f]+")

#: Translation table that replaces all other ASCII characters by blanks.
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

#: A character of Chinese, Japanese, or Korean, which have no spaces between words or endings.
_UNSPACED = (
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]"
)
_UNSPACED_WORDS = re.compile(_UNSPACED + "{3,}")

#: Matches prose in these scripts: probably several words.
_UNSPACED_PROSE = re.compile(_UNSPACED + "{6,}")

#: Maximum length of an identifier; a longer run is data (base64, minified code).
MAX_IDENTIFIER_CHARS = 120

#: Maximum number of results in a memo.
_MEMO_ENTRIES = 1 << 16


class Memo(dict[str, Value]):
    """A cache of `compute(identifier)`, read as `memo[identifier]`; cleared when it is full.

    This is a dict with `__missing__` rather than an `lru_cache` because `map(memo.__getitem__, …)`
    runs in C and takes half the time. Runs that are too long to be identifiers are not cached, so
    hostile content cannot make its entries large. Threads may share it: in the worst case two of
    them compute the same value.
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
    """Return all runs of letters, digits, and underscores in `text`, as written."""
    if text.isascii():  # true of nearly all code, and three times as fast
        return text.translate(_BLANKED).split()
    return _IDENTIFIER.findall(text)


def identifiers(text: str) -> Iterator[str]:
    """Yield the identifiers in `text` as written, in order, including repetitions."""
    for run in runs(text):
        if identifier := _identifier(run):
            yield identifier


def words(identifier: str) -> list[str]:
    """Split an identifier: `parseHTTPResponse_v2` → `["parse", "http", "response", "v", "2"]`."""
    return list(_words(identifier))


def terms(text: str) -> list[str]:
    """Return the index terms of `text`: the words of each identifier, then the whole identifier.

    `"getUserById(x)"` → `["get", "user", "by", "id", "getuserbyid", "x"]`. The words of texts
    without spaces are unknown, so each pair of characters is a term as well:
    `加载配置` → `加载 载配 配置 加载配置`.
    """
    return joined_terms(text).split()


def joined_terms(text: str) -> str:
    """Return the index terms of `text`, separated by spaces."""
    return " ".join(filter(None, map(_TERMS.__getitem__, runs(text))))


def is_unspaced_prose(text: str) -> bool:
    """Return whether the text has words without spaces, as `設定はどこで読み込まれますか` does."""
    return not text.isascii() and _UNSPACED_PROSE.search(text) is not None


def may_have(text: str, wanted: Collection[str]) -> bool:
    """Return False only if `terms(text)` has none of the wanted terms; True means perhaps.

    This takes a fifth of the time of `terms`. It suffices to look for the letters of each term,
    because an ASCII text without its underscores contains each of its terms as a substring.
    """
    if not text.isascii():
        return True
    letters = text.lower().replace("_", "")
    return any(map(letters.__contains__, wanted))


def _identifier(run: str) -> str:
    """Return a run without outer underscores; empty if it has only these or is too long."""
    identifier = run.strip("_")
    return identifier if len(identifier) <= MAX_IDENTIFIER_CHARS else ""


def _terms(run: str) -> str:
    parts = _words(_identifier(run))
    whole = "".join(parts)
    several = parts if len(parts) > 1 else ()
    pairs = () if run.isascii() else _pairs(whole)
    return " ".join((*several, *pairs, whole))


def _pairs(text: str) -> list[str]:
    """Return the pairs of adjacent characters of scripts without spaces."""
    return [a + b for found in _UNSPACED_WORDS.findall(text) for a, b in pairwise(found)]


def _words(identifier: str) -> tuple[str, ...]:
    if identifier.isascii():
        return tuple(word.lower() for word in _WORD.findall(identifier))
    composed = unicodedata.normalize("NFC", identifier)
    spans = (match.span() for match in _WORD.finditer("".join(map(_shape, composed))))
    return tuple(_fold(composed[start:end]) for start, end in spans)


def _shape(char: str) -> str:
    """Return a character that stands for the class of `char` in `_WORD`, for every script."""
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
