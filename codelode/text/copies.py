"""Write the copies of a hit as one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelode.counts import counted
from codelode.display import quoted

if TYPE_CHECKING:
    from codelode.client import Copy, Hit

#: Maximum number of copies of a hit that are named.
MAX_NAMED = 5


def copies_lines(hit: Hit) -> list[str]:
    """Return `also in 2 repositories: acme/fork, acme/app lib/a.py:3-9`; nothing without copies."""
    if not hit.copies:
        return []
    named = ", ".join(_place(copy, hit) for copy in hit.copies[:MAX_NAMED])
    more = len(hit.copies) - MAX_NAMED
    others = f" and {more:,} more" if more > 0 else ""
    return [f"also in {counted(len(hit.copies), 'repository')}: {named}{others}"]


def _place(copy: Copy, hit: Hit) -> str:
    """Return the repository of a copy, and its place and similarity if they differ from the hit."""
    at = f"{quoted(copy.path)}:{copy.start_line}-{copy.end_line}"
    # A compact hit begins at its definition. Copies of equal code that end on the same line as the
    # hit also begin on the same line.
    is_there = (copy.path, copy.end_line) == (hit.path, hit.end_line) and (
        copy.similarity == 1 or copy.start_line == hit.start_line
    )
    nearly = "" if copy.similarity == 1 else f" ({int(100 * copy.similarity)} % alike)"
    return f"{quoted(copy.repository)}{'' if is_there else f' {at}'}{nearly}"
