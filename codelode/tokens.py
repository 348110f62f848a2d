"""Identifier splitting: one function for indexing and for querying.

Code is searched by the words inside its identifiers and by the identifiers themselves, so both
are kept: `getUserById` → `get user by id getuserbyid`. Index and query must agree to the letter,
which is why nothing else in the program splits identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A run of letters, digits and underscores in any script.
_IDENTIFIER = re.compile(r"\w+", re.UNICODE)

#: The words of an identifier. Plural acronyms (`URLs`) are one word; `v2` is `v` and `2`.
_WORD = re.compile(
    r"[A-Z]{2,}s(?![a-z])"  # URLs, IDs
    r"|[A-Z]+(?=[A-Z][a-z])"  # HTTP in HTTPResponse
    r"|[A-Z]?[a-z]+"  # Response, get
    r"|[A-Z]+"  # HTTP, V
    r"|\d+"
    r"|[^\W\d_A-Za-z]+",  # other scripts
    re.UNICODE,
)

#: A longer run is data (base64, a minified bundle), not an identifier.
MAX_IDENTIFIER_CHARS = 120


def identifiers(text: str) -> Iterator[str]:
    """The identifiers in `text` as written, in order, repeats included."""
    for match in _IDENTIFIER.finditer(text):
        word = match.group().strip("_")
        if word and len(word) <= MAX_IDENTIFIER_CHARS:
            yield word


def words(identifier: str) -> list[str]:
    """`parseHTTPResponse_v2` → `["parse", "http", "response", "v", "2"]`."""
    return [word.lower() for word in _WORD.findall(identifier)]


def terms(text: str) -> list[str]:
    """Every index term of `text`, in order: the words of each identifier, then the whole of it.

    `"getUserById(x)"` → `["get", "user", "by", "id", "getuserbyid", "x"]`.
    """
    out: list[str] = []
    for identifier in identifiers(text):
        parts = words(identifier)
        out.extend(parts)
        if len(parts) > 1:
            out.append("".join(parts))
    return out
