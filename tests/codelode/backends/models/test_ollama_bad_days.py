"""The Ollama client copes with a real server that is killed, slow, or replaced, and with damage."""

from __future__ import annotations

import contextlib
import json
import threading

import httpx
import numpy as np
import pytest

from codelode.backends.models import ollama as backend
from codelode.backends.models.remote import Breaker, Garbled, Remote
from codelode.backends.models.served import RECHECK_S, Limits
from codelode.errors import SchemaMismatch, TimedOut, Unavailable
from tests.pausing import paused

MODEL = "all-minilm"
DIM = 384
TEXTS = [f"def read_{n}(path): return open(path).read({n})" for n in range(6)]

#: A call for each text, one after the other.
SINGLY = {"batch_tokens": 1, "concurrency": 1}


@pytest.fixture
def embedder():
    """`embedder(url, **limits)` uses the server there, and retries at once after a failure."""
    with contextlib.ExitStack() as opened:

        def make(url, *, model=MODEL, clock=lambda: 0.0, **limits):
            server = opened.enter_context(contextlib.closing(backend.Server(url, threads=1)))
            breaker = Breaker(server.name, open_s=0.0)
            remote = Remote(server.name, breaker=breaker, sleep=lambda _: None)
            return backend.embedder(
                server, model=model, limits=Limits(**limits), remote=remote, clock=clock
            )

        yield make


@pytest.fixture(scope="module")
def undisturbed(ollama):
    """Return the vectors of the texts from a working server."""
    with contextlib.closing(backend.Server(ollama.url, threads=1)) as server:
        return backend.embedder(server, model=MODEL).embed_documents(TEXTS)


def require_same(found, expected):
    assert found.shape == (len(TEXTS), DIM)
    np.testing.assert_allclose(found, expected, atol=1e-4)  # sums in another order


def started(call, *given):
    """Run the call in a thread; return it and its outcome, a value or our error."""
    outcome = []

    def run():
        try:
            outcome.append(call(*given))
        except Unavailable as exc:
            outcome.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


# Gone


def test_a_missing_server_is_reported_and_used_again_after_its_return(
    ollama, embedder, undisturbed
):
    vectors = embedder(ollama.url)
    require_same(vectors.embed_documents(TEXTS), undisturbed)
    ollama.kill()
    try:
        with pytest.raises(Unavailable, match="is it running"):
            vectors.embed_documents(TEXTS)
        with pytest.raises(Unavailable, match="is it running"):
            vectors.embed_query("read a file")
    finally:
        ollama.start()
    require_same(vectors.embed_documents(TEXTS), undisturbed)


def test_a_server_killed_between_two_calls_of_a_batch_leaves_no_half_of_it(
    ollama, embedder, undisturbed, wait_for
):
    vectors = embedder(ollama.url, **SINGLY)
    vectors.embed_query("load the model")
    before = ollama.answered()
    embedding, outcome = started(vectors.embed_documents, TEXTS)
    wait_for(lambda: ollama.answered() > before, "the first of six calls to be answered")
    ollama.kill()
    embedding.join()
    ollama.start()

    assert isinstance(outcome[0], Unavailable)
    require_same(vectors.embed_documents(TEXTS), undisturbed)


# Slow


def test_a_hanging_server_is_reported_after_the_timeout(ollama, embedder, undisturbed, wait_for):
    vectors = embedder(ollama.url, timeout_s=1.0, query_timeout_s=0.2)

    def is_in_time():
        with contextlib.suppress(TimedOut):
            return vectors.embed_query("load the model") is not None

    wait_for(is_in_time, "an answer in time, which may take several calls on a busy machine")
    with paused([ollama.pid()]):
        with pytest.raises(TimedOut):
            vectors.embed_documents(TEXTS)
        with pytest.raises(TimedOut):
            vectors.embed_query("read a file")
    require_same(embedder(ollama.url).embed_documents(TEXTS), undisturbed)


# Garbage, NaN, another shape


def with_rows(change):
    """Damages an answer of the server by changing its rows of numbers."""

    def damage(body):
        answer = json.loads(body)
        answer["embeddings"] = change(answer["embeddings"])
        return json.dumps(answer).encode()

    return damage


