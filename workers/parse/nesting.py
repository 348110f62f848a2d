"""Find texts that are nested more deeply than their grammar can parse.

The scanner of the YAML grammar keeps the columns of all open blocks in 1,024 bytes and writes past
their end: with 254 blocks the process crashes.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Maximum number of columns at which blocks may be open. A column can have two blocks, a mapping
#: and the sequence that is its value, so 128 columns would be too many.
MAX_COLUMNS = 100

_INDICATORS = (b"-", b"?", b":")


def is_too_deep(grammar: str, utf8: bytes) -> bool:
    """Return whether the grammar could crash. Takes linear time; text in scalars counts too."""
    if grammar != "yaml":
        return False
    open_at: list[int] = []
    for line in utf8.splitlines():
        for column in _columns(line):
            while open_at and open_at[-1] >= column:
                open_at.pop()
            open_at.append(column)
            if len(open_at) > MAX_COLUMNS:
                return True
    return False


def _columns(line: bytes) -> Iterator[int]:
    """Yield the columns at which a line opens blocks: of each indicator, and of the text after."""
    column = len(line) - len(line.lstrip(b" "))
    while line[column : column + 1] in _INDICATORS and line[column + 1 : column + 2] in b" \t":
        yield column
        column += 1
        while line[column : column + 1] in (b" ", b"\t"):
            column += 1
    if column < len(line):
        yield column
