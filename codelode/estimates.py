"""Describe the work of a run that was planned but not begun.

The files to index, and the reasons for leaving out others, are exact. Chunks, tokens, and the
processor time of parsing are extrapolated from a sample of the files, by the bytes of each
language. The time of the run follows from that of parsing, unless a model server elsewhere embeds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

#: Processor time of a run for each file, and for each second that its plan takes to parse, seconds.
#: Fitted to 19 runs of ten repositories with the embedded store and embedder. When the runs were
#: repeated, the estimated duration was within a fifth of the measured one for all of them. The
#: estimated processor time, which varies with the load of the machine, was for 11 of them
#: (tests/bench/results/2026-11-26-plan-parsing.json).
FILE_S, PER_PARSING_S = 0.0099, 2.6

#: Processor time for each run and each chunk, seconds: a less accurate estimate without parsing.
RUN_S, CHUNK_S = 0.2, 0.0019

#: Time that a run waits in addition, for messages and for git to pull a small change, seconds.
WAIT_S = 0.6

#: The fraction of its cores that a run keeps busy: its processes sometimes wait for each other.
CORE_RATE = 0.8


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
    """The work of a run that was planned but not begun.

    `files`, `chunks`, and `tokens` are the sums over the languages. Summaries are 0 without a
    language model, and at most as many as the settings allow in a run.
    """

    languages: tuple[LanguageEstimate, ...] = ()  # most bytes first
    skipped: tuple[SkippedFiles, ...] = ()  # most files first
    removals: int = 0  # files that the run would remove from the index
    summaries: int = 0
    summary_tokens: int = 0  # of prompts and answers
    sampled: int = 0  # files that were parsed for this
    seconds: float = 0.0  # duration if no other run is active; 0: the embedder's speed is unknown
    pull_s: float = 0.0  # the part of `seconds` that git takes before anything is indexed

    @property
    def work_s(self) -> float:
        """Return the processor time of the run, estimated from its files and chunks, seconds."""
        return work_s(self.files + self.removals, self.chunks)

    @property
    def files(self) -> int:
        return sum(one.files for one in self.languages)

    @property
    def chunks(self) -> int:
        return sum(one.chunks for one in self.languages)

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.languages)


def work_s(files: int, chunks: float) -> float:
    """Estimate the processor time of a run by the number of its files and chunks, seconds."""
    return RUN_S + files * FILE_S + chunks * CHUNK_S


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
