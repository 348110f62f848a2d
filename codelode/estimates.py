"""Describe the work of a run that was planned and not begun.

Which files a run indexes, and why it leaves out others, is exact. Chunks and tokens are those of a
sample of the files, in proportion to the bytes of each language.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class LanguageEstimate:
    """The files of a language that the run would index."""

    language: str
    files: int
    size_bytes: int
    chunks: int
    tokens: int  # of the texts that are embedded


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """The number of files that are left out for a reason."""

    reason: str
    files: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The work of a run that was planned and not begun.

    `files`, `chunks`, and `tokens` are the sums over the languages. Summaries are 0 without a
    language model, and at most as many as the settings allow in a run.
    """

    languages: tuple[LanguageEstimate, ...] = ()  # most bytes first
    skipped: tuple[SkippedFiles, ...] = ()  # most files first
    removals: int = 0  # files that the run would remove from the index
    summaries: int = 0
    summary_tokens: int = 0  # of prompts and answers
    sampled: int = 0  # files that were parsed for this

    @property
    def files(self) -> int:
        return sum(one.files for one in self.languages)

    @property
    def chunks(self) -> int:
        return sum(one.chunks for one in self.languages)

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.languages)


def dump(estimate: Estimate) -> str:
    """Return the estimate as JSON."""
    return json.dumps(asdict(estimate))


def load(text: str) -> Estimate | None:
    """Return the estimate that `dump` wrote; None for an empty text."""
    if not text:
        return None
    fields = json.loads(text)
    languages = tuple(LanguageEstimate(**one) for one in fields.pop("languages"))
    skipped = tuple(SkippedFiles(**one) for one in fields.pop("skipped"))
    return Estimate(languages, skipped, **fields)