DAMAGES = {
    "half-an-answer": lambda body: body[: len(body) // 2],
    "a-page-of-a-proxy": lambda body: b"<html><body>502 Bad Gateway</body></html>",
    "bytes": lambda body: bytes(range(256)),
    "nothing": lambda body: b"",
    "another-answer": lambda body: b'{"response": "Returns what was asked for."}',
    "words": with_rows(lambda rows: [["many"] * len(row) for row in rows]),
    "nulls": with_rows(lambda rows: [[None] * len(row) for row in rows]),
    "nan": with_rows(lambda rows: [[float("nan"), *row[1:]] for row in rows]),
    "infinity": with_rows(lambda rows: [[*row[1:], float("inf")] for row in rows]),
    "zeros": with_rows(lambda rows: [[0.0] * len(row) for row in rows]),
    "one-row-less": with_rows(lambda rows: rows[1:]),
    "one-short-row": with_rows(lambda rows: [rows[0][:100], *rows[1:]]),
}


def damaged(relay, damage):
    def answer(path, asked):
        status, headers, body = relay.good(path, asked)
        return status, headers, damage(body)

    return answer


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_answer_is_ignored_and_requested_again(relay, embedder, undisturbed, damage):
    vectors = embedder(relay.url)
    vectors.embed_query("load the model")
    relay.answers = [damaged(relay, damage)]

    require_same(vectors.embed_documents(TEXTS), undisturbed)
    assert relay.answers == []


@pytest.mark.parametrize("name", ["half-an-answer", "nan", "one-short-row"])
def test_permanent_damage_is_reported_and_spoils_nothing_else(relay, embedder, undisturbed, name):
    vectors = embedder(relay.url)
    vectors.embed_query("load the model")
    relay.always = damaged(relay, DAMAGES[name])

    with pytest.raises(Garbled):
        vectors.embed_documents(TEXTS)
    with pytest.raises(Unavailable):
        vectors.embed_query("read a file")
    relay.always = None
    require_same(vectors.embed_documents(TEXTS), undisturbed)


def test_vectors_that_were_cut_are_refused(relay, embedder, undisturbed):
    vectors = embedder(relay.url)
    vectors.embed_query("load the model")
    relay.always = damaged(relay, with_rows(lambda rows: [row[:100] for row in rows]))

    with pytest.raises(SchemaMismatch, match="100 dimensions, not 384: another model"):
        vectors.embed_documents(TEXTS)
    with pytest.raises(Unavailable, match="100 dimensions"):
        vectors.embed_query("read a file")
    relay.always = None
    require_same(vectors.embed_documents(TEXTS), undisturbed)


# Another model under the same name


def test_a_change_of_the_model_behind_a_name_is_reported(ollama, embedder):
    now = 0.0
    ollama.copy(MODEL, "chosen")
    vectors = embedder(ollama.url, model="chosen", clock=lambda: now)
    identity = vectors.identity
    assert vectors.dim == DIM
    ollama.copy("smollm2", "chosen")

    with pytest.raises(SchemaMismatch, match="576 dimensions, not 384: another model"):
        vectors.embed_documents(TEXTS)
    now = RECHECK_S + 1
    with pytest.raises(SchemaMismatch, match="has other weights than at the start"):
        vectors.embed_documents(TEXTS)
    with pytest.raises(Unavailable, match="has other weights than at the start"):
        vectors.embed_query("read a file")
    other = embedder(ollama.url, model="chosen")
    assert (other.dim, other.identity == identity) == (576, False)


def test_a_change_of_the_model_behind_a_name_during_a_restart_is_reported_at_once(ollama, embedder):
    now = 0.0
    ollama.copy(MODEL, "chosen")
    vectors = embedder(ollama.url, model="chosen", clock=lambda: now)
    vectors.embed_documents(TEXTS)
    now = RECHECK_S + 1
    ollama.kill()
    try:
        with pytest.raises(Unavailable, match="is it running"):
            vectors.embed_documents(TEXTS)
    finally:
        ollama.start()
    ollama.copy("smollm2", "chosen")

    with pytest.raises(SchemaMismatch, match="has other weights than at the start"):
        vectors.embed_documents(TEXTS)
    ollama.copy(MODEL, "chosen")
    vectors.embed_documents(TEXTS)


# No model


def test_a_query_does_not_wait_for_a_model_that_was_removed(relay, ollama, embedder):
    now = 0.0
    ollama.copy(MODEL, "chosen")
    vectors = embedder(relay.url, model="chosen", clock=lambda: now)
    vectors.embed_query("read a file")
    remove(ollama, "chosen")
    now = RECHECK_S + 1

    with pytest.raises(Unavailable, match="lacks the model chosen"):
        vectors.embed_query("read a file")
    assert relay.asked("/api/pull") == 0
    ollama.copy(MODEL, "chosen")
    assert vectors.embed_query("read a file").any()
    remove(ollama, "chosen")


def remove(ollama, model):
    """Remove a model as `ollama rm` does."""
    url = f"{ollama.url}/api/delete"
    httpx.request("DELETE", url, json={"model": model}, trust_env=False).raise_for_status()
