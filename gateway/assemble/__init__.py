"""A ranking → the hits of the answer: the page of it, explained. Pure; empty is an answer."""

from __future__ import annotations

from dataclasses import replace

from codelode.model import Candidate, Hit, Match
from gateway.assemble.compact import compacted
from gateway.assemble.named import asked_names, under_name
from gateway.state import Backends, Ranked, SearchState, estimated_tokens

#: Tokens of the hits beyond which hardly a language model reads them.
MAX_TOKENS = 100_000


async def assemble(state: SearchState, _backends: Backends) -> SearchState:
    """Adds the hits."""
    asked = asked_names(state.analysis.identifiers, state.query.filters.symbols)
    hits = tuple(under_name(hit(place), asked) for place in state.page)
    if state.query.options.assemble.compact:
        hits = tuple(map(compacted, hits))
    tokens = sum(estimated_tokens(hit.chunk.content) for hit in hits)
    tokens += sum(estimated_tokens(passage.content) for passage in state.passages.values())
    state = replace(state, hits=hits, tokens=tokens)
    return state.remarked(_too_much(tokens)) if tokens > MAX_TOKENS else state


def hit(place: Ranked) -> Hit:
    """A place as a hit; the parts that add nothing to its score are left out."""
    parts = tuple(part for part in zip(place.names, place.parts, strict=True) if part[1])
    return Hit(place.candidate.chunk, place.score, match(place.candidate), parts)


def match(candidate: Candidate) -> Match:
    """Which side of the index found it."""
    if candidate.keyword_score is None:
        return Match.SEMANTIC
    return Match.KEYWORD if candidate.similarity is None else Match.BOTH


def _too_much(tokens: int) -> str:
    return (
        f"the hits hold about {tokens:,} tokens, more than {MAX_TOKENS:,}: lower top_k, set "
        "options.assemble.compact, or ask for a context, which keeps to a budget"
    )
