"""Have a language model summarise each chunk and each file (enrich stage).

In: parsed files with their paths. Out: per file its summaries and the number of missing ones. If
the model fails, answers nonsense, or the budget is used up, a summary is missing: that is counted
and raises no error. Raises what the budget raises.
"""

from __future__ import annotations

from workers.enrich.priority import by_priority
from workers.enrich.prompt import MAX_ANSWER_TOKENS, PROMPT_VERSION
from workers.enrich.summaries import Enriched, Enricher, prompts, unasked

__all__ = [
    "MAX_ANSWER_TOKENS",
    "PROMPT_VERSION",
    "Enriched",
    "Enricher",
    "by_priority",
    "prompts",
    "unasked",
]
