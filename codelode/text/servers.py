"""Describe the state of the store and the models, in the words that all faces share."""

from __future__ import annotations

from codelode.counts import counted


def summary(version: str, chunks: int, store: str, embedder: str) -> str:
    """Return `codelode 1.2.3: 1,204 chunks, local, static-256`; what is not known is left out."""
    known = (counted(chunks, "chunk") if chunks >= 0 else "", store, embedder)
    return f"codelode {version}: {', '.join(filter(None, known))}"


def server_state(problem: str) -> str:
    """Return `answers`, or why it does not."""
    return " ".join(problem.split()) or "answers"
