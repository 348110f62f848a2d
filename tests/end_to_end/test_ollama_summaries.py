"""Runs during which Ollama's language model answers with nonsense, with nothing, late, or not at
all complete and say how many summaries are missing. Searches go on, and after the server has
recovered, `codelode enrich` writes exactly these summaries.
"""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.end_to_end.runs import command, ended, said
from tests.end_to_end.stored import read

#: One store suffices: summaries are missing before anything is stored.
pytestmark = pytest.mark.parametrize("store", ["local"], indirect=True)

#: Each is a chunk of which a summary is wanted. More would take minutes: a question that fails is
#: asked a dozen times, with pauses.
FILES = 2
FIRST = "read_0_"

#: An answer that gives a summary quickly.
MAX_TOKENS = 8

SETTINGS = {
    "language_model": "ollama",
    "summary_model": "smollm2",
    "ollama_threads": "1",
    "model_concurrency": "1",
    "model_retry_s": "0.2",
    "window": "1",  # a file is asked about once the one before it is stored
}


def sources(name):
    """Return contents by path that caches of other tests do not have."""
    return {
        f"part_{n}.py": f"def read_{n}_{name}(path, limit):\n"
        '    """Gives back the first lines of a file."""\n'
        "    with open(path) as source:\n"
        "        return [line.strip() for line in source][:limit]\n"
        for n in range(FILES)
    }


class Trouble:
    """Makes the relay give `answers` in turn to questions without the text `spared`."""

    def __init__(self, relay, answers, *, spared):
        self.served = 0
        self._relay = relay
        self._answers = cycle(answers)
        self._spared = spared
        relay.always = self._answer

    def mend(self):
        self._spared = ""
        if not self._relay.server.is_running():
            self._relay.server.start()

    def _answer(self, path, asked):
        if path != "/api/generate":
            return self._relay.good(path, asked)
        if self._spared in asked["prompt"]:
            options = asked["options"] | {"num_predict": MAX_TOKENS}
            return self._relay.good(path, asked | {"options": options})
        self.served += 1
        return next(self._answers)(self._relay, path, asked)


def always(content, status=200):
    return lambda relay, path, asked: relay.json(content, status)(path, asked)


def die(relay, path, asked):
    relay.server.kill()


def hang(relay, path, asked):
    relay.stall(path, asked)


#: As many as a question has attempts, so that each question meets all of them.
NONSENSE = [
    always(b'{"model": "smollm2", "response": "Retur'),
    always(b""),
    always(b"<html><body>502 Bad Gateway</body></html>"),
    always({"error": "llama runner process has terminated: exit status 2"}, 500),
]
EMPTY = [always({"model": "smollm2", "response": "", "done": True})]


@pytest.fixture(scope="module")
def cluster(make_cluster, shared_relay):
    """A cluster that reaches Ollama through the relay."""
    return make_cluster(ollama_url=shared_relay.url, **SETTINGS)


def index(cluster, trouble, git, name, wait_for):
    """Run `index` during the trouble; return what a search finds meanwhile, and the output."""
    git.commit(sources(name))
    running = command(cluster, "index", str(git.folder), "--name", name, "--wait")
    try:
        wait_for(lambda: trouble.served, "a question to be answered badly")
        during = found(cluster, name)
    finally:
        status, output = ended(running)
    assert (status, found(cluster, name)) == (0, paths(range(FILES)))
    return during, output


def found(cluster, name):
    """Return the files that a search finds."""
    with cluster.client() as client:
        answer = client.search("first lines of a file", repositories=[name], skip_cache=True)
    return sorted(hit.path for hit in answer.hits)


def paths(numbers):
    return [f"part_{n}.py" for n in numbers]


def without_summary(cluster, name):
    """Return the stored files without a summary."""
    return sorted(chunk.path for chunk in read(cluster, name).chunks if not chunk.summary)


def assert_written(cluster, name, *, files):
    """Run `enrich`, check that it processes this many files, and that no summary is missing."""
    status, output = said(cluster, "enrich", name, "--wait")
    assert (status, f"{name}  complete  {files}, 0 skipped, 0 failed" in output) == (0, True)
    assert without_summary(cluster, name) == []
    assert found(cluster, name) == paths(range(FILES))


@pytest.mark.parametrize(
    ("name", "answers"), [("nonsense", NONSENSE), ("nothing", EMPTY), ("gone", [die])]
)
def test_missing_summaries_are_counted_and_written_later(
    cluster, shared_relay, git, wait_for, name, answers
):
    trouble = Trouble(shared_relay, answers, spared=FIRST)
    during, told = index(cluster, trouble, git, name, wait_for)
    assert during == paths([0])
    assert "complete without 1 summary" in told
    assert without_summary(cluster, name) == paths([1])

    trouble.mend()
    assert_written(cluster, name, files="1 file")


def test_late_summaries_are_counted_and_written_with_a_longer_timeout(
    make_cluster, cluster_at, shared_relay, git, wait_for
):
    settings = {"ollama_url": shared_relay.url, **SETTINGS}
    hasty = make_cluster(**settings, model_timeout_s="1")
    trouble = Trouble(shared_relay, [hang], spared="nothing")
    _, told = index(hasty, trouble, git, "late", wait_for)
    assert "complete without 2 summaries" in told
    assert without_summary(hasty, "late") == paths(range(FILES))

    hasty.stop()
    trouble.mend()
    patient = cluster_at(hasty.data, **settings)
    patient.start()
    try:
        assert_written(patient, "late", files="2 files")
    finally:
        patient.stop()
