"""Rank the functions of a stack trace first, the innermost one that is indexed at the top."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.state import Frame, Ranked


def by_frames(ranking: Sequence[Ranked], frames: Sequence[Frame]) -> tuple[Ranked, ...]:
    """Move the chunks of the frames to the front, in the order of the frames.

    Of several chunks that define the function, the one with the line of the frame comes first.
    """
    if not ranking:
        return ()
    found: dict[int, tuple[int, bool]] = {}
    for at, entry in enumerate(ranking):
        chunk = entry.candidate.chunk
        number = next((n for n, frame in enumerate(frames) if frame.is_in(chunk)), None)
        if number is not None:
            found[at] = number, not chunk.start_line <= frames[number].line <= chunk.end_line
    first = sorted(found, key=lambda at: found[at])
    best = ranking[0].score
    return (
        *(ranking[at].raised(best + len(first) - n, "rank.frame") for n, at in enumerate(first)),
        *(entry for at, entry in enumerate(ranking) if at not in found),
    )
