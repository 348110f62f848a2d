"""Find the comments directly above a row of a file.

They are found by their marks in the text, because grammars disagree on the parent of a comment:
Kotlin's puts the comment of the first class into the import list.
"""

from __future__ import annotations

from codelode.languages import Language
from workers.parse.lines import Lines

#: Longest block comment whose start is looked for, bytes.
MAX_BLOCK_BYTES = 8_000


class Comments:
    """The start rows of comments. Results are cached, so looking up every row is linear."""

    __slots__ = ("_closers", "_line_marks", "_lines", "_opener", "_starts")

    def __init__(self, language: Language, lines: Lines) -> None:
        opener, closer = language.block_comment or ("", "")
        self._lines = lines
        # Empty tuples match nothing.
        self._line_marks = (language.line_comment.encode(),) if language.line_comment else ()
        self._closers = (closer.encode(),) if closer else ()
        self._opener = opener.encode()
        self._starts: dict[int, int] = {}

    def start(self, row: int) -> int:
        """Return the first row of the comments that end right above `row`; `row` without any."""
        starts = self._starts
        if row in starts:
            return starts[row]
        passed = []
        at = row
        while at > 0 and at not in starts:
            passed.append(at)
            above = self._above(at)
            if above is None:
                break
            at = above
        start = starts.get(at, at)
        for at in passed:
            starts[at] = start
        return start

    def _above(self, row: int) -> int | None:
        """Return the first row of the one comment that ends right above `row`."""
        text = self._lines.text(row - 1).strip()
        if text.startswith(self._line_marks):
            return row - 1
        if text.endswith(self._closers):
            return self._block_start(row)
        return None

    def _block_start(self, row: int) -> int | None:
        end = self._lines.start(row)
        start = self._lines.data.rfind(self._opener, max(0, end - MAX_BLOCK_BYTES), end)
        if start < 0:
            return None
        first = self._lines.row(start)
        return first if self._lines.begins(start, first) else None
