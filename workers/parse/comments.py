"""Find the comments directly above a row of a file.

Comments are found by their delimiters in the text and not in the syntax tree, because grammars
disagree on the parent of a comment: Kotlin's puts the comment of the first class into the imports.
"""

from __future__ import annotations

from codelode.languages import Language
from workers.parse.lines import Lines

#: Maximum size of a block comment, bytes. Bounds the search for its opening delimiter.
MAX_BLOCK_BYTES = 8_000


class Comments:
    """Looks up the comments above rows, 0-based; cached, so that all rows take linear time."""

    __slots__ = ("_closers", "_line_openers", "_lines", "_opener", "_starts")

    def __init__(self, language: Language, lines: Lines) -> None:
        opener, closer = language.block_comment or ("", "")
        self._lines = lines
        # Tuples, because `startswith` matches nothing with an empty tuple, but all with b"".
        self._line_openers = (language.line_comment.encode(),) if language.line_comment else ()
        self._closers = (closer.encode(),) if closer else ()
        self._opener = opener.encode()
        self._starts: dict[int, int] = {}

    def start(self, row: int) -> int:
        """Return the first row of the comments that end in the row above; `row` if none does."""
        starts = self._starts
        visited = []
        at = row
        while at > 0 and at not in starts:
            visited.append(at)
            above = self._above(at)
            if above is None:
                break
            at = above
        start = starts.get(at, at)
        for at in visited:
            starts[at] = start
        return start

    def _above(self, row: int) -> int | None:
        """Return the first row of the comment that ends in the row above; None if none does."""
        text = self._lines.text(row - 1).strip()
        if text.startswith(self._line_openers):
            return row - 1
        if text.endswith(self._closers):
            return self._block_start(row)
        return None

    def _block_start(self, row: int) -> int | None:
        """Return the first row of the block comment that ends above `row`; None after code."""
        end = self._lines.start(row)
        start = self._lines.data.rfind(self._opener, max(0, end - MAX_BLOCK_BYTES), end)
        if start < 0:
            return None
        first = self._lines.row(start)
        return first if self._lines.begins(start, first) else None
