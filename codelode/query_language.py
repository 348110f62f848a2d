"""Find the filters and texts that are written in a query: `repo:acme/* -lang:go "no route"`.

A word is a filter if it begins with one of PREFIXES and a value follows at once. Everything else is
left as it is, because queries are also pasted code and messages: `std::vector`, `http://host/a`,
`path: a`, `file:/etc/hosts`, `file:a.py:42`, `path:string,`, `{ path:a }`, and all queries of
several lines. In quotes such a word is text, too, and a value in quotes may be anything.

An expression is written between slashes, and has a sign that a path lacks. What stands in quotes
must be in a hit only if the query has no other words: a message often quotes a name that its source
does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
_NAMES = "|".join(PREFIXES)
#: A word, or a text in quotes, which hides what is in it: `"path:a b"` is one text.
_WORD = re.compile(rf'-?"[^"]*"(?!\S)|-?(?:{_NAMES}):"[^"]+"(?!\S)|\S+')
_FILTER = re.compile(
    rf"(?P<no>-?)(?P<prefix>{_NAMES}):"
    rf'(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s:/"\'`][^\s"]*(?<![,;:)}}\]])))'
)
#: Ends of the word before, and beginnings of the word behind, that make a word a part of code.
_OPENS, _CLOSES = tuple("{([="), tuple("})]=")
#: What a value in front of a regular expression has only if it belongs to the expression.
_OF_EXPRESSIONS = re.compile(r"[\\()\[\]+^$|{}]|\.\*")
_TEXT = re.compile(
    r'(?<!\S)(?P<no>-?)(?:"(?P<literal>[^"]++)"'
    r"|/(?P<expression>(?![\s*])(?:[^/\\]|\\.)++)(?<!\s)/)(?!\S)"
    r"|(?<!\S)(?P<or>or)(?!\S)"
)
#: Signs of an expression that a path or a URL does not have.
_SIGNS = frozenset("\\[(^$*+|")
#: Signs and escapes of expressions, which are no words to search for.
_NO_WORDS = re.compile(r"\\[A-Za-z]|\W")

#: Longest text that must stand in a hit, characters; a longer one is searched as words.
MAX_TEXT_CHARS = 1_000
#: Most texts of a query, because each is compared with every candidate; more are searched as words.
MAX_TEXTS = 20


@dataclass(frozen=True, slots=True)
class Written:
    """A part of a query that is no word of it."""

    text: str  # as it is written
    at: int  # number of its first character, from 1
    value: str
    is_exclusion: bool

    @property
    def end(self) -> int:
        """Return the number of characters up to its last one."""
        return self.at - 1 + len(self.text)


@dataclass(frozen=True, slots=True)
class WrittenText(Written):
    """A text or an expression that must stand in a hit, or must not."""

    is_expression: bool
    is_alternative: bool = False  # to the one before


@dataclass(frozen=True, slots=True)
class WrittenFilter(Written):
    """A filter in a query."""

    prefix: str

    @property
    def field(self) -> str:
        """Return the name of the filter: `repositories`."""
        return PREFIXES[self.prefix]


@dataclass(frozen=True, slots=True)
class QueryParts:
    """A query by its parts."""

    words: str  # by which it is ranked; empty: it only narrows
    filters: tuple[WrittenFilter, ...]
    texts: tuple[WrittenText, ...]


def parts_of(text: str, filters: Sequence[WrittenFilter] | None = None) -> QueryParts:
    """Return the parts of a query, with these filters or all; most have only words."""
    filters = written_filters(text) if filters is None else tuple(filters)
    texts = written_texts(_blanked(text, filters))
    return QueryParts(_words(text, filters, texts), filters, texts)


def words_of(text: str) -> str:
    """Return the words of a query, without the filters in it and what it excludes."""
    return parts_of(text).words


def written_texts(text: str) -> tuple[WrittenText, ...]:
    """Return the texts and expressions in a query without filters.

    None count if an `or` has one of them on one side and a word on the other.
    """
    if not ('"' in text or "/" in text) or "\n" in text.strip():
        return ()
    is_alone = not _TEXT.sub("", text).strip()
    found = [one for one in _TEXT.finditer(text) if one["or"] or _counts(one, is_alone=is_alone)]
    made: list[WrittenText] = []
    for before, one, behind in zip([None, *found], found, [*found[1:], None], strict=False):
        if not one["or"]:
            is_next = before is not None and bool(before["or"]) and _touch(text, before, one)
            is_alternative = is_next and bool(made) and not made[-1].is_exclusion
            made.append(_written_text(one, is_alternative=is_alternative))
        elif _is_text(text, before, one) != _is_text(text, one, behind):
            return ()
    return tuple(made) if len(made) <= MAX_TEXTS else ()


def _is_text(text: str, left: re.Match[str] | None, right: re.Match[str] | None) -> bool:
    """Return whether these are an `or` and a text with nothing between them."""
    if left is None or right is None or (left["or"] and right["or"]):
        return False
    return _touch(text, left, right)


def _touch(text: str, left: re.Match[str], right: re.Match[str]) -> bool:
    return text[left.end() : right.start()].isspace()


def whole_text(text: str) -> WrittenText | None:
    """Return the text or expression that is all of a query; None: it is something else."""
    made = written_texts(text)
    is_whole = len(made) == 1 and made[0].text == text.strip() and not made[0].is_exclusion
    return made[0] if is_whole else None


def written_filters(text: str) -> tuple[WrittenFilter, ...]:
    """Return the filters in a query; none in one of several lines, which is code or a message."""
    return tuple(filter(None, _read(text)))


def without(text: str, written: Iterable[Written]) -> str:
    """Return the query without these parts."""
    parts, end = [], 0
    for one in written:
        parts.append(text[end : one.at - 1].strip())
        end = one.end
    return " ".join(filter(None, (*parts, text[end:].strip())))


def leading_filters(text: str) -> tuple[tuple[WrittenFilter, ...], str]:
    r"""Return the filters before a regular expression, and the expression, which is not empty.

    What has the signs of an expression in its value is a part of it: `path:\s*(\w+)`.
    """
    found: list[WrittenFilter] = []
    for one in _read(text):
        if one is None or _OF_EXPRESSIONS.search(one.value):
            break
        found.append(one)
    rest = text[found[-1].end :].lstrip() if found else ""
    return (tuple(found), rest) if rest else ((), text)


def _read(text: str) -> Iterator[WrittenFilter | None]:
    """Yield each word of the query as a filter, or None for text."""
    if ":" not in text or "\n" in text.strip():
        return
    words = list(_WORD.finditer(text))
    before = ("", *(word.group() for word in words))
    behind = (*before[2:], "")
    for last, word, following in zip(before, words, behind, strict=False):
        is_code = last.endswith(_OPENS) or following.startswith(_CLOSES)
        yield None if is_code else _written(word)


def _written(word: re.Match[str]) -> WrittenFilter | None:
    found = _FILTER.fullmatch(word.group())
    if found is None:
        return None
    value = found["quoted"] or found["plain"]
    if found["plain"] and ":" in value and PREFIXES[found["prefix"]] != "symbols":
        return None  # a place such as `file:a.py:42`
    return WrittenFilter(
        text=word.group(),
        at=word.start() + 1,
        prefix=found["prefix"],
        value=value,
        is_exclusion=bool(found["no"]),
    )


def _words(text: str, filters: Iterable[WrittenFilter], texts: Iterable[WrittenText]) -> str:
    """Return the words by which a query is ranked: its own, else those of its texts."""
    rest = without(text, sorted([*filters, *texts], key=lambda one: one.at))
    wanted = [one for one in texts if not one.is_exclusion]
    if not wanted or any(word != "or" for word in rest.split()):
        return rest
    words = (_NO_WORDS.sub(" ", one.value) if one.is_expression else one.value for one in wanted)
    return " ".join(words).strip() or wanted[0].value


def _blanked(text: str, filters: Iterable[WrittenFilter]) -> str:
    """Return the query with spaces for the filters, so that what follows keeps its place."""
    parts, end = [], 0
    for one in filters:
        parts += [text[end : one.at - 1], " " * len(one.text)]
        end = one.end
    return "".join((*parts, text[end:]))


def _counts(found: re.Match[str], *, is_alone: bool) -> bool:
    """Return whether what is written in quotes or between slashes is a text of the query."""
    if found["literal"]:
        return (is_alone or bool(found["no"])) and len(found["literal"]) <= MAX_TEXT_CHARS
    return not _SIGNS.isdisjoint(found["expression"])


def _written_text(found: re.Match[str], *, is_alternative: bool) -> WrittenText:
    return WrittenText(
        text=found.group(),
        at=found.start() + 1,
        value=found["literal"] or found["expression"].replace("\\/", "/"),
        is_expression=not found["literal"],
        is_exclusion=bool(found["no"]),
        is_alternative=is_alternative and not found["no"],
    )
