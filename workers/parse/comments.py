"""The comments of a file by rows: what stands right above a row and belongs to it.

Found by their marks in the text, because grammars disagree on what a comment's parent is (Kotlin
puts the comment of the first class into the import list).
"""

from __future__ import annotations

from codelode.languages import Language
from workers.parse.lines import Lines

#: How far up the opener of a block comment is looked for, bytes.
MAX_BLOCK_BYTES = 8_000


class Comments:
    """Where comments start. Answers are kept, so asking for every row is linear."""

    __slots__ = ("_closer", "_line_mark", "_lines", "_opener", "_starts")

    def __init__(self, language: Language, lines: Lines) -> None:
        opener, closer = language.block_comment or ("", "")
        self._lines = lines
        self._line_mark = language.line_comment.encode()
        self._opener = opener.encode()
        self._closer = closer.encode()
        self._starts: dict[int, int] = {}

    def start(self, row: int) -> int:
        """The first row of the comments that end right above `row`; `row` when there are none."""
        known = self._starts.get(row)
        if known is not None:
            return known
        passed = []
        at = row
        while at > 0 and at not in self._starts:
            passed.append(at)
            above = self._above(at)
            if above is None:
                break
            at = above
        start = self._starts.get(at, at)
        self._starts.update((at, start) for at in passed)
        return start

    def _above(self, row: int) -> int | None:
        """The first row of the one comment that ends right above `row`."""
        text = self._lines.text(row - 1).strip()
        if not text:
            return None
        if self._line_mark and text.startswith(self._line_mark):
            return row - 1
        if self._closer and text.endswith(self._closer):
            return self._block_start(row)
        return None

    def _block_start(self, row: int) -> int | None:
        end = self._lines.start(row)
        start = self._lines.data.rfind(self._opener, max(0, end - MAX_BLOCK_BYTES), end)
        if start < 0:
            return None
        first = self._lines.row(start)
        return first if self._lines.begins(start, first) else None
