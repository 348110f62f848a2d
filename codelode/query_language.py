"""Find the filters that are written among the words of a query: `repo:acme/* -lang:go retry`.

A word is a filter if it begins with one of PREFIXES and a value follows at once. Everything else is
left as it is, because queries are also pasted code and messages: `std::vector`, `http://host/a`,
`path: a`, and all queries of several lines. In quotes such a word is text, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: The field of the filters that each prefix stands for.
PREFIXES = {
    **dict.fromkeys(("repo", "repository"), "repositories"),
    **dict.fromkeys(("lang", "language"), "languages"),
    **dict.fromkeys(("path", "file"), "paths"),
    **dict.fromkeys(("ref", "branch"), "ref"),
    **dict.fromkeys(("sym", "symbol"), "symbols"),
    "kind": "kinds",
}
_FILTER = re.compile(
    rf'(?<!\S)(?P<no>-?)(?P<prefix>{"|".join(PREFIXES)}):(?P<value>"[^"]+"(?!\S)|(?!:|//|")\S+)'
)
#: Matches what a quoted text must not hide: `"path:a b"` is one text.
_QUOTED = re.compile(r'(?<!\S)-?"[^"]*"(?!\S)')


@dataclass(frozen=True, slots=True)
class WrittenFilter:
    """A filter in a query."""

    text: str  # as it is written
    at: int  # number of its first character, from 1
    prefix: str
    value: str
    is_exclusion: bool

    @property
    def field(self) -> str:
        """Return the name of the filter: `repositories`."""
        return PREFIXES[self.prefix]


def written_filters(text: str) -> tuple[WrittenFilter, ...]:
    """Return the filters in a query; none in one of several lines, which is code or a message."""
    if ":" not in text or "\n" in text.strip():
        return ()
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    return tuple(
        _written(found)
        for found in _FILTER.finditer(text)
        if not any(start < found.start() < end for start, end in quoted)
    )


def without(text: str, written: Iterable[WrittenFilter]) -> str:
    """Return the query without these filters."""
    for one in reversed(list(written)):
        text = f"{text[: one.at - 1].rstrip()} {text[one.at - 1 + len(one.text) :].lstrip()}"
    return text.strip()


def leading_filters(text: str) -> tuple[tuple[WrittenFilter, ...], str]:
    """Return the filters with which a text begins, and the rest of it."""
    end, found = 0, []
    for one in written_filters(text):
        if text[end : one.at - 1].strip():
            break
        found.append(one)
        end = one.at - 1 + len(one.text)
    return tuple(found), text[end:].lstrip() if found else text


def words_of(text: str) -> str:
    """Return the query without the filters in it."""
    return without(text, written_filters(text))


def _written(found: re.Match[str]) -> WrittenFilter:
    return WrittenFilter(
        text=found.group(),
        at=found.start() + 1,
        prefix=found["prefix"],
        value=found["value"].strip('"'),
        is_exclusion=bool(found["no"]),
    )
