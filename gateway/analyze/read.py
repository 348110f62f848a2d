"""The optional part of the analysis: intent and names always, the rest where it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.analyze.filters import inferred
from gateway.analyze.intent import entities, intent
from gateway.analyze.rewrite import alternates
from gateway.analyze.synonyms import synonyms
from gateway.state import Analysis, Backends, Found, SearchState


async def read(
    state: SearchState, backends: Backends, *, analysis: Callable[[str], Analysis]
) -> SearchState:
    """Adds the analysis of the query, and what the options add to the query."""
    text, options = state.query.text, state.query.options.analyze
    found = analysis(text)
    found = replace(found, intent=intent(text, found.kind), entities=entities(text))
    if options.synonyms:
        found = replace(found, synonyms=synonyms(found.words))
    state = replace(state, analysis=found)
    if options.infer_filters:
        state = _limited(state)
    if options.rewrite:
        others, notices = await alternates(text, backends.language_model)
        wordings = tuple(Found(other, analysis(other)) for other in others)
        state = replace(state, alternates=wordings).noticed(*notices)
    return state


def _limited(state: SearchState) -> SearchState:
    filters, notices = inferred(state.query.text, state.query.filters)
    query = replace(state.query, filters=filters)
    return replace(state, query=query).remarked(*notices)
