"""Some files: what is known already is reused, the rest is asked for within the budget.

A content is asked for once however often it occurs, and what was made is kept batch by batch, so
whoever comes next, after a crash or because the time was up, goes on where this one stopped.

That the model has nothing to say of a content, because it refuses it or answers with nonsense, is
kept too, as an empty sentence: nobody asks again. It is believed only beside a sentence that was
made in the same batch, because a server that is set up wrongly refuses everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import structlog

from codelode import derivations
from codelode.errors import CodelodeError, Rejected, TimedOut
from codelode.model import Chunk, ParsedFile, RepositoryName, RunId, locate
from codelode.ports import (
    FAILED_BATCHES_TO_STOP,
    DerivationKey,
    Derivations,
    LanguageModel,
    SummaryBudget,
)
from workers.enrich.prompt import MAX_ANSWER_TOKENS, PROMPT_VERSION, ask, clean
from workers.enrich.wanted import exported, is_wanted, share

#: After a batch of which every call failed, before it or the next one is asked for, seconds: a
#: server that restarts should find its run still there, and three such batches end it. As long as
#: such a server is left alone, or the next batch would not even ask it.
PAUSE_S = 10.0

#: How often a content whose call fails is asked for, the first time included.
ATTEMPTS = 3

#: No batch begins after so many seconds: a job must end well within the lease of its claim.
PATIENCE_S = 60.0

log = structlog.get_logger("workers")


@dataclass(frozen=True, slots=True)
class Summaries:
    """Of one file: a sentence per chunk in the order of `locate`, empty where there is none."""

    texts: tuple[str, ...]
    missing: int = 0  # chunks that should have one, and may get it when asked for again
    is_finished: bool = True  # False: the time was up; asking again goes on

    @property
    def made(self) -> int:
        return sum(map(bool, self.texts))


@dataclass(frozen=True, slots=True)
class _Wish:
    """One content that a summary is wanted for."""

    content: str
    language: str
    share: float


@dataclass(frozen=True)
class Enricher:
    """Asks `model` within `budget`, up to `concurrency` questions at once."""

    model: LanguageModel
    derivations: Derivations
    budget: SummaryBudget
    concurrency: int = 4
    pause_s: float = PAUSE_S
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __call__(
        self,
        run: RunId,
        files: Sequence[tuple[str, ParsedFile]],
        *,
        importers: Mapping[str, int],
    ) -> tuple[Summaries, ...]:
        """Summaries of each (path, parsed file); `importers`: files that import the path."""
        chunks = [_chunks(path, parsed) for path, parsed in files]
        wishes = _wishes(files, chunks, importers=importers)
        known, left = self._known(run, wishes) if wishes else ({}, frozenset())
        return tuple(_of_file(file, known, left) for file in chunks)

    def _known(
        self, run: RunId, wishes: Mapping[str, _Wish]
    ) -> tuple[dict[str, str], frozenset[str]]:
        """Content → summary, as far as that is known now; contents there was no time for."""
        identity = self._identity(run)
        if identity is None:
            return {}, frozenset()
        keys = {content: _key(wish, identity) for content, wish in wishes.items()}
        stored = self.derivations.get(list(keys.values()))
        known = {
            content: value.decode()
            for content, value in zip(keys, stored, strict=True)
            if value is not None
        }
        left = [wish for content, wish in wishes.items() if content not in known]
        left.sort(key=lambda wish: -wish.share)
        deadline = self.clock() + self.patience_s
        while left and self.clock() <= deadline:
            made = self._made(run, left[: self._batch], deadline=deadline)
            self.derivations.put({keys[content]: text.encode() for content, text in made.items()})
            known |= made
            left = left[self._batch :]
        return known, frozenset(wish.content for wish in left)

    def _identity(self, run: RunId) -> str | None:
        """Of the model; None when it cannot be had."""
        for _ in range(FAILED_BATCHES_TO_STOP):
            try:
                return self.model.identity
            except CodelodeError as exc:
                if self._failed(run, exc):
                    break
        return None

    def _made(self, run: RunId, wishes: Sequence[_Wish], *, deadline: float) -> dict[str, str]:
        """Content → summary, of those that were granted and answered; empty: there can be none.

        What failed is asked again, after a pause if everything did, unless that was the end of
        the run's enrichment. That a content fails once more may be its own fault and must not end
        the run: it counts only beside others of which none was ever answered.
        """
        made: dict[str, str] = {}
        for attempt in range(ATTEMPTS):
            granted = self._granted(run, wishes)
            answers = list(zip(granted, self._threads.map(self._summary, granted), strict=True))
            made |= {wish.content: text for wish, text in answers if isinstance(text, str)}
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
        """As many as the budget has calls for; `wishes` in the order of their shares."""
        granted: list[_Wish] = []
        for part, group in groupby(wishes, key=lambda wish: wish.share):
            wanted = list(group)
            granted += wanted[: self.budget.take(run, len(wanted), share=part)]
        return granted

    def _summary(self, wish: _Wish) -> str | CodelodeError:
        """The sentence, empty when there can be none, or why there is none now."""
        question, fence = ask(wish.content, language=wish.language)
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
        """Pause after a batch of which every call failed; returns whether that ended it all.

        `counts`: as one of those that do.
        """
        if self.budget.is_stopped(run):
            return True
        if self.budget.settle(run, made=0, failed=calls if counts else 0):
            log.warning("enrichment_stopped", run=run, reason=str(error))
            return True
        log.warning("enrichment_failed", run=run, chunks=calls, reason=str(error))
        self.sleep(self.pause_s)
        return False

    @property
    def _batch(self) -> int:
        """Questions asked together: few enough to end soon, enough to keep all askers busy."""
        return 2 * self.concurrency

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.concurrency, thread_name_prefix="enrich")


def _chunks(path: str, parsed: ParsedFile) -> tuple[Chunk, ...]:
    return locate(parsed, repository=RepositoryName(""), path=path, refs=())


def _wishes(
    files: Sequence[tuple[str, ParsedFile]],
    chunks: Sequence[Sequence[Chunk]],
    *,
    importers: Mapping[str, int],
) -> dict[str, _Wish]:
    """Distinct contents, each as much wanted as its most wanted place."""
    wishes: dict[str, _Wish] = {}
    for (path, parsed), found in zip(files, chunks, strict=True):
        shown = exported(parsed)
        for chunk in filter(is_wanted, found):
            part = share(chunk, is_exported=chunk.symbol in shown, importers=importers.get(path, 0))
            before = wishes.get(chunk.content)
            if before is None or before.share < part:
                wishes[chunk.content] = _Wish(chunk.content, chunk.language, part)
    return wishes


def _of_file(chunks: Sequence[Chunk], known: Mapping[str, str], left: frozenset[str]) -> Summaries:
    texts = tuple(known.get(chunk.content, "") for chunk in chunks)
    missing = sum(is_wanted(chunk) and chunk.content not in known for chunk in chunks)
    return Summaries(texts, missing, not any(chunk.content in left for chunk in chunks))


def _key(wish: _Wish, identity: str) -> DerivationKey:
    return derivations.of_summary(
        wish.content, language=wish.language, model=identity, prompt=PROMPT_VERSION
    )
