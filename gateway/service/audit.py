"""Add fields to the log line of the current call."""

from __future__ import annotations

import structlog


def note(**facts: object) -> None:
    """Add fields to the log line of the current call: identifiers and counts, never source text."""
    structlog.contextvars.bind_contextvars(**facts)
