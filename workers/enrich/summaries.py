"""Summarise files: reuse cached summaries, and request the others within the budget.

The subject of a summary is a chunk's content or a file's outline; equal subjects are requested
once. Summaries are cached after each batch, so after a crash or a timeout the next call continues
where the previous one stopped.

If the model refuses a subject or answers nonsense, an empty summary is cached, so that the subject
is not requested again. Empty summaries are cached only if the same batch has another summary,
because a misconfigured server refuses everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import structlog

from codelode.errors import CodelodeError, Rejected, TimedOut
from codelode.model import Chunk, ParsedFile, RepositoryName, RunId, Summaries, locate
from codelode.ports import (
    FAILED_BATCHES_TO_STOP,
    DerivationKey,
    Derivations,
    LanguageModel,
    SummaryBudget,
)
from workers import derivations
from workers.enrich.outline import outline
from workers.enrich.priority import exported, file_share, needs_summary, share
from workers.enrich.prompt import MAX_ANSWER_TOKENS, PROMPT_VERSION, ask, clean

#: Pause after a batch whose calls all failed, seconds. FAILED_BATCHES_TO_STOP such batches end the
#: enrichment of the run, so the pauses must give a server time to restart. After a failure, the
#: model client does not call a server for a while; a pause shorter than that would make the next
#: batch fail at once.
PAUSE_S = 10.0

#: Maximum number of attempts of a call, including the first.
ATTEMPTS = 3

#: No batch begins after this time, seconds: a job must end well within the lease of its claim.
TIME_LIMIT_S = 60.0

log = structlog.get_logger("workers")


class Enriched(NamedTuple):
    """The summaries of one file, as far as they exist."""

    summaries: Summaries
    is_finished: bool = True  # False: the time limit was reached; another call continues


class _Subject(NamedTuple):
    """The subject of a summary: a chunk by its content, or a file by its outline."""

    content: str
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class _Wish:
    """A request for the summary of one subject."""

    subject: _Subject
    language: str
    share: float


class _File(NamedTuple):
    """A file's chunks, and the subjects to summarise: some of the chunks, and perhaps the file."""

    path: str
    parsed: ParsedFile
    chunks: tuple[Chunk, ...]
    summarised: tuple[Chunk, ...]
    whole: _Subject | None

    @classmethod
    def of(cls, path: str, parsed: ParsedFile) -> _File:
        chunks = locate(parsed, repository=RepositoryName(""), path=path, refs=())
        summarised = tuple(filter(needs_summary, chunks))
        # The summary of a single chunk describes its whole file.
        whole = _Subject(outline(parsed), is_file=True) if len(summarised) > 1 else None
        return cls(path, parsed, chunks, summarised, whole)

    @property
    def subjects(self) -> list[_Subject]:
        """Return all subjects of the file; equal ones are repeated."""
        of_chunks = [_Subject(chunk.content) for chunk in self.summarised]
        return of_chunks if self.whole is None else [*of_chunks, self.whole]


