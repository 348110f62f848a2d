"""Estimate the work of a planned run: read all of its files, and parse a sample of them.

Reading shows which files the parse stage would leave out. Files are sampled in the order of their
blob ids, which are unrelated to size and path, until the time is over; a repository of up to a few
thousand files is parsed completely. The time that the sample waits for a processor shows how busy
the machine is. A model server on this machine embeds some of the sampled texts to measure its
speed; nothing is sent to a remote server, which may charge for it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from codelode import languages
from codelode.backends import registry
from codelode.errors import CodelodeError
from codelode.estimates import (
    CORE_RATE,
    FILE_S,
    PER_PARSING_S,
    WAIT_S,
    Estimate,
    LanguageEstimate,
    SkippedFiles,
)
from codelode.ledger import FileManifest, WorkItem
from codelode.model import RefName, RepositoryName, Revision, Run, embedding_text, locate
from codelode.settings import Settings
from codelode.stages import has_language_model
from workers.enrich import MAX_ANSWER_TOKENS, prompts
from workers.parse import DETECTED_BYTES, guard, parse
from workers.services import Services

#: Processor time for the sample, seconds: 4,000 files on one core (docs/measurements.md).
SAMPLE_S = 10.0

#: Characters of code or prose per token, the usual rule of thumb for language models.
CHARS_PER_TOKEN = 4

#: Maximum length of a text that is embedded, characters; embedders of model servers cut it there.
MAX_TEXT_CHARS = 8_000

#: Assumed where nothing could be parsed: chunks have 800 to 1,000 bytes in most languages, and the
#: text that is embedded adds a path, a header, and an overlap.
_BYTES_PER_CHUNK = 900
_TOKENS_PER_CHUNK = 300

#: Number of processes of a cluster that work on a run at once; more cores make it no faster.
_BUSY_PROCESSES = 4

#: Number of sampled texts that a model server embeds to measure its speed, and the time limit for
#: that, seconds: a plan does not wait for a server that hangs.
_EMBEDDED = 16
EMBED_S = 10.0

#: Maximum number of reasons that are listed; the others share one row.
_REASONS_LISTED = 20


@dataclass(frozen=True, slots=True)
class Survey:
    """The files that a run would index, by language, and those that it would skip or remove."""

    ref: RefName
    revision: Revision
    files: Mapping[str, tuple[WorkItem, ...]]
    skipped: tuple[SkippedFiles, ...] = ()
    removals: int = 0

    @property
    def items(self) -> Iterable[WorkItem]:
        return (item for items in self.files.values() for item in items)


@dataclass(slots=True)
class Sample:
    """Sums over the parsed files of one language, or of all."""

    files: int = 0
    size_bytes: int = 0
    chunks: int = 0
    tokens: int = 0
    summaries: int = 0
    summary_tokens: int = 0
    parsing_s: float = 0.0  # processor time

    def add(self, other: Sample) -> None:
        for name in Sample.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of parsing a sample: sums by language, and how fast the machine is now."""

    sums: Mapping[str, Sample]
    slowdown: float = 1.0  # elapsed seconds per second of processor time
    tokens_per_s: float = 0.0  # see `_tokens_per_s`


def survey(run: Run, manifest: FileManifest, ref: RefName, services: Services) -> Survey:
    """Read the files of the manifest, and sort them by language or by the reason to skip them."""
    reasons = Counter(_kind(record.reason) for record in manifest.skipped)
    left_out = {record.path for record in manifest.skipped}
    files: dict[str, list[WorkItem]] = defaultdict(list)
    for item in manifest.items:
        if item.is_removal:
            continue
        data = services.blobs.read(run.repository, item.blob)
        reason = guard(data, path=item.path, max_bytes=services.settings.max_file_bytes)
        if reason:
            reasons[_kind(reason)] += 1
        else:
            files[languages.detect(item.path, data[:DETECTED_BYTES]).name].append(item)
    removals = sum(item.is_removal and item.path not in left_out for item in manifest.items)
    by_language = {language: tuple(items) for language, items in files.items()}
    return Survey(ref, manifest.revision, by_language, _listed(reasons), removals)


def sample(run: Run, found: Survey, services: Services) -> Sampled:
    """Parse files of the survey until the time is over."""
    at_commit = replace(run, revision=found.revision)
    language_of = {item.path: name for name, items in found.files.items() for item in items}
    sums: dict[str, Sample] = defaultdict(Sample)
    texts: list[str] = []
    began, used = time.monotonic(), time.thread_time()
    for item in sorted(found.items, key=lambda item: item.blob):
        before = time.thread_time()
        parsed = _parsed(at_commit, item, services, texts)
        now = time.thread_time()
        sums[language_of[item.path]].add(replace(parsed, parsing_s=now - before))
        if now - used > SAMPLE_S:
            break
    passed_s, used_s = time.monotonic() - began, time.thread_time() - used
    # If nothing was parsed, both times are a few microseconds and mean nothing.
    slowdown = max(1.0, passed_s / used_s) if sums and used_s else 1.0
    return Sampled(dict(sums), slowdown, _tokens_per_s(texts, services))


