"""Count the columns of text on a terminal, where a character takes none, one, or two."""

from __future__ import annotations

import unicodedata

#: Categories of marks that are drawn onto another character, and of characters for formatting, such
#: as the zero-width space.
_WITHOUT_COLUMN = ("Mn", "Me", "Cf")


def cells(text: str) -> int:
    """Return the number of columns that the text takes: an ideograph takes two, an accent none."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def prefix(text: str, room: int) -> str:
    """Return as much of the text as takes at most `room` columns."""
    if cells(text) <= room:
        return text
    taken = 0
    for at, char in enumerate(text):
        taken += _cells_of(char)
        if taken > room:
            return text[:at]
    return text


def _cells_of(char: str) -> int:
    if unicodedata.category(char) in _WITHOUT_COLUMN:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
