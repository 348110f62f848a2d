"""Fit output to the terminal: its width, its height, and its pager.

Standard output that is not a terminal gets everything at once, without colours.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial

import click

from codelode.environment import wants_colours
from codelode.text.columns import cells
from codelode.text.excerpts import MAX_COLUMNS, Look

#: Columns of a tab on a terminal. The usual 8 leave little room next to line numbers.
TAB_COLUMNS = 4


def columns() -> int:
    """Return the width of the terminal, or MAX_COLUMNS if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_COLUMNS


def look() -> Look:
    """Return how lines are shown on standard output."""
    return Look(
        columns(),
        TAB_COLUMNS if sys.stdout.isatty() else 0,
        faint=partial(click.style, dim=True),
        match=partial(click.style, fg="red", bold=True),
    )


def show(text: str) -> None:
    """Print the text on standard output, through $PAGER if it does not fit on the terminal."""
    if sys.stdout.isatty() and _rows(text) >= shutil.get_terminal_size().lines:
        # Click passes colours to the pager `less` even if none are wanted.
        click.echo_via_pager(text if wants_colours() else click.unstyle(text))
        return
    # Line by line: after one large write, Python does not report that the reader is gone.
    for line in text.split("\n"):
        click.echo(line)


def _rows(text: str) -> int:
    width = max(1, columns())
    lines = click.unstyle(text).split("\n")
    return sum(max(1, -(-cells(line) // width)) for line in lines)
