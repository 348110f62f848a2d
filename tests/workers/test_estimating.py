"""Estimates of real commits, compared with all of their files."""

from __future__ import annotations

import subprocess
import sysconfig
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from codelode.backends import registry
from codelode.estimates import WAIT_S, LanguageEstimate, SkippedFiles, dump, load
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    BlobId,
    FileRecord,
    FileState,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    Run,
    RunId,
    RunState,
)
from codelode.settings import load as load_settings
from workers import estimating
from workers.estimating import Sampled
from workers.parse import parse
from workers.services import Services

NAME, MAIN = RepositoryName("app"), RefName("main")
RUN = Run(RunId("0" * 16), NAME, MAIN, RunState.PULLING)


@pytest.fixture
def services(tmp_path):
    made = Services(load_settings(data=tmp_path / "data", local_paths=str(tmp_path)))
    yield made
    made.blobs.close()
    made.close()


@pytest.fixture
def surveyed(services, tmp_path):
    """Return a function that commits files by path and surveys the commit."""

    def survey(files):
        folder = tmp_path / "source"
        subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        identity = ("-c", "user.name=T", "-c", "user.email=t@host.example")
        for command in (("add", "-A"), ("commit", "-q", "-m", "x")):
            subprocess.run(["git", *identity, *command], cwd=folder, check=True)
        services.mirrors.sync(Repository(NAME, str(folder)))
        _, revision = services.mirrors.resolve(NAME)
        listed = services.blobs.listing(NAME, revision)
        items = tuple(WorkItem(one.path, one.blob, one.size_bytes) for one in listed)
        gone = WorkItem("gone.py", BlobId(""))
        vendored = FileRecord("vendor.py", BlobId("a" * 40), FileState.SKIPPED, "vendored")
        left = WorkItem("vendor.py", BlobId(""))
        manifest = FileManifest(revision, (*items, gone, left), (vendored,))
        return estimating.survey(RUN, manifest, MAIN, services)

    return survey


def library():
    """Return the files of an installed package."""
    folder = Path(sysconfig.get_path("purelib")) / "click"
    return {f"click/{path.name}": path.read_bytes() for path in folder.glob("*.py")}


def test_a_survey_counts_files_by_language_and_skipped_files_by_reason(surveyed):
    found = surveyed(
        {
            "a.py": "a = 1\n",
            "b.py": "b = 1\n",
            "run": "#!/bin/sh\necho\n",
            "picture": b"\0\1\2",
            "empty.py": "",
            "also.py": " \n",
            "large.py": "x = 1\n" * 200_000,
        }
    )
    counted = {language: len(items) for language, items in found.files.items()}
    assert counted == {"python": 2, "bash": 1}
    assert {one.reason: one.files for one in found.skipped} == {
        "empty": 2,
        "binary": 1,
        "too large": 1,
        "vendored": 1,
    }
    assert found.removals == 1


def test_a_whole_sample_gives_the_chunks_of_all_files(surveyed, services):
    files = library()
    found = surveyed(files)
    sums = estimating.sample(RUN, found, services)
    made = estimating.estimate(found, sums, services.settings)
    chunks = sum(len(parse(data, path=path).pieces) for path, data in files.items())
    assert (made.files, made.sampled, made.chunks) == (len(files), len(files), chunks)
    assert made.tokens > sum(map(len, files.values())) / estimating.CHARS_PER_TOKEN
    assert (made.summaries, made.summary_tokens) == (0, 0)
    assert load(dump(made)) == made


def test_a_sample_of_files_is_extrapolated_to_all(surveyed, services):
    found = surveyed(library())
    whole = estimating.estimate(found, estimating.sample(RUN, found, services), services.settings)
    half = replace(found, files={"python": tuple(found.files["python"][::2])})
    sums = estimating.sample(RUN, half, services)
    made = estimating.estimate(found, sums, services.settings)
    assert made.files == whole.files
    assert made.chunks == pytest.approx(whole.chunks, rel=0.2)
    assert made.tokens == pytest.approx(whole.tokens, rel=0.2)


def test_languages_that_time_leaves_unsampled_are_estimated_from_the_others(
    surveyed, services, monkeypatch
):
    monkeypatch.setattr(estimating, "SAMPLE_S", 0.0)
    found = surveyed({"a.py": "a = 1\n" * 100, "b.go": "package b\n" * 100})
    sums = estimating.sample(RUN, found, services)
    made = estimating.estimate(found, sums, services.settings)
    assert made.sampled == 1
    assert {one.language for one in made.languages} == {"python", "go"}
    assert all(one.chunks for one in made.languages)


def test_without_a_sample_the_estimate_is_that_of_average_code(surveyed, services):
    made = estimating.estimate(surveyed({"a.py": "a = 1\n" * 300}), Sampled({}), services.settings)
    assert made.languages == (LanguageEstimate("python", 1, 1_800, 2, 600),)
    assert made.sampled == 0


