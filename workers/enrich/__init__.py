"""Enrich stage: parsed files → a summary of each chunk and each file, by a language model.

In: parsed files with their paths. Out: per file its summaries and how many are missing. A model
that fails, answers nonsense or may not be asked any more leaves a chunk or a file without a
summary: that is counted and never raised. Raises what the budget raises.
"""

from __future__ import annotations

from workers.enrich.priority import by_priority
from workers.enrich.prompt import PROMPT_VERSION
from workers.enrich.summaries import Enriched, Enricher, unasked

__all__ = ["PROMPT_VERSION", "Enriched", "Enricher", "by_priority", "unasked"]
