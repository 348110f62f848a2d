"""Analyze the query: its kind, words, names, and intent, and what the options add to it."""

from __future__ import annotations

from dataclasses import replace

from gateway.analyze.filters import inferred
from gateway.analyze.frames import frames
from gateway.analyze.intent import entities, intent
from gateway.analyze.query import analysis
from gateway.analyze.rewrite import NOT_STAGED, alternates
from gateway.analyze.synonyms import synonyms
from gateway.analyze.used import used
from gateway.options import Mode
from gateway.state import AlternateQuery, Backends, SearchState


async def analyze(state: SearchState, backends: Backends) -> SearchState:
    """Add the analysis of the query, and what the options add to the query."""
    text, options = state.query.text, state.query.options.analyze
    found = analysis(text)
    found = replace(
        found,
        intent=intent(text, found.kind),
        entities=entities(text),
        frames=frames(text),
        used=used(text),
    )
    if options.synonyms:
        found = replace(found, synonyms=synonyms(found.words))
    state = replace(state, analysis=found)
    if options.infer_filters:
        state = _with_inferred_filters(state)
    if options.rewrite and state.query.options.retrieve.mode is Mode.STAGED:
        state = state.remarked(NOT_STAGED)
    elif options.rewrite:
        others, notices = await alternates(text, backends.language_model)
        queries = tuple(AlternateQuery(other, analysis(other)) for other in others)
        state = replace(state, alternates=queries).noticed(*notices)
    return state


def _with_inferred_filters(state: SearchState) -> SearchState:
    filters, notices = inferred(state.query.text, state.query.filters)
    query = replace(state.query, filters=filters)
    return replace(state, query=query).remarked(*notices)
