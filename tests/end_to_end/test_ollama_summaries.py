"""From the middle of a run on Ollama's language model answers with nonsense, with nothing, late, or
is gone: the run completes and says how many summaries are missing, searches go on, and once the
server is well `codelode enrich` has just these written.
"""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.end_to_end.runs import command, ended, said
from tests.end_to_end.stored import read

#: One store suffices: what is missing is so before anything is stored.
pytestmark = pytest.mark.parametrize("store", ["local"], indirect=True)

#: Each is a chunk of which a summary is wanted. More would take minutes: a question that fails is
#: asked a dozen times, with pauses.
FILES = 2
FIRST = "read_0_"

#: Makes a summary, in little time.
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
    """Content by path, of which nothing is known from another test."""
    return {
        f"part_{n}.py": f"def read_{n}_{name}(path, limit):\n"
        '    """Gives back the first lines of a file."""\n'
        "    with open(path) as source:\n"
        "        return [line.strip() for line in source][:limit]\n"
        for n in range(FILES)
    }


class Trouble:
    """Has the relay give `answers` in turn, to questions without the text `spared`."""

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
    """One that asks Ollama by way of the relay."""
    return make_cluster(ollama_url=shared_relay.url, **SETTINGS)


def index(cluster, trouble, git, name, wait_for):
    """What the command says of a run that gets into the trouble, during which searches go on."""
    git.commit(sources(name))
    running = command(cluster, "index", str(git.folder), "--name", name, "--wait")
    try:
        wait_for(lambda: trouble.served, "a question to be answered badly")
        during = found(cluster, name)
    finally:
        status, told = ended(running)
    assert (status, found(cluster, name)) == (0, paths(range(FILES)))
    return during, told


def found(cluster, name):
    """The files that a search finds."""
    with cluster.client() as client:
        answer = client.search("first lines of a file", repositories=[name], skip_cache=True)
    return sorted(hit.path for hit in answer.hits)


def paths(numbers):
    return [f"part_{n}.py" for n in numbers]


def without_summary(cluster, name):
    """The files that have none, as stored."""
    return sorted(chunk.path for chunk in read(cluster, name).chunks if not chunk.summary)


def assert_written(cluster, name, *, files):
    """By a command that has something to do for so many files."""
    status, told = said(cluster, "enrich", name, "--wait")
    assert (status, f"{name}  complete  {files}, 0 skipped, 0 failed" in told) == (0, True)
    assert without_summary(cluster, name) == []
    assert found(cluster, name) == paths(range(FILES))


@pytest.mark.parametrize(
    ("name", "answers"), [("nonsense", NONSENSE), ("nothing", EMPTY), ("gone", [die])]
)
def test_summaries_that_cannot_be_had_are_counted_and_written_later(
    cluster, shared_relay, git, wait_for, name, answers
):
    trouble = Trouble(shared_relay, answers, spared=FIRST)
    during, told = index(cluster, trouble, git, name, wait_for)
    assert during == paths([0])
    assert "complete without 1 summary" in told
    assert without_summary(cluster, name) == paths([1])

    trouble.mend()
    assert_written(cluster, name, files="1 file")


def test_summaries_that_come_late_are_counted_and_written_when_there_is_more_time(
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