def test_a_run_without_files_takes_as_long_on_a_busy_machine(services, monkeypatch):
    nothing = estimating.Survey(MAIN, Revision("a" * 40), {})
    passing = iter((0.0, 60.0))  # somebody else has the processor while nothing is parsed
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", lambda: next(passing))
        sampled = estimating.sample(RUN, nothing, services)

    assert sampled == Sampled({})
    assert estimating.estimate(nothing, sampled, services.settings).seconds < 2.0


def test_summaries_are_counted_with_a_language_model_up_to_the_limit(surveyed, services):
    found = surveyed(library())
    services.settings = services.settings.model_copy(
        update={"language_model": "ollama", "summaries_per_run": 50}
    )
    sums = estimating.sample(RUN, found, services)
    made = estimating.estimate(found, sums, services.settings)
    assert made.summaries == 50
    assert made.summary_tokens > 50 * 90
    free = services.settings.model_copy(update={"summaries_per_run": 1_000_000})
    assert made.summaries < estimating.estimate(found, sums, free).summaries <= 2 * made.chunks


def twice(sums):
    """Return the sums of a sample of files that take twice as long to parse."""
    return {name: replace(one, parsing_s=2 * one.parsing_s) for name, one in sums.items()}


def test_a_run_takes_longer_on_a_busy_machine_and_with_a_slow_model(surveyed, services):
    found = surveyed(library())
    sampled = estimating.sample(RUN, found, services)

    def seconds(**fields):
        given = replace(sampled, slowdown=1.0, **fields)
        return estimating.estimate(found, given, services.settings, pull_s=3.0).seconds

    assert sampled.slowdown >= 1.0
    assert sampled.tokens_per_s == 0.0  # the embedder is no server
    quiet = seconds()
    busy = replace(sampled, slowdown=10.0)
    assert estimating.estimate(found, busy, services.settings, pull_s=3.0).seconds > quiet > 3.0
    assert seconds(tokens_per_s=10.0) > 1_000
    assert seconds(sums=twice(sampled.sums)) > quiet + 0.2 * (quiet - 3.0 - WAIT_S)
    services.settings = services.settings.model_copy(update={"embedder": "ollama"})
    assert seconds() == 0.0  # the speed of the embedder is unknown
    assert seconds(tokens_per_s=10.0) > 1_000


class Embedding:
    """An embedder that records its texts, and answers only when allowed."""

    def __init__(self, settings):
        self.published = registry.Published("", settings)
        self.embedder, self.texts, self.may_answer = self, [], threading.Event()

    def embed_documents(self, texts):
        self.texts += texts
        assert self.may_answer.wait(60)


@pytest.mark.parametrize(
    ("server", "is_measured"),
    [
        ({"embedder": "ollama", "ollama_url": "http://127.0.0.1:1"}, True),
        ({"embedder": "ollama", "ollama_url": "http://models.example:1"}, False),
        ({"embedder": "openai", "openai_url": "http://localhost:1/v1"}, True),
        ({"embedder": "openai", "openai_url": "https://models.example/v1"}, False),
    ],
)
def test_a_plan_sends_texts_only_to_a_model_on_this_machine(
    surveyed, services, monkeypatch, server, is_measured
):
    found = surveyed({"a.py": "def first():\n    return 1\n"})
    services.settings = services.settings.model_copy(update=server)
    index = Embedding(services.settings)
    monkeypatch.setattr(Services, "index", index)
    index.may_answer.set()
    sampled = estimating.sample(RUN, found, services)
    assert bool(index.texts) is bool(sampled.tokens_per_s) is is_measured


def test_a_plan_does_not_wait_for_a_model_that_hangs(surveyed, services, monkeypatch):
    found = surveyed({"a.py": "def first():\n    return 1\n"})
    local = {"embedder": "ollama", "ollama_url": "http://127.0.0.1:1"}
    services.settings = services.settings.model_copy(update=local)
    index = Embedding(services.settings)
    monkeypatch.setattr(Services, "index", index)
    monkeypatch.setattr(estimating, "EMBED_S", 0.01)
    sampled = estimating.sample(RUN, found, services)
    index.may_answer.set()
    assert sampled.tokens_per_s == 0.0
    assert sum(one.files for one in sampled.sums.values()) == 1


def test_only_the_most_frequent_reasons_are_listed(services):
    many = [FileRecord(f"{n}", BlobId("a" * 40), FileState.SKIPPED, f"r{n}") for n in range(25)]
    found = estimating.survey(RUN, FileManifest("c" * 40, (), tuple(many)), MAIN, services)
    assert len(found.skipped) == 21
    assert found.skipped[-1] == SkippedFiles("other reasons", 5)
