"""Compare a message that a program wrote with the code that may have written it. Pure.

The source of a message has placeholders where the message has values: `unknown command "a" for "b"`
comes from `unknown command %q for %q`. Placeholders differ between languages, and a value may
consist of several words, so words are left out where the text has a character of a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

#: Minimum number of words of a message that count as a part of it.
RUN = 3

#: Maximum number of words that may be left out between two words of a run, and of characters that
#: the text may have in their place, all in one line: `{self.max_redirects}`.
LEFT_OUT = 3
GAP = 40

#: Maximum number of places of a text at which a run is searched for.
MAX_PLACES = 8

#: Matches words that are probably values: in quotes or brackets, numbers, and paths. Without one, a
#: message may be prose, and no words are left out.
_VALUE = re.compile(
    r"""\W*?["'`]|\W*+\d[\d.,:]*+[a-z%]{0,2}\W*+$"""
    r"""|[\[{<]|[^\]}>]*+[\]}>]|\W?/|[^/]*+/[^/]*+/|[^\\]*+\\"""
)

#: Matches a character of what stands for a value: `%s`, `{name}`, `$name`, `\(name)`, `" + name`.
_PLACEHOLDER = re.compile(r"""[%{$\\"'`]""")


@dataclass(frozen=True, slots=True)
class Message:
    """The words of a message, prepared for a comparison with many texts."""

    words: Sequence[str]
    values: Sequence[bool]  # of each word: whether it is probably a value
    begins: Sequence[str]  # of each word: the beginning of a run from there in a text

    @property
    def left_out(self) -> int:
        """Return how many words may be left out between two others."""
        return LEFT_OUT if any(self.values) else 0


def message(words: Sequence[str]) -> Message:
    """Prepare the words of a message.

    A run begins with its first two words, or only one if the second is a value: searching for two
    words takes half the time.
    """
    values = [_VALUE.match(word) is not None for word in words]
    pairs = zip_longest(words, words[1:], values[1:], fillvalue="")
    begins = [
        f"{word} " if is_value else f"{word} {other}".rstrip() for word, other, is_value in pairs
    ]
    return Message(words, values, begins)


def fixed_parts(message: Message) -> list[str]:
    """Return the parts that the source probably has as they are, the longest first.

    They are between values and end at colons, and have at least two words.
    """
    parts: list[list[str]] = [[]]
    for word, is_value in zip(message.words, message.values, strict=True):
        if not is_value:
            parts[-1].append(word)
        if is_value or word.endswith(":"):
            parts.append([])
    return sorted((" ".join(words) for words in parts if len(words) > 1), key=len, reverse=True)


def longest_run(message: Message, text: str) -> int:
    """Return the length, in words, of the longest run that is in the text; 0 if it is below RUN.

    If the message has values, words between two others may be left out, and those that are values
    count: `unknown command %q for %q` has all five words of `unknown command "a" for "b"`.
    """
    longest, start = RUN - 1, 0
    while start + longest < len(message.words):
        count, end = _run(message, start, text)
        longest = max(longest, count)
        start = max(start + 1, end - RUN + 1)
    return longest if longest >= RUN else 0


def _run(message: Message, start: int, text: str) -> tuple[int, int]:
    """Return the length and the end of the longest run that begins with this word."""
    best, begins = (0, start), message.begins[start]
    at = text.find(begins)
    for _ in range(MAX_PLACES):
        if at < 0:
            break
        best = max(best, _run_from(message, start, text, at + len(message.words[start])))
        at = text.find(begins, at + 1)
    return best


def _run_from(message: Message, start: int, text: str, at: int) -> tuple[int, int]:
    """Return the length and the end of the run whose first word ends at this place of the text."""
    words, values = message.words, message.values
    count, end = 1, start + 1
    while end < len(words):
        if text.startswith(f" {words[end]}", at):
            at += len(words[end]) + 1
        elif gap := _gap(words[end : end + message.left_out + 1], text, at):
            number, at = gap
            count += sum(values[end : end + number])
            end += number
        else:
            return count + _ends_in_value(message, end, text, at), end
        count += 1
        end += 1
    return count, end


def _gap(words: Sequence[str], text: str, at: int) -> tuple[int, int] | None:
    """Return how many words are left out until the next one, and where that one ends.

    `at`: where the text continues after the word before; the first of `words` does not follow it.
    """
    if len(words) < 2 or not text.startswith(" ", at):
        return None
    line_end = text.find("\n", at)
    ends = min(at + GAP, len(text) if line_end < 0 else line_end)
    for number, word in enumerate(words[1:], 1):
        found = text.find(f" {word}", at, ends + len(word) + 1)
        end = found + len(word) + 1
        is_whole = not text[end : end + 1].isalnum()
        if found >= 0 and is_whole and _PLACEHOLDER.search(text, at, found):
            return number, end
    return None


def _ends_in_value(message: Message, end: int, text: str, at: int) -> bool:
    """Return whether the next word is a value for which the text has a placeholder."""
    return message.values[end] and _PLACEHOLDER.match(text, at + 1) is not None
