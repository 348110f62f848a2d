"""Describe the work of a run that was planned and not begun.

Which files a run indexes, and why it leaves out others, is exact. Chunks and tokens are those of a
sample of the files, in proportion to the bytes of each language. So is the processor time that
parsing takes, from which the time of the run follows, unless a model server elsewhere embeds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

#: Processor time for each file, and for each second that parsing takes in the process of a plan,
#: fitted to 19 runs of ten repositories with the embedded store and embedder. When these were
#: repeated, the time that follows was within a fifth for all of them, and the processor time, which
#: varies with what else the machine does, for 11 of them
#: (tests/bench/results/2026-11-26-plan-parsing.json).
FILE_S, PER_PARSING_S = 0.0099, 2.6

#: The same for a run and a chunk, where nothing was parsed; these say less.
RUN_S, CHUNK_S = 0.2, 0.0019

#: Time for which a run waits besides, for messages and for git to pull little, seconds.
WAIT_S = 0.6

#: The part of a core that the processes of a run keep busy: they wait for each other now and then.
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
    seconds: float = 0.0  # that a run takes if no other goes on; 0: the embedder's speed is unknown
    pull_s: float = 0.0  # of these for git, before anything is indexed

    @property
    def work_s(self) -> float:
        """Return the processor time that the run takes, by the number of files and chunks."""
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
    """Return the processor time that a run of files with so many chunks takes."""
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
