"""Fit output to the terminal: its width, its height, and its pager.

Standard output that is not a terminal gets everything at once, without colours.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata

import click

from codelode.environment import wants_colours

#: Columns where there is no terminal. Longer lines are cut, because one line of a minified file
#: would fill a page.
MAX_COLUMNS = 200

#: Columns of a tab on a terminal. The usual 8 leave little room beside line numbers.
TAB_COLUMNS = 4


def columns() -> int:
    """Return the width of the terminal, or MAX_COLUMNS if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_COLUMNS


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


def show(text: str) -> None:
    """Print the text on standard output, through $PAGER if it does not fit on the terminal."""
    if sys.stdout.isatty() and _rows(text) >= shutil.get_terminal_size().lines:
        # Click gives the pager `less` colours even where none are wanted.
        click.echo_via_pager(text if wants_colours() else click.unstyle(text))
        return
    # Line by line, because for one large write Python does not report a reader that is gone.
    for line in text.split("\n"):
        click.echo(line)


def _rows(text: str) -> int:
    width = max(1, columns())
    lines = click.unstyle(text).split("\n")
    return sum(max(1, -(-cells(line) // width)) for line in lines)


def _cells_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