@dataclass(frozen=True)
class Enricher:
    """Requests summaries from `model` within `budget`, up to `concurrency` at once."""

    model: LanguageModel
    derivations: Derivations
    budget: SummaryBudget
    concurrency: int = 4
    pause_s: float = PAUSE_S
    time_limit_s: float = TIME_LIMIT_S
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __call__(
        self,
        run: RunId,
        files: Sequence[tuple[str, ParsedFile]],
        *,
        importers: Mapping[str, int],
    ) -> tuple[Enriched, ...]:
        """Summarise each (path, parsed file); `importers`: number of importers of each path."""
        found = [_File.of(path, parsed) for path, parsed in files]
        wishes = _wishes(found, importers=importers)
        known, left = self._known(run, wishes) if wishes else ({}, frozenset())
        return tuple(_enriched(file, known, left) for file in found)

    def _known(
        self, run: RunId, wishes: Mapping[_Subject, _Wish]
    ) -> tuple[dict[_Subject, str], frozenset[_Subject]]:
        """Return the summaries by subject, and the subjects that the time limit left out."""
        identity = self._identity(run)
        if identity is None:
            return {}, frozenset()
        keys = {subject: _key(wish, identity) for subject, wish in wishes.items()}
        stored = self.derivations.get(list(keys.values()))
        known = {
            subject: value.decode()
            for subject, value in zip(keys, stored, strict=True)
            if value is not None
        }
        left = [wish for subject, wish in wishes.items() if subject not in known]
        left.sort(key=lambda wish: -wish.share)
        deadline = self.clock() + self.time_limit_s
        while left and self.clock() <= deadline:
            made = self._made(run, left[: self._batch], deadline=deadline)
            self.derivations.put({keys[subject]: text.encode() for subject, text in made.items()})
            known |= made
            left = left[self._batch :]
        return known, frozenset(wish.subject for wish in left)

    def _identity(self, run: RunId) -> str | None:
        """Return the identity of the model, or None if it does not answer."""
        for _ in range(FAILED_BATCHES_TO_STOP):
            try:
                return self.model.identity
            except CodelodeError as exc:
                if self._failed(run, exc):
                    break
        return None

    def _made(self, run: RunId, wishes: Sequence[_Wish], *, deadline: float) -> dict[_Subject, str]:
        """Request the summaries that the budget grants; return those that were answered.

        Failed calls are repeated, after a pause if all failed, unless the enrichment of the run has
        ended. A call may fail repeatedly because of its subject, which must not end enrichment: the
        batch counts as failed only if several subjects failed and no call was ever answered.
        """
        made: dict[_Subject, str] = {}
        for attempt in range(ATTEMPTS):
            granted = self._granted(run, wishes)
            answers = list(zip(granted, self._threads.map(self._summary, granted), strict=True))
            made |= {wish.subject: text for wish, text in answers if isinstance(text, str)}
            errors = [(wish, exc) for wish, exc in answers if isinstance(exc, CodelodeError)]
            if errors and len(errors) == len(granted):
                counts = attempt == 0 or (not made and len(errors) > 1)
                if self._failed(run, errors[0][1], calls=len(errors), counts=counts):
                    break
            else:
                self.budget.settle(run, made=len(granted) - len(errors), failed=len(errors))
                errors = [(wish, exc) for wish, exc in errors if not isinstance(exc, TimedOut)]
            wishes = [wish for wish, _ in errors]
            if not wishes or self.clock() > deadline:
                break
        return made if any(made.values()) else {}

    def _granted(self, run: RunId, wishes: Sequence[_Wish]) -> list[_Wish]:
        """Return the requests that fit into the budget; `wishes` are ordered by share."""
        granted: list[_Wish] = []
        for part, group in groupby(wishes, key=lambda wish: wish.share):
            requested = list(group)
            granted += requested[: self.budget.take(run, len(requested), share=part)]
        return granted

    def _summary(self, wish: _Wish) -> str | CodelodeError:
        """Return the summary (empty if the model refuses), or the error of the call."""
        content, is_file = wish.subject
        question, fence = ask(content, language=wish.language, is_file=is_file)
        try:
            answer = self.model.complete(question, max_tokens=MAX_ANSWER_TOKENS)
        except Rejected:
            return ""
        except CodelodeError as exc:
            return exc
        return clean(answer, fence=fence)

    def _failed(
        self, run: RunId, error: CodelodeError, *, calls: int = 1, counts: bool = True
    ) -> bool:
        """Pause after a batch of failed calls; return whether enrichment of the run ends.

        `counts`: whether the batch counts towards FAILED_BATCHES_TO_STOP.
        """
        if self.budget.is_stopped(run):
            return True
        if self.budget.settle(run, made=0, failed=calls if counts else 0):
            log.warning("enrichment_stopped", run=run, reason=str(error))
            return True
        log.warning("enrichment_failed", run=run, calls=calls, reason=str(error))
        self.sleep(self.pause_s)
        return False

    @property
    def _batch(self) -> int:
        """Return the calls per batch: few enough to end soon, enough to keep all threads busy."""
        return 2 * self.concurrency

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.concurrency, thread_name_prefix="enrich")


def prompts(path: str, parsed: ParsedFile) -> list[str]:
    """Return the prompts for all summaries of a file."""
    return [
        ask(subject.content, language=parsed.language, is_file=subject.is_file)[0]
        for subject in _File.of(path, parsed).subjects
    ]


def unasked(path: str, parsed: ParsedFile) -> Enriched:
    """Return the result for a file without a model call: all its summaries are missing."""
    return Enriched(Summaries(missing=len(_File.of(path, parsed).subjects)))


def _wishes(files: Sequence[_File], *, importers: Mapping[str, int]) -> dict[_Subject, _Wish]:
    """Return the distinct subjects, each with the highest priority of its occurrences."""
    wishes: dict[_Subject, _Wish] = {}
    for file in files:
        into = importers.get(file.path, 0)
        for subject, part in _shares(file, importers=into):
            before = wishes.get(subject)
            if before is None or before.share < part:
                wishes[subject] = _Wish(subject, file.parsed.language, part)
    return wishes


def _shares(file: _File, *, importers: int) -> Iterator[tuple[_Subject, float]]:
    shown = exported(file.parsed)
    for chunk in file.summarised:
        part = share(chunk, is_exported=chunk.symbol in shown, importers=importers)
        yield _Subject(chunk.content), part
    if file.whole is not None:
        yield file.whole, file_share(file.parsed, importers=importers)


def _enriched(file: _File, known: Mapping[_Subject, str], left: frozenset[_Subject]) -> Enriched:
    summaries = Summaries(
        chunks=tuple(known.get(_Subject(chunk.content), "") for chunk in file.chunks),
        file=known.get(file.whole, "") if file.whole else "",
        missing=sum(subject not in known for subject in file.subjects),
    )
    return Enriched(summaries, is_finished=left.isdisjoint(file.subjects))


def _key(wish: _Wish, identity: str) -> DerivationKey:
    content, is_file = wish.subject
    prompt = f"{PROMPT_VERSION} file" if is_file else PROMPT_VERSION
    return derivations.of_summary(content, language=wish.language, model=identity, prompt=prompt)
