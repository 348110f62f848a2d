"""Say which lines of a file the filters of its chunks admit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codelode import globs
from codelode.model import Chunk, Filters


def admits_parts(filters: Filters) -> bool:
    """Return whether the filters may admit a part of a file alone."""
    return bool(filters.kinds or filters.symbols or filters.block_types)


def admitted(chunks: Sequence[Chunk], filters: Filters) -> Callable[[int], bool]:
    """Return a test whether a line is in a chunk that the filters admit."""
    if not admits_parts(filters):
        return lambda _: True  # the whole file is inside
    ranges = [
        range(chunk.start_line, chunk.end_line + 1)
        for chunk in chunks
        if globs.is_inside(chunk, filters)
    ]
    return lambda number: any(number in one for one in ranges)
