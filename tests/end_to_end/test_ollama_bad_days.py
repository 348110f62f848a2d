"""Runs during which Ollama answers late, with invalid vectors, or with vectors of another dimension
complete, or say what is missing. After the server has recovered, the index equals that of an
undisturbed run. No search pulls a model that was removed.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from itertools import cycle

import httpx
import pytest

from codelode.backends import registry
from codelode.errors import NotFound, Unavailable
from codelode.model import RunState
from tests.end_to_end.runs import said, state_of
from tests.end_to_end.stored import assert_same, read

#: One store suffices, because no invalid answer reaches it. The first test starts Ollama and two
#: clusters.
pytestmark = [
    pytest.mark.parametrize("store", ["local"], indirect=True),
    pytest.mark.timeout(600),
]

#: Each file is one chunk. Faults hit the second half, which is handed out as the first is stored.
FILES = 8
HALF = FILES // 2
SOURCES = {
    f"part_{n}.py": f"import part_{(n + 1) % FILES}\n\n\ndef read_{n}(path):\n"
    f'    """Gives back the file that is part {n} of all, opened, to whoever asks for it."""\n'
    "    return open(path)\n"
    for n in range(FILES)
}

#: Tokens per call, so few that each call has one text and a damaged answer spoils no other file.
TEXT_A_CALL = "64"

QUERY = "open a path"
PROBE = "dimension"

#: Longer than an answer takes on a busy machine, and short enough to wait for.
IMPATIENT = {"model_timeout_s": "2", "query_timeout_s": "1"}


def settings_at(url, **others):
    return {
        "embedder": "ollama",
        "ollama_url": url,
        "ollama_threads": "1",
        "embedding_model": "all-minilm",
        "embed_batch_tokens": TEXT_A_CALL,
        "model_concurrency": "1",
        "window": str(HALF),
        "log_level": "debug",  # logs postponed jobs
        "maintain_interval_s": "3600",  # it would open the index while the server is faulty
        **others,
    }


@pytest.fixture(scope="module")
def sources(make_git):
    git = make_git()
    git.commit(SOURCES)
    return str(git.folder)


@pytest.fixture(scope="module")
def shared(make_cluster, shared_relay):
    """Start a cluster that reaches Ollama through a relay and keeps no vectors of earlier tests."""
    return make_cluster(**settings_at(shared_relay.url, derivations="none"))


@pytest.fixture(scope="module")
def undisturbed(shared, sources):
    """Return all that is stored after an undisturbed run."""
    with shared.client() as client:
        run = client.index(sources, name="app")
    assert (run.state, run.done, run.failed) == (RunState.COMPLETE, FILES, 0)
    found = read(shared, "app")
    assert [len(found.chunks), len(found.outgoing), len(found.vectors)] == [FILES] * 3
    return found


@pytest.fixture
def relayed(shared, shared_relay, undisturbed, wait_for):
    """Return the shared cluster with an empty index, behind a relay that damages nothing."""
    shared_relay.released.clear()
    ledger = registry.ledger(shared.settings())
    with shared.client() as client, suppress(NotFound):
        client.remove("app")
    wait_for(lambda: not ledger.being_removed(), "what was indexed to leave")
    yield shared
    shared_relay.always = None
    shared_relay.released.set()


@pytest.fixture
def patience():
    """Return additional settings for `own_relayed`; tests override this by a parameter."""
    return {}


@pytest.fixture
def own_relayed(relay, patience, tmp_path, cluster_at):
    """Start a cluster for one test, which reaches Ollama through a separate relay."""
    cluster = cluster_at(tmp_path / "data", **settings_at(relay.url, **patience))
    cluster.start()
    yield cluster
    relay.released.set()
    cluster.stop()


class Trouble:
    """Damages the relay's answers to calls with a text for which `is_meant` is true."""

    def __init__(self, relay, damages, is_meant):
        self.served = 0  # damaged answers
        self._relay = relay
        self._damages = cycle(damages)
        self._is_meant = is_meant
        self._lock = threading.Lock()
        relay.always = self._answer

    def mend(self):
        self._relay.always = None
        self._relay.released.set()

    def _answer(self, path, asked):
        if path == "/api/embed" and any(map(self._is_meant, asked["input"])):
            with self._lock:
                self.served += 1
                damage = next(self._damages)
            return damage(self._relay, path, asked)
        return self._relay.good(path, asked)


