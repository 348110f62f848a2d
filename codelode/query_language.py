"""Find the filters and texts that are written in a query: `repo:acme/* -lang:go "no route"`.

A word is a filter if a value immediately follows one of PREFIXES and a colon. Everything else is
left as it is, because queries are also pasted code and messages: `std::vector`, `http://host/a`,
`path: a`, `file:/etc/hosts`, `file:a.py:42`, `path:string,`, `{ path:a }`, and all queries of
several lines. In quotes such a word is text, too, and a value in quotes may be anything.

An expression is written between slashes, and has a character that paths do not have. A text in
quotes must be in a hit only if the query has no other words: an error message often quotes a name
that the code which prints it does not contain.

Most parentheses are a part of code. They group texts and expressions only if all parentheses of
the query do, and if they contain nothing else: `"a" -("b" or /c+/)`. A group of filters contains
only filters with `or` between them: `-(lang:go or path:docs/**)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

#: The field of the filters that each prefix stands for.
PREFIXES = {
    **dict.fromkeys(("repo", "repository"), "repositories"),
    **dict.fromkeys(("lang", "language"), "languages"),
    **dict.fromkeys(("path", "file"), "paths"),
    **dict.fromkeys(("ref", "branch"), "ref"),
    **dict.fromkeys(("sym", "symbol"), "symbols"),
    "kind": "kinds",
    "scope": "scope",
}
_NAMES = "|".join(PREFIXES)
#: A filter in a group, and filters with `or` between them.
_MEMBER = rf'-?(?:{_NAMES}):(?:"[^"]++"|[^\s:/"\'`()][^\s"()]*+)'
_MEMBERS = re.compile(_MEMBER)
_GROUP = rf"(?P<group>-?\({_MEMBER}(?:\s++or\s++{_MEMBER})++\))(?!\S)"
#: A word, or a text in quotes, which hides what is in it: `"path:a b"` is one text.
_WORD = re.compile(rf'-?"[^"]*"(?!\S)|-?(?:{_NAMES}):"[^"]+"(?!\S)|{_GROUP}|\S+')
_FILTER = re.compile(
    rf"(?P<no>-?)(?P<prefix>{_NAMES}):"
    rf'(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s:/"\'`][^\s"]*(?<![,;:)}}\]])))'
)
#: Ends of the previous word, and beginnings of the next word, that make a word a part of code.
_OPENS, _CLOSES = tuple("{([="), tuple("})]=")
#: Signs in a value that make a filter before a regular expression a part of the expression.
_OF_EXPRESSIONS = re.compile(r"[\\()\[\]+^$|{}]|\.\*")
_TEXT_OR_EXPRESSION = (
    r'(?P<no>-?)(?:"(?P<literal>[^"]++)"'
    r"|/(?P<expression>(?![\s*])(?:[^/\\]|\\.)++)(?<!\s)/)"
)
_TEXT = re.compile(rf"(?<!\S){_TEXT_OR_EXPRESSION}(?!\S)|(?<!\S)(?P<or>or)(?!\S)")
#: The tokens of a query whose parentheses are groups.
_PART = re.compile(
    r"(?P<space>\s++)|(?P<open>-?\()|(?P<close>\))"
    rf"|{_TEXT_OR_EXPRESSION}(?![^\s)])|(?P<or>or)(?![^\s)])|(?P<word>[^\s()]++)"
)
#: Signs of an expression that a path or a URL does not have.
_SIGNS = frozenset("\\[(^$*+|")
#: Signs and escapes of expressions, which are not words to search for.
_NO_WORDS = re.compile(r"\\[A-Za-z]|\W")

#: Maximum length of a text that must be in a hit, characters; a longer one is searched as words.
MAX_TEXT_CHARS = 1_000
#: Maximum number of texts of a query, because each is compared with every candidate. If there are
#: more, all are searched as words.
MAX_TEXTS = 20


@dataclass(frozen=True, slots=True)
class Written:
    """A part of a query other than its words: a filter, a text, an expression, or a group."""

    text: str  # as it is written
    at: int  # number of its first character, from 1
    value: str
    is_exclusion: bool

    @property
    def start(self) -> int:
        """Return the number of characters before it."""
        return self.at - 1

    @property
    def end(self) -> int:
        """Return the number of characters up to its last one."""
        return self.at - 1 + len(self.text)


@dataclass(frozen=True, slots=True)
class WrittenText(Written):
    """A text or an expression that must, or must not, be in a hit."""

    is_expression: bool
    is_alternative: bool = False  # to the one before

    @property
    def leaves(self) -> tuple[WrittenText, ...]:
        """Return the text itself, as a group returns its texts."""
        return (self,)


@dataclass(frozen=True, slots=True)
class WrittenGroup(Written):
    """Texts and expressions in parentheses; alternatives follow one another."""

    parts: tuple[WrittenPart, ...]
    is_alternative: bool = False  # to the one before

    @property
    def leaves(self) -> tuple[WrittenText, ...]:
        """Return the texts and expressions in the group and in groups inside it."""
        return tuple(chain.from_iterable(one.leaves for one in self.parts))


WrittenPart: TypeAlias = WrittenText | WrittenGroup


@dataclass(frozen=True, slots=True)
class WrittenFilter(Written):
    """A filter in a query."""

    prefix: str
    before: int = 0  # characters in front of it that belong to its group
    behind: int = 0
    is_mixed: bool = False  # in a group whose alternatives cannot be searched at once

    @property
    def start(self) -> int:
        """Return the number of characters before it and the part of its group with it."""
        return self.at - 1 - self.before

    @property
    def end(self) -> int:
        """Return the number of characters up to the end of the part of its group with it."""
        return self.at - 1 + len(self.text) + self.behind

    @property
    def field(self) -> str:
        """Return the name of the filter: `repositories`."""
        return PREFIXES[self.prefix]


@dataclass(frozen=True, slots=True)
class QueryParts:
    """A query by its parts."""

    words: str  # by which it is ranked; empty: it only filters
    filters: tuple[WrittenFilter, ...]
    texts: tuple[WrittenPart, ...]


def parts_of(text: str, filters: Sequence[WrittenFilter] | None = None) -> QueryParts:
    """Return the parts of a query. `filters`: those that count as such; None: all in the text."""
    filters = written_filters(text) if filters is None else tuple(filters)
    texts = written_texts(_blanked(text, filters))
    filters = tuple(_in_groups(filters, texts))
    return QueryParts(_words(text, filters, texts), filters, texts)


def words_of(text: str) -> str:
    """Return the words of a query, without the filters in it and what it excludes."""
    return parts_of(text).words


def written_texts(text: str) -> tuple[WrittenPart, ...]:
    """Return the texts and expressions in a query without filters, and groups of them.

    There are none if an `or` has one of them on one side and a word on the other.
    """
    if not ('"' in text or "/" in text) or "\n" in text.strip():
        return ()
    if "(" in text and (grouped := _grouped(text)) is not None:
        return grouped
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


@dataclass(slots=True)
class _Level:
    """A group that is being read, or the query around all groups."""

    opened: re.Match[str] | None
    is_excluded: bool  # by this group or one around it
    items: list[WrittenPart | str] = field(default_factory=list)  # a text: `or`, or empty for words


def _grouped(text: str) -> tuple[WrittenPart, ...] | None:
    """Return the parts of a query with groups; None: not all of its parentheses are groups."""
    tokens = list(_PART.finditer(text))
    if sum(bool(one["literal"] or one["expression"]) for one in tokens) > MAX_TEXTS:
        return ()
    is_alone = not any(one["word"] for one in tokens)
    levels = [_Level(None, is_excluded=False)]
    for token in tokens:
        if not (token["space"] or _is_read(token, levels, text, is_alone=is_alone)):
            return None
    outer = levels.pop()
    if levels or not any(isinstance(one, WrittenGroup) for one in outer.items):
        return None
    return _joined(outer.items)


def _is_read(token: re.Match[str], levels: list[_Level], text: str, *, is_alone: bool) -> bool:
    """Read a token into the open groups; False: a parenthesis does not belong to a group."""
    level = levels[-1]
    if token["open"]:
        levels.append(_Level(token, level.is_excluded or token["open"] != "("))
        return _begins(text, token.start())
    if token["close"]:
        group = _group(text, level, token.end()) if level.opened else None
        if group is None or not _ends(text, token.end()):
            return False
        levels.pop()
        levels[-1].items.append(group)
        return True
    item = _item(token, is_alone=is_alone or level.is_excluded)
    level.items.append(item)
    return bool(item) or not level.opened


def _begins(text: str, at: int) -> bool:
    return not at or text[at - 1].isspace() or text[at - 1] == "("


def _ends(text: str, at: int) -> bool:
    return at == len(text) or text[at].isspace() or text[at] == ")"


def _item(token: re.Match[str], *, is_alone: bool) -> WrittenPart | str:
    """Return the text or expression, `or`, or an empty text for a word."""
    if token["or"] or token["word"]:
        return token["or"] or ""
    return _written_text(token) if _counts(token, is_alone=is_alone) else ""


def _group(text: str, level: _Level, end: int) -> WrittenGroup | None:
    """Return the group that ends here; None: it has fewer than two parts, or a misplaced `or`."""
    assert level.opened is not None
    items = level.items
    around = zip(["or", *items], items, [*items[1:], "or"], strict=False)
    if len(items) < 2 or any(one == "or" and "or" in (left, right) for left, one, right in around):
        return None
    parts = [
        replace(one, is_alternative=before == "or")
        for before, one in zip(["", *items], items, strict=False)
        if not isinstance(one, str)
    ]
    start, is_exclusion = level.opened.start(), level.opened["open"] != "("
    written = text[start:end]
    return WrittenGroup(written, start + 1, written, is_exclusion, tuple(parts))


def _joined(items: Sequence[WrittenPart | str]) -> tuple[WrittenPart, ...]:
    """Return the parts of a query; an `or` between parts that are not excluded joins them."""
    made: list[WrittenPart] = []
    around = zip(["", *items], items, [*items[1:], ""], strict=False)
    if any(one == "or" and isinstance(a, str) != isinstance(b, str) for a, one, b in around):
        return ()
    for before, one in zip(["", *items], items, strict=False):
        if not isinstance(one, str):
            is_joined = before == "or" and not (one.is_exclusion or made[-1].is_exclusion)
            made.append(replace(one, is_alternative=is_joined))
    return tuple(made)


def whole_text(text: str) -> WrittenText | None:
    """Return the text or expression that is the whole query; None: the query is something else."""
    made = written_texts(text)
    if len(made) != 1 or made[0].text != text.strip() or made[0].is_exclusion:
        return None
    return made[0] if isinstance(made[0], WrittenText) else None


def written_filters(text: str) -> tuple[WrittenFilter, ...]:
    """Return the filters in a query; a query of several lines is code or a message and has none."""
    return tuple(filter(None, _read(text)))


def without(text: str, written: Iterable[Written]) -> str:
    """Return the query without these parts, in order; one may be inside another."""
    parts, end = [], 0
    for one in written:
        parts.append(text[end : one.start].strip())
        end = max(end, one.end)
    return " ".join(filter(None, (*parts, text[end:].strip())))


def leading_filters(text: str) -> tuple[tuple[WrittenFilter, ...], str]:
    r"""Return the filters before a regular expression, and the expression, which is not empty.

    A filter with signs of an expression in its value belongs to the expression: `path:\s*(\w+)`. So
    does a group with such a filter.
    """
    found: list[WrittenFilter] = []
    before_text = iter(_read(text).__next__, None)
    for group in by_group(before_text):
        if any(_OF_EXPRESSIONS.search(one.value) for one in group):
            break
        found += group
    rest = text[found[-1].end :].lstrip() if found else ""
    return (tuple(found), rest) if rest else ((), text)


def by_group(filters: Iterable[WrittenFilter]) -> list[list[WrittenFilter]]:
    """Return the filters in order, in lists: the filters of a group together, others alone."""
    made: list[list[WrittenFilter]] = []
    for one in filters:
        if made and made[-1][-1].end == one.start:  # words have a space between them
            made[-1].append(one)
        else:
            made.append([one])
    return made


def _read(text: str) -> Iterator[WrittenFilter | None]:
    """Yield each word of the query as a filter, or None for text."""
    if ":" not in text or "\n" in text.strip():
        return
    words = list(_WORD.finditer(text))
    before = ("", *(word.group() for word in words))
    behind = (*before[2:], "")
    for last, word, following in zip(before, words, behind, strict=False):
        if last.endswith(_OPENS) or following.startswith(_CLOSES):
            yield None
        elif word["group"]:
            yield from _of_group(word)
        else:
            yield _written(word)


def _of_group(group: re.Match[str]) -> Iterator[WrittenFilter | None]:
    """Yield the filters of a group; a place such as `file:a.py:42` makes it text."""
    text, start = group["group"], group.start()
    is_exclusion = text.startswith("-")
    found = [_written(one) for one in _MEMBERS.finditer(text)]
    filters = [replace(one, at=one.at + start) for one in found if one is not None]
    if len(filters) < len(found):
        yield None
        return
    is_mixed = any(one.is_exclusion for one in filters) or (
        not is_exclusion and len({one.field for one in filters}) > 1
    )
    begin = start
    for one, following in zip(filters, [*filters[1:], None], strict=True):
        end = following.start if following else group.end()
        yield replace(
            one,
            is_exclusion=is_exclusion,
            before=one.start - begin,
            behind=end - one.end,
            is_mixed=is_mixed,
        )
        begin = end


def _in_groups(
    filters: Iterable[WrittenFilter], texts: Iterable[WrittenPart]
) -> Iterator[WrittenFilter]:
    """Yield the filters; those inside a group of texts are marked as mixed."""
    spans = [(one.start, one.end) for one in texts if isinstance(one, WrittenGroup)]
    for one in filters:
        is_inside = any(start < one.start < end for start, end in spans)
        yield replace(one, is_mixed=True) if is_inside else one


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


def _words(text: str, filters: Iterable[WrittenFilter], texts: Iterable[WrittenPart]) -> str:
    """Return the words by which a query is ranked: its own, or else the words of its texts."""
    rest = without(text, sorted([*filters, *texts], key=lambda one: one.at))
    leaves = chain.from_iterable(one.leaves for one in texts if not one.is_exclusion)
    wanted = [one for one in leaves if not one.is_exclusion]
    if not wanted or any(word != "or" for word in rest.split()):
        return rest
    words = (_NO_WORDS.sub(" ", one.value) if one.is_expression else one.value for one in wanted)
    return " ".join(words).strip() or wanted[0].value


def _blanked(text: str, filters: Iterable[WrittenFilter]) -> str:
    """Return the query with spaces for the filters, so that what follows keeps its place."""
    parts, end = [], 0
    for one in filters:
        parts += [text[end : one.start], " " * (one.end - one.start)]
        end = one.end
    return "".join((*parts, text[end:]))


def _counts(found: re.Match[str], *, is_alone: bool) -> bool:
    """Return whether a text in quotes or between slashes counts as such."""
    if found["literal"]:
        return (is_alone or bool(found["no"])) and len(found["literal"]) <= MAX_TEXT_CHARS
    return not _SIGNS.isdisjoint(found["expression"])


def _written_text(found: re.Match[str], *, is_alternative: bool = False) -> WrittenText:
    return WrittenText(
        text=found.group(),
        at=found.start() + 1,
        value=found["literal"] or found["expression"].replace("\\/", "/"),
        is_expression=not found["literal"],
        is_exclusion=bool(found["no"]),
        is_alternative=is_alternative and not found["no"],
    )
