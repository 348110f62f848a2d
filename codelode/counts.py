"""Write counts as text: `1 file`, `2 files`, `3 repositories`."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return the count with its noun: `1 summary`, `1,204 summaries`."""
    return f"{count:,} {plural(count, noun)}"


def plural(count: int, noun: str) -> str:
    """Return the singular or plural of a regular English noun for the count."""
    if count == 1:
        return noun
    ends_in_ies = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{noun[:-1]}ies" if ends_in_ies else f"{noun}s"