def is_of_the_second_half(text):
    return text == QUERY or any(f"read_{n}" in text for n in range(HALF, FILES))


def is_probe_of_the_store_worker():
    """Match probes for the dimension after a file was embedded, which the store worker sends."""
    has_begun = threading.Event()

    def is_meant(text):
        if "read_" in text:
            has_begun.set()
        return text == PROBE and has_begun.is_set()

    return is_meant


def late(relay, path, asked):
    """Answer only after the caller has given up."""
    relay.released.wait(60)
    return relay.good(path, asked)


def body(change):
    def damage(relay, path, asked):
        status, headers, content = relay.good(path, asked)
        return status, headers, change(content)

    return damage


def rows(change):
    def changed(content):
        answer = json.loads(content)
        answer["embeddings"] = [change(row) for row in answer["embeddings"]]
        return json.dumps(answer).encode()

    return body(changed)


#: As many as a call has attempts, so that each call meets all of them.
NO_JSON = [
    body(lambda content: content[: len(content) // 2]),
    body(lambda _: b""),
    body(lambda _: bytes(range(256))),
    body(lambda _: b"<html><body>502 Bad Gateway</body></html>"),
]
NO_VECTORS = [
    rows(lambda row: [float("nan"), *row[1:]]),
    rows(lambda row: [None, *row[1:]]),
    rows(lambda row: [*row[1:], float("inf")]),
    rows(lambda row: [0.0] * len(row)),
]
SHORT = [rows(lambda row: row[:100])]


@pytest.mark.parametrize("patience", [IMPATIENT])
def test_late_answers_postpone_files_until_the_server_recovers(
    relay, own_relayed, sources, undisturbed, wait_for
):
    found = postponed_until_it_recovers(
        relay, own_relayed, sources, wait_for, damages=[late], reason="did not answer in time"
    )
    assert_same(found, undisturbed)


@pytest.mark.parametrize(
    ("damages", "reason"),
    [
        pytest.param(NO_JSON, "did not answer with JSON", id="no-json"),
        pytest.param(NO_VECTORS, "not finite or all zeros", id="no-vectors"),
    ],
)
def test_invalid_answers_postpone_files_until_the_server_recovers(
    shared_relay, relayed, sources, undisturbed, wait_for, damages, reason
):
    found = postponed_until_it_recovers(
        shared_relay, relayed, sources, wait_for, damages=damages, reason=reason
    )
    assert_same(found, undisturbed)


def postponed_until_it_recovers(relay, cluster, sources, wait_for, *, damages, reason):
    """Damage the answers from the middle of a run on, and return what is stored at its end."""
    log = cluster.data / "logs" / "embed.log"
    before = len(log.read_text())
    with cluster.client() as client:
        trouble = Trouble(relay, damages, is_of_the_second_half)
        run = client.index(sources, name="app", wait=False)
        wait_for(lambda: state_of(client, run).done == HALF, "the others to be stored")
        wait_for(lambda: trouble.served >= len(damages), "each kind of answer")
        wait_for(lambda: "Retry in" in log.read_text()[before:], "a file to be put off")
        assert reason in log.read_text()[before:]

        now = state_of(client, run)
        assert (now.state, now.done, now.failed) == (RunState.INDEXING, HALF, 0)
        answer = client.search(QUERY, repositories=["app"], skip_cache=True)
        assert len(answer.hits) == HALF
        assert any("keywords" in notice for notice in answer.notices)
        assert any("not completely indexed" in notice for notice in answer.notices)

        trouble.mend()
        *_, end = client.watch(run.id)
        assert (end.state, end.done, end.failed) == (RunState.COMPLETE, FILES, 0)
    return read(cluster, "app")


def test_files_whose_vectors_have_another_dimension_fail_until_they_are_retried(
    shared_relay, relayed, sources, undisturbed
):
    with relayed.client() as client:
        trouble = Trouble(shared_relay, SHORT, is_of_the_second_half)
        run = client.index(sources, name="app")
        assert trouble.served
        assert (run.state, run.done, run.failed) == (RunState.COMPLETE, HALF, HALF)
        answer = client.search(QUERY, repositories=["app"], skip_cache=True)
        assert len(answer.hits) == HALF
        assert any("keywords" in notice for notice in answer.notices)
        failed = {failure.path for failure in client.failures("app")}
    assert failed == {f"part_{n}.py" for n in range(HALF, FILES)}
    _, told = said(relayed, "failures", "app")
    answering = f"all-minilm of Ollama at {shared_relay.url} answers with 100 "
    for path in failed:
        assert f"{path}  failed: {answering}" in told
    assert "not 384: another model has taken its name; restart the workers" in told

    trouble.mend()
    status, told = said(relayed, "retry", "app", "--wait")
    assert (status, f"{HALF} files, 0 skipped, 0 failed" in told) == (0, True)
    assert_same(read(relayed, "app"), undisturbed)


def test_a_worker_that_got_a_wrong_dimension_recovers(
    relay, own_relayed, sources, undisturbed, wait_for
):
    """The embed workers have probed the dimension before the fault, the store worker has not."""
    log = own_relayed.data / "logs" / "store.log"
    with own_relayed.client() as client:
        trouble = Trouble(relay, SHORT, is_probe_of_the_store_worker())
        run = client.index(sources, name="app", wait=False)
        wait_for(lambda: "Retry in" in log.read_text(), "a file to be put off")
        message = "than the store worker, which uses ollama-all-minilm"
        assert message in log.read_text()
        now = state_of(client, run)
        assert (now.state, now.done, now.failed) == (RunState.INDEXING, 0, 0)
        trouble.mend()
        *_, end = client.watch(run.id)
        assert (end.state, end.done, end.failed) == (RunState.COMPLETE, FILES, 0)
    assert_same(read(own_relayed, "app"), undisturbed)


@pytest.fixture
def remove_model(ollama):
    """Return a function that removes the model until the end of the test."""
    ollama.copy("all-minilm", "kept")

    def remove(model):
        url, named = f"{ollama.url}/api/delete", {"model": model}
        httpx.request("DELETE", url, json=named, trust_env=False).raise_for_status()

    yield lambda: remove("all-minilm")
    ollama.copy("kept", "all-minilm")
    remove("kept")


def held_pull(relay):
    """Make pulling a model take longer than any search waits."""

    def answer(path, asked):
        if path == "/api/pull":
            return late(relay, path, asked)
        return relay.good(path, asked)

    return answer


def test_a_search_without_the_model_ranks_by_keywords_and_pulls_nothing(
    shared_relay, relayed, ollama, sources, remove_model, wait_for
):
    def answer():
        """Return the answer, or None while no gateway serves."""
        with suppress(Unavailable):
            return client.search(QUERY, repositories=["app"], skip_cache=True)

    def ranks_by_keywords(found):
        return any("keywords" in notice for notice in found.notices)

    with relayed.client() as client:
        run = client.index(sources, name="app")
        assert run.state is RunState.COMPLETE
        shared_relay.always = held_pull(shared_relay)
        remove_model()
        (pid,) = relayed.pids("-m gateway")
        os.kill(pid, signal.SIGKILL)  # the next search has not asked for the model yet
        wait_for(lambda: relayed.pids("-m gateway") not in ([], [pid]), "another gateway")
        wait_for(answer, "it to serve")
        found = answer()
        assert (len(found.hits), ranks_by_keywords(found)) == (FILES, True)
        assert shared_relay.asked("/api/pull") == 0

        ollama.copy("kept", "all-minilm")
        wait_for(lambda: not ranks_by_keywords(answer()), "vectors to count again")
