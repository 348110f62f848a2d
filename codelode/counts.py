"""Counts as text: `1 file`, `2 files`, `3 repositories`."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """The count with its noun: `1 summary`, `1,204 summaries`."""
    return f"{count:,} {plural(count, noun)}"


def plural(count: int, noun: str) -> str:
    """The noun as it stands behind the count; regular English nouns only."""
    if count == 1:
        return noun
    ends_in_ies = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{noun[:-1]}ies" if ends_in_ies else f"{noun}s"
