"""Make names and texts of repositories safe to print on a terminal, in logs, and in Markdown.

Git allows any character in the name of a file or a branch. A line break in one would forge a second
line of output, and characters that control the direction of text (U+202E) reorder what is around
them. A name with such a character is printed as a quoted literal; in a text, which may have several
lines, each such character is printed as its code.
"""

from __future__ import annotations

import re

#: Control characters except tab and newline, and those that separate lines or set their direction.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)

#: Characters with which a name could begin HTML, a link, an image, or a code span in Markdown.
_MARKUP = re.compile(r"[<>&`]|\]\(")
_BACKTICKS = re.compile("`+")


def plain(text: str) -> str:
    """Return the text with unsafe characters as their codes: `\\x1b`, `\\u202e`."""
    return _UNSAFE.sub(lambda match: ascii(match.group())[1:-1], text)


def quoted(name: str) -> str:
    """Return the name, as a Python literal if one of its characters is not printable.

    `"src/a.py"` stays; one with a line break becomes `'a\\nb.py'`, with the quotes.
    """
    return name if name.isprintable() else repr(name)


def markdown(name: str) -> str:
    """Return the quoted name, as a code span if Markdown could read markup in it."""
    shown = quoted(name)
    if not _MARKUP.search(shown):
        return shown
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(shown)), default=0))
    space = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{space}{shown}{space}{fence}"
