"""Order the candidates: a ranking, best first, in which each entry has the parts of its score.

By default the linear ranker runs, and copies in other repositories are folded. Every other step
runs only if its option requests it. Raises Unavailable if the judge is requested and does not
answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from codelode.model import Candidate
from gateway.options import Centrality, Ranker, Reranker
from gateway.rank import fused, linear
from gateway.rank.centrality import by_centrality
from gateway.rank.copies import by_copies
from gateway.rank.duplicates import collapsed
from gateway.rank.rerank import by_cross_encoder, by_judge
from gateway.state import Analysis, Backends, Frame, Ranked, SearchState

#: Maximum number of candidates that are ranked on the event loop, which takes 3 ms. More are ranked
#: in a thread, which takes 0.1 ms longer but does not delay other calls.
MAX_AT_ONCE = 250

UNCHECKED = "confidence was not checked: no candidate has a vector similarity"

AMBIGUOUS = "{place!r} may be in any of {count} files: name its repository or more of its folders"

_RankFunction = Callable[[Analysis, Sequence[Candidate]], tuple[Ranked, ...]]


async def rank(state: SearchState, backends: Backends) -> SearchState:
    """Add the ranking of the candidates."""
    options = state.query.options.rank
    state = _confident(state)
    if state.has_abstained:
        return state
    if len(state.candidates) > MAX_AT_ONCE or state.alternates:
        ranking = await asyncio.to_thread(_first_ranking, state)
    else:
        ranking = _first_ranking(state)
    state = replace(state, ranking=ranking)
    if options.centrality is not Centrality.OFF:
        state = await by_centrality(state, backends.graph)
    if options.duplicate_similarity < 1:
        state = collapsed(state)
    if options.reranker is Reranker.CROSS_ENCODER:
        state = await by_cross_encoder(state, backends.cross_encoder)
    if options.reranker is Reranker.JUDGE:
        state = await by_judge(state, backends.language_model)
    if frames := state.analysis.frames:
        state = replace(state, ranking=_by_frames(state.ranking, frames))
        state = state.remarked(*_ambiguities(state.ranking, frames))
    return await by_copies(state, backends.history) if options.collapse_copies else state


def _confident(state: SearchState) -> SearchState:
    """Remove all candidates if the best cosine is below the requested confidence.

    Cosines of different queries can be compared; a score is relative to the other candidates.
    """
    least = state.query.options.rank.confidence
    found = [*state.candidates, *(one for other in state.alternates for one in other.candidates)]
    if not least or not found:
        return state
    known = [candidate.similarity for candidate in found if candidate.similarity is not None]
    if not known:
        return state.noticed(UNCHECKED)
    if max(known) >= least:
        return state
    remark = (
        f"abstained: the best similarity is {max(known):.2f}, below the requested confidence of "
        f"{least:.2f}"
    )
    return replace(state, candidates=(), alternates=(), has_abstained=True).remarked(remark)


def _first_ranking(state: SearchState) -> tuple[Ranked, ...]:
    """Rank the candidates of the query and of its alternate queries, if any."""
    rank_with = _ranker(state)
    ranking = rank_with(state.analysis, state.candidates)
    if not state.alternates:
        return ranking
    others = [rank_with(other.analysis, other.candidates) for other in state.alternates]
    return fused.merged([ranking, *others])


def _ranker(state: SearchState) -> _RankFunction:
    options = state.query.options
    if options.rank.ranker is Ranker.LINEAR:
        return linear.ranked
    return partial(
        fused.ranked,
        fusion=options.retrieve.fusion,
        alpha=options.retrieve.alpha,
        boost=options.rank.definition_boost,
    )


def _by_frames(ranking: Sequence[Ranked], frames: Sequence[Frame]) -> tuple[Ranked, ...]:
    """Move the chunks of the frames of a stack trace to the front, in the order of the frames.

    If several chunks define the function, the one with the line of the frame comes first. If
    several files have the name, those whose paths are most like that of the frame come first.
    """
    if not ranking:
        return ()
    found: dict[int, tuple[int, bool, int, bool]] = {}
    for at, entry in enumerate(ranking):
        chunk = entry.candidate.chunk
        number = next((n for n, frame in enumerate(frames) if frame.is_in(chunk)), None)
        if number is not None:
            frame, path = frames[number], chunk.path
            common = min(len(frame.path.lstrip("/")), len(path))
            is_at_line = chunk.start_line <= frame.line <= chunk.end_line
            found[at] = number, not is_at_line, -common, common < len(path)
    first = sorted(found, key=lambda at: found[at])
    best = ranking[0].score
    return (
        *(ranking[at].raised(best + len(first) - n, "rank.frame") for n, at in enumerate(first)),
        *(entry for at, entry in enumerate(ranking) if at not in found),
    )


def _ambiguities(ranking: Sequence[Ranked], frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return a remark if the first line of a file that was found is in several files."""
    chunks = [entry.candidate.chunk for entry in ranking]
    for frame in frames:
        files = {(chunk.repository, chunk.path) for chunk in chunks if frame.is_in(chunk)}
        if files:
            is_one = len(files) == 1 or frame.function
            place = f"{frame.path[-100:]}:{frame.line}"
            return () if is_one else (AMBIGUOUS.format(place=place, count=len(files)),)
    return ()
