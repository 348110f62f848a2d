"""Translate between byte offsets and rows of a file.

A line ends after each `\n`, as in git, editors and tree-sitter; form feeds and lone carriage
returns are characters of a line. Rows are 0-based, as in tree-sitter; lines of the model are rows
+ 1.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

#: Maximum width of an indentation, bytes; the bound keeps the time for a very long line linear.
MAX_INDENT = 400

_BLANKS = b" \t\r\f\v"
_NEWLINE = ord("\n")


def _newlines(data: bytes) -> npt.NDArray[np.intp]:
    """Return the offsets of newlines, ascending."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)


class Lines:
    """The lines of `data` with their starts and their ink (bytes that are not whitespace)."""

    __slots__ = ("_ink", "_starts", "count", "data")

    def __init__(self, data: bytes) -> None:
        ink = data.translate(None, _BLANKS)
        newlines = _newlines(data)
        rows = len(newlines)
        self.data = data
        self._starts: list[int] = [0, *(newlines + 1).tolist()]
        self._ink: list[int] = [0, *(_newlines(ink) - np.arange(rows)).tolist()]
        if not rows or self._starts[-1] < len(data):  # the last line lacks its newline
            self._starts.append(len(data))
            self._ink.append(len(ink) - rows)
        self.count = len(self._starts) - 1

    def row(self, offset: int) -> int:
        """Return the row of the byte at `offset`; the last row for the end of the file."""
        return bisect_right(self._starts, offset, 0, self.count) - 1

    def start(self, row: int) -> int:
        """Return the offset of the first byte of a row; for `count`, of the end of the file."""
        return self._starts[row]

    def text(self, row: int) -> bytes:
        """Return the bytes of a row with its line end."""
        return self.data[self._starts[row] : self._starts[row + 1]]

    def ink(self, first: int, last: int) -> int:
        """Return the ink in rows [first, last)."""
        return self._ink[last] - self._ink[first]

    def begins(self, offset: int, row: int) -> bool:
        """Return whether there is only whitespace between the start of the row and `offset`."""
        start = self._starts[row]
        if offset - start > MAX_INDENT:
            return False
        return offset == start or self.data[start:offset].isspace()

    def before(self, offset: int, row: int) -> bytes:
        """Return the text before `offset` on its row, at most MAX_INDENT bytes."""
        return self.data[max(self._starts[row], offset - MAX_INDENT) : offset]