def estimate(
    found: Survey, sampled: Sampled, settings: Settings, *, pull_s: float = 0.0
) -> Estimate:
    """Extrapolate the sample to all files of the survey. `pull_s`: how long a run waits for git."""
    overall, sums = Sample(), sampled.sums
    for one in sums.values():
        overall.add(one)
    rows = [_row(name, items, sums.get(name, overall)) for name, items in found.files.items()]
    summaries, summary_tokens = _summaries(found, overall, settings)
    made = Estimate(
        languages=tuple(sorted(rows, key=lambda row: (-row.size_bytes, row.language))),
        skipped=found.skipped,
        removals=found.removals,
        summaries=summaries,
        summary_tokens=summary_tokens,
        sampled=overall.files,
        pull_s=pull_s,
    )
    if not sampled.tokens_per_s and registry.is_embedder_remote(settings):
        return made
    work_s = _work_s(made, sums, like=overall) if sums else made.work_s
    return replace(made, seconds=_seconds(made, work_s, sampled, cores=_cores()))


def _work_s(made: Estimate, sums: Mapping[str, Sample], *, like: Sample) -> float:
    """Return the processor time of a run, from its number of files and the time to parse them."""
    parsing_s = 0.0
    for row in made.languages:
        some = sums.get(row.language, like)
        parsing_s += some.parsing_s * row.size_bytes / max(1, some.size_bytes)
    return (made.files + made.removals) * FILE_S + parsing_s * PER_PARSING_S


def _seconds(made: Estimate, work_s: float, sampled: Sampled, *, cores: int) -> float:
    """Return how long a run takes if its processes share the cores with those that are busy now.

    The sample is one process, which waits for a core while the other busy ones take their turns.
    """
    others = cores * (sampled.slowdown - 1)
    share = min(cores, _BUSY_PROCESSES, cores * _BUSY_PROCESSES / (others + _BUSY_PROCESSES))
    working_s = work_s / (share * CORE_RATE)
    embedding_s = made.tokens / sampled.tokens_per_s if sampled.tokens_per_s else 0.0
    return made.pull_s + WAIT_S + max(working_s, embedding_s)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tokens_per_s(texts: Sequence[str], services: Services) -> float:
    """Return how many tokens a model server on this machine embeds per second; 0: none, or unknown.

    The built-in embedder is not measured, because it works in the processes of the run.
    """
    if not texts or not registry.embeds_on_loopback(services.settings):
        return 0.0
    took_s: list[float] = []

    def embed() -> None:
        with suppress(CodelodeError):  # the run would wait for the server, for an unknown time
            index = services.index
            began = time.monotonic()
            # The published index may have another embedder than the settings.
            if registry.embeds_on_loopback(index.published.settings):
                index.embedder.embed_documents(texts)
                took_s.append(time.monotonic() - began)

    embedding = threading.Thread(target=embed, name="embedding", daemon=True)
    embedding.start()
    embedding.join(EMBED_S)
    return _tokens(texts) / took_s[0] if took_s else 0.0


def _parsed(run: Run, item: WorkItem, services: Services, seen: list[str]) -> Sample:
    data = services.blobs.read(run.repository, item.blob)
    parsed = parse(data, path=item.path, own=services.queries(run))
    chunks = locate(parsed, repository=RepositoryName(""), path=item.path, refs=())
    texts = [embedding_text(chunk)[:MAX_TEXT_CHARS] for chunk in chunks]
    seen += texts[: _EMBEDDED - len(seen)]
    asked = prompts(item.path, parsed) if has_language_model(services.settings) else []
    return Sample(
        files=1,
        size_bytes=item.size_bytes,
        chunks=len(texts),
        tokens=_tokens(texts),
        summaries=len(asked),
        summary_tokens=_tokens(asked) + len(asked) * MAX_ANSWER_TOKENS,
    )


def _row(language: str, items: Sequence[WorkItem], like: Sample) -> LanguageEstimate:
    size_bytes = sum(item.size_bytes for item in items)
    if not like.size_bytes:
        chunks = max(len(items), size_bytes // _BYTES_PER_CHUNK)
        return LanguageEstimate(
            language, len(items), size_bytes, chunks, chunks * _TOKENS_PER_CHUNK
        )
    share = size_bytes / like.size_bytes
    return LanguageEstimate(
        language, len(items), size_bytes, round(like.chunks * share), round(like.tokens * share)
    )


def _summaries(found: Survey, overall: Sample, settings: Settings) -> tuple[int, int]:
    """Return the number of summaries that a run requests, and the tokens that they take."""
    if not overall.summaries:
        return 0, 0
    share = sum(item.size_bytes for item in found.items) / max(1, overall.size_bytes)
    asked = min(settings.summaries_per_run, round(overall.summaries * share))
    return asked, round(asked * overall.summary_tokens / overall.summaries)


def _tokens(texts: Iterable[str]) -> int:
    return sum(-(-len(text) // CHARS_PER_TOKEN) for text in texts)


def _kind(reason: str) -> str:
    """Return a reason without the details of the file: `too large: 9 bytes` → `too large`."""
    return reason.partition(":")[0]


def _listed(reasons: Counter[str]) -> tuple[SkippedFiles, ...]:
    found = reasons.most_common()
    listed = [SkippedFiles(reason, files) for reason, files in found[:_REASONS_LISTED]]
    rest = sum(files for _, files in found[_REASONS_LISTED:])
    return (*listed, SkippedFiles("other reasons", rest)) if rest else tuple(listed)
