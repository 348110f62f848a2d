"""Describe the work of a run that was planned and not begun.

Which files a run indexes, and why it leaves out others, is exact. Chunks and tokens are those of a
sample of the files, in proportion to the bytes of each language. Time follows from files and
chunks: with the embedded store and embedder, the processor time of runs was within a fifth of
`work_s` (tests/bench/results/2026-11-26-plan.txt). How fast that goes is measured.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

#: Processor time for a run, for each file, and for each chunk, on a busy machine, seconds.
RUN_S, FILE_S, CHUNK_S = 0.6, 0.0078, 0.0016

#: Time for which a run waits besides, for messages and for git to pull little, seconds.
WAIT_S = 0.8

#: Processor time, as above, that a second has on an idle core: 16,018 files took 84 s on two cores,
#: and 236 files 2.7 s (docs/measurements.md).
CORE_RATE = 1.34


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
    seconds: float = 0.0  # that a run takes by the speed of the sample, if nothing else goes on
    pull_s: float = 0.0  # of these for git, before anything is indexed

    @property
    def work_s(self) -> float:
        """Return the processor time that the run takes."""
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
