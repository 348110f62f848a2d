"""Whether anything was found that is worth showing.

The gate compares the best cosine, which means the same for every query, and not the best score,
which is relative to the other candidates.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.state import SearchState

UNCHECKED = "confidence was not checked: no candidate was compared by its vector"


def gate(state: SearchState) -> SearchState:
    """The state, without candidates when the best of them is below the asked confidence."""
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
        f"abstained: the best similarity is {max(known):.2f}, below the asked confidence of "
        f"{least:.2f}"
    )
    return replace(state, candidates=(), alternates=(), has_abstained=True).remarked(remark)
