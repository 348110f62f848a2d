"""Clients of Ollama and of the OpenAI API cope with missing, slow, busy, and faulty servers."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import structlog
from pydantic import SecretStr

from codelode.backends import registry
from codelode.backends.models import ollama, openai
from codelode.backends.models.remote import FAILURES_TO_OPEN, Garbled, Remote, Throttled
from codelode.backends.models.served import (
    MAX_TEXT_CHARS,
    RECHECK_S,
    Limits,
    ServedEmbedder,
    instructions,
)
from codelode.errors import (
    InvalidSettings,
    Rejected,
    SchemaMismatch,
    TimedOut,
    Unavailable,
)
from codelode.settings import load

KINDS = ["ollama", "openai"]
KEY = "sk-very-secret"
TEXTS = ["def first(): pass", "def second(): pass", "def third(): pass"]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def opened():
    """Return a function that closes a connection after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda connection: stack.enter_context(contextlib.closing(connection))


@pytest.fixture
def server(model_server, opened):
    """Return a function from options to the faulty server, as an Ollama server."""
    return lambda **options: opened(ollama.Server(model_server.url, **options))


@pytest.fixture
def embedder(kind, model_server, opened, pauses):
    """Return a function from limits to an embedder of the faulty server; pauses are recorded."""

    def build(url=None, dim=0, model="embed", **limits):
        url = url or model_server.url
        bounds = Limits(**limits)
        remote = Remote("server", concurrency=bounds.concurrency, sleep=pauses.append)
        options = {"model": model, "limits": bounds, "dim": dim, "remote": remote}
        if kind == "ollama":
            return ollama.embedder(opened(ollama.Server(url)), **options)
        endpoint = opened(openai.Endpoint(f"{url}/v1", key=SecretStr(KEY)))
        return openai.embedder(endpoint, **options)

    return build


@pytest.fixture
def writer(kind, model_server, opened, pauses):
    """Return a function that makes language models of both kinds of server."""

    def build(url=None, model="write", **limits):
        url = url or model_server.url
        options = {"model": model, "limits": Limits(**limits)}
        options["remote"] = Remote("server", sleep=pauses.append)
        if kind == "ollama":
            return ollama.OllamaLanguageModel(opened(ollama.Server(url)), **options)
        endpoint = opened(openai.Endpoint(f"{url}/v1", key=SecretStr(KEY)))
        return openai.OpenAiLanguageModel(endpoint, **options)

    return build


@pytest.fixture
def nobody():
    """Return the URL of a port without a listener."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def embeddings(server):
    """Return the texts of each embedding call, without the probe's."""
    return [body["input"] for _, body in server.calls if "input" in body][1:]


# What a good day looks like


def test_vectors_come_in_the_order_of_the_texts(embedder, model_server):
    vectors = embedder().embed_documents(TEXTS)
    wanted = np.array([model_server.vector(text) for text in TEXTS])
    np.testing.assert_allclose(
        vectors, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), rtol=1e-5
    )


def test_nothing_is_asked_before_it_is_needed(embedder, writer, nobody):
    embedder(url=nobody)
    writer(url=nobody)


def test_a_batch_stays_within_its_tokens(embedder, model_server):
    texts = [f"word{n} " * 50 for n in range(40)]
    made = embedder(batch_tokens=600, concurrency=1)
    assert made.embed_documents(texts).shape == (40, model_server.DIM)
    sent = embeddings(model_server)
    assert [text for batch in sent for text in batch] == texts
    assert all(sum(len(text) for text in batch) / 3 <= 600 for batch in sent)
    assert len(sent) < 40


def test_a_text_larger_than_a_batch_is_sent_alone_and_cut(embedder, model_server):
    embedder(batch_tokens=100).embed_documents(["word " * 100_000])
    ((sent,),) = embeddings(model_server)
    assert len(sent) == MAX_TEXT_CHARS


def test_batches_go_out_side_by_side_within_the_limit(embedder, model_server):
    gate = threading.Barrier(3, timeout=10)

    def meet(path, asked):
        gate.wait()
        return model_server.good(path, asked)

    made = embedder(batch_tokens=64, concurrency=3)
    assert made.dim == model_server.DIM
    model_server.always = meet
    texts = [f"word{n} " * 30 for n in range(3)]
    assert made.embed_documents(texts).shape == (3, model_server.DIM)


def test_texts_without_words_are_never_sent(embedder, model_server):
    vectors = embedder().embed_documents(["", "{}();", TEXTS[0], " \n"])
    assert [bool(row.any()) for row in vectors] == [False, False, True, False]
    assert embeddings(model_server) == [[TEXTS[0]]]


def test_invalid_text_is_replaced_before_it_is_sent(embedder, model_server):
    assert embedder().embed_documents(["word \ud800 \x00"]).any()


def test_models_get_the_instructions_they_were_trained_with(embedder, model_server):
    model_server.models["nomic-embed-text:latest"] = "d4" * 32
    made = embedder(model="nomic-embed-text")
    made.embed_documents(["cache"])
    made.embed_query("cache")
    assert embeddings(model_server) == [["search_document: cache"], ["search_query: cache"]]


@pytest.mark.parametrize(
    ("model", "document", "query"),
    [
        ("nomic-embed-text:v1.5", "search_document: ", "search_query: "),
        ("hf.co/nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0", "search_document: ", "search_query: "),
        ("snowflake-arctic-embed2", "", "query: "),
        ("intfloat/multilingual-e5-large", "passage: ", "query: "),
        ("all-minilm", "", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_instructions_follow_the_family(model, document, query):
    assert (instructions(model).document, instructions(model).query) == (document, query)


def test_identity_names_backend_model_and_dimensions(embedder, kind):
    identity = embedder().identity
    assert identity.startswith(f"{kind}-embed-")
    assert identity.endswith("-8")


@pytest.mark.parametrize("length", [1e20, 1e-30], ids=str)
def test_vectors_of_any_length_are_cut_to_unit_length(embedder, model_server, length):
    """This includes a length whose square overflows or underflows single precision."""
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.always = model_server.json(answer_of([length] * 8))
    for vector in (made.embed_documents(TEXTS[:1])[0], made.embed_query("cache")):
        np.testing.assert_allclose(vector, [8**-0.5] * 8, rtol=1e-6)


def answer_of(*rows):
    """Return the response of both kinds of server with these vectors."""
    data = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
    return {"embeddings": rows, "data": data}


def test_answers_of_a_language_model_are_stripped(writer, kind):
    model = writer()
    assert model.complete("What is it?", max_tokens=10) == "Returns what was asked for."
    assert model.identity.startswith(f"{kind}-write")


def test_no_proxy_is_used_for_a_server_on_this_machine(embedder, writer, monkeypatch, nobody):
    monkeypatch.setenv("HTTP_PROXY", nobody)
    monkeypatch.setenv("ALL_PROXY", nobody)
    assert embedder().embed_documents(TEXTS).any()
    assert writer().complete("x", max_tokens=5)


#: What other processes do with models: ask once and drop them, or ask from many threads at once.
USES = {
    "prepared": "registry.prepare_models(settings)",
    "embedder": "registry.embedder(settings).embed_documents(['cache'] * 3)",
    "many threads": (
        "complete = partial(registry.language_model(settings).complete, max_tokens=5)\n"
        "with ThreadPoolExecutor(8) as threads: list(threads.map(complete, 'abcdefgh'))\n"
        "del complete"
    ),
}


@pytest.mark.slow
def test_connections_are_closed_with_their_last_user(kind, model_server, tmp_path):
    """Each use has a process of its own, forked from one that has imported the client."""
    script = (
        "import gc, os, sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from functools import partial\n"
        "from codelode.backends import registry\n"
        f"from codelode.backends.models import {kind}\n"
        "from codelode.settings import load\n"
        "settings = load()\n"
        f"for name, use in {USES!r}.items():\n"
        "    if not os.fork():\n"
        "        exec(use)\n"
        "        gc.collect()\n"
        "        sys.exit()\n"
        "    status = os.waitstatus_to_exitcode(os.wait()[1])\n"
        "    if status:\n"
        "        sys.exit(f'{name}: {status}')\n"
    )
    named = {
        "EMBEDDER": kind,
        "LANGUAGE_MODEL": kind,
        "EMBEDDING_MODEL": "embed",
        "SUMMARY_MODEL": "write",
        "OLLAMA_URL": model_server.url,
        "OPENAI_URL": f"{model_server.url}/v1",
        "MODEL_CONCURRENCY": "8",
        "DATA": str(tmp_path),
    }
    environment = os.environ | {f"CODELODE_{name}": value for name, value in named.items()}

    ended = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert model_server.asked("/embed", "/embeddings") == 3
    assert model_server.asked("/generate", "/chat/completions") == 8


# Bad days


def test_a_server_that_is_gone_is_unavailable_and_named(embedder, writer, nobody, pauses):
    for ask in (
        lambda: embedder(url=nobody).identity,
        lambda: embedder(url=nobody).embed_documents(TEXTS),
        lambda: embedder(url=nobody).embed_query("x"),
        lambda: writer(url=nobody).complete("x", max_tokens=5),
    ):
        with pytest.raises(Unavailable, match=nobody):
            ask()
    assert pauses


def test_a_server_that_keeps_failing_is_left_alone_for_as_long_as_is_set(kind, nobody):
    at = {"ollama_url": nobody, "openai_url": f"{nobody}/v1"}
    made = registry.embedder(load(embedder=kind, model_retry_s=23, **at))
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(Unavailable, match=nobody):
            made.embed_query("cache")
    with pytest.raises(Unavailable, match=r"left alone for 2[0-3] s"):
        made.embed_query("cache")


def test_a_restarted_server_is_used_again(embedder, model_server, pauses):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.answers = [lambda path, asked: None] * 2
    assert made.embed_documents(TEXTS).any(axis=1).all()
    assert len(pauses) == 2


def test_a_slow_server_is_given_up_after_the_timeout_and_not_asked_twice(
    embedder, writer, model_server, pauses
):
    made, model = embedder(timeout_s=0.2), writer(timeout_s=0.2)
    assert made.dim == model_server.DIM
    _ = model.identity
    model_server.always = model_server.stall
    before = len(model_server.calls)
    with pytest.raises(TimedOut):
        made.embed_documents(TEXTS)
    with pytest.raises(TimedOut):
        model.complete("x", max_tokens=5)
    assert len(model_server.calls) == before + 2
    assert pauses == []


def test_embedding_a_query_has_a_shorter_timeout_than_documents(embedder, model_server):
    made = embedder(timeout_s=60, query_timeout_s=0.2)
    assert made.dim == model_server.DIM
    model_server.always = model_server.stall
    started = time.monotonic()
    with pytest.raises(TimedOut):
        made.embed_query("cache")
    assert time.monotonic() - started < 10


def test_the_first_query_waits_no_longer_than_later_ones(
    embedder, model_server, nobody, pauses, wait_for
):
    """This holds even while another thread, which may wait longer, asks what the model is."""
    with pytest.raises(Unavailable, match=nobody):
        embedder(url=nobody).embed_query("cache")
    assert pauses == []

    made = embedder(timeout_s=60, query_timeout_s=0.2)
    model_server.always = model_server.stall
    started = time.monotonic()
    with pytest.raises(TimedOut):
        made.embed_query("cache")
    before = len(model_server.calls)
    asking = threading.Thread(target=lambda: made.dim)
    asking.start()
    wait_for(lambda: len(model_server.calls) > before, "the thread to ask")
    with pytest.raises(TimedOut, match="not yet answered"):
        made.embed_query("cache")
    assert time.monotonic() - started < 10

    model_server.always = None
    model_server.released.set()
    asking.join()
    assert made.embed_query("cache").any()


GARBAGE = {
    "page": b"<html>Welcome</html>",
    "half": b'{"embeddings": [[0.1, 0.',
    "list": b"[]",
    "text": b'"ok"',
    "null": b"null",
    "other": b'{"message": "hello"}',
    "strings": b'{"embeddings": [["a"]], "data": [{"index": 0, "embedding": ["a"]}]}',
    "nan": b'{"embeddings": [[NaN, 1, 1, 1, 1, 1, 1, 1]],'
    b' "data": [{"index": 0, "embedding": [NaN, 1, 1, 1, 1, 1, 1, 1]}]}',
    "infinity": b'{"embeddings": [[1e999, 1, 1, 1, 1, 1, 1, 1]],'
    b' "data": [{"index": 0, "embedding": [1e999, 1, 1, 1, 1, 1, 1, 1]}]}',
    "zeros": b'{"embeddings": [[0, 0, 0, 0, 0, 0, 0, 0]],'
    b' "data": [{"index": 0, "embedding": [0, 0, 0, 0, 0, 0, 0, 0]}]}',
    "too long": b'{"embeddings": [[1e200, 1, 1, 1, 1, 1, 1, 1]],'
    b' "data": [{"index": 0, "embedding": [1e200, 1, 1, 1, 1, 1, 1, 1]}]}',
    "too short": b'{"embeddings": [[1e-200, 0, 0, 0, 0, 0, 0, 0]],'
    b' "data": [{"index": 0, "embedding": [1e-200, 0, 0, 0, 0, 0, 0, 0]}]}',
    "none": b'{"embeddings": [], "data": []}',
    "too many": b'{"embeddings": [[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]], "data": '
    b'[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}',
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_nonsense_is_refused_and_asked_for_again(embedder, model_server, body):
    made = embedder()
    good = made.embed_documents(TEXTS[:1])
    model_server.answers = [model_server.json(body)] * 2
    np.testing.assert_array_equal(made.embed_documents(TEXTS[:1]), good)


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_an_embedder_that_keeps_returning_nonsense_is_an_error(embedder, model_server, body):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.always = model_server.json(body)
    with pytest.raises(Garbled, match=model_server.url):
        made.embed_documents(TEXTS[:1])


def test_an_invalid_first_answer_gives_no_identity(embedder, model_server):
    model_server.always = model_server.json(GARBAGE["nan"])
    with pytest.raises(Garbled):
        _ = embedder().identity


@pytest.mark.parametrize("body", [GARBAGE["page"], GARBAGE["list"], GARBAGE["half"]])
def test_a_language_model_that_talks_no_json_is_unavailable(writer, model_server, body):
    model = writer()
    _ = model.identity
    model_server.always = model_server.json(body)
    with pytest.raises(Unavailable):
        model.complete("x", max_tokens=5)


def test_another_dimension_than_at_the_start_is_refused_with_the_remedy(embedder, model_server):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.always = model_server.json(answer_of([1.0] * (model_server.DIM + 1)))
    with pytest.raises(SchemaMismatch, match=r"9 dimensions, not 8.*index again"):
        made.embed_documents(TEXTS[:1])


def test_another_dimension_than_configured_is_refused_at_the_start(embedder, model_server):
    with pytest.raises(SchemaMismatch, match="8 dimensions, not 512"):
        _ = embedder(dim=512).identity


def test_vectors_of_different_lengths_are_refused(embedder, model_server):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.always = model_server.json(answer_of([1.0] * 8, [1.0] * 7))
    with pytest.raises(Garbled, match="different lengths"):
        made.embed_documents(TEXTS[:2])


def test_a_server_that_is_busy_is_given_the_pause_it_asks_for(embedder, model_server, pauses):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.answers = [model_server.json({"error": "busy"}, 429, Retry_After="2")]
    assert made.embed_documents(TEXTS).any()
    assert pauses == [2.0]


def test_a_server_that_stays_busy_raises_throttled(writer, model_server):
    model = writer()
    _ = model.identity
    model_server.always = model_server.json({"error": "busy"}, 429)
    with pytest.raises(Throttled):
        model.complete("x", max_tokens=5)


def test_errors_of_the_server_are_retried_and_then_raised(embedder, model_server, pauses):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.answers = [model_server.json({"error": "out of memory"}, 500)] * 3
    assert made.embed_documents(TEXTS).any()
    assert len(pauses) == 3
    model_server.always = model_server.json({"error": "out of memory"}, 500)
    with pytest.raises(Unavailable, match="out of memory"):
        made.embed_documents(TEXTS)


def test_a_server_that_keeps_failing_is_left_alone(embedder, model_server):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.always = model_server.json({"error": "broken"}, 503)
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(Unavailable):
            made.embed_query("cache")
    before = len(model_server.calls)
    with pytest.raises(Unavailable, match="left alone"):
        made.embed_query("cache")
    assert len(model_server.calls) == before


def test_a_text_refused_by_the_model_rejects_its_file(embedder, model_server, pauses):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.always = model_server.json({"error": "input is too long"}, 400)
    with pytest.raises(Rejected, match="too long"):
        made.embed_documents(TEXTS)
    assert pauses == []


@pytest.mark.parametrize(
    "answer",
    [
        ({"error": "bad key"}, 401),
        ({"error": "too long"}, 400),
        ({"embeddings": [[1.0]], "data": [{"index": 0, "embedding": [1.0]}]}, 200),
    ],
    ids=["key", "text", "dimension"],
)
def test_a_query_continues_without_its_vector_after_any_failure(embedder, model_server, answer):
    made = embedder()
    assert made.dim == model_server.DIM
    model_server.always = model_server.json(*answer)
    with pytest.raises(Unavailable):
        made.embed_query("cache")


@pytest.mark.parametrize("kind", ["openai"], indirect=True)
def test_a_refused_key_is_a_setting_and_never_shown(embedder, writer, model_server):
    model_server.always = model_server.json({"error": {"message": "bad key"}}, 401)
    for ask in (lambda: embedder().identity, lambda: writer().complete("x", max_tokens=5)):
        with pytest.raises(InvalidSettings, match="bad key") as caught:
            ask()
        assert KEY not in repr(caught.value) + str(caught.value.__cause__)


@pytest.mark.parametrize("kind", ["openai"], indirect=True)
def test_an_error_names_the_model_that_the_endpoint_lacks(writer, model_server):
    model_server.always = model_server.json({"error": {"message": "no model nope"}}, 404)
    with pytest.raises(Unavailable, match="no model nope"):
        writer(model="nope").complete("x", max_tokens=5)


# Ollama's models


def test_a_missing_model_is_pulled_with_progress(model_server, server):
    seen = []
    made = ollama.embedder(server(progress=lambda *step: seen.append(step)), model="fresh")
    assert made.identity.startswith("ollama-fresh-d3d3d3d3d3d3-")
    assert ("pulling", 5, 10) in seen
    assert model_server.asked("/api/pull") == 1


def test_progress_is_logged_once_a_step(model_server, server):
    with structlog.testing.capture_logs() as logs:
        _ = ollama.embedder(server(), model="fresh").identity
    percents = [line["percent"] for line in logs if line["event"] == "model_pull"]
    assert percents == [0, 50, 100, 0]


def test_many_threads_pull_a_model_once(model_server, server):
    made = ollama.embedder(server(), model="fresh")
    threads = [threading.Thread(target=lambda: made.identity) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model_server.asked("/api/pull") == 1


@pytest.mark.parametrize(
    ("may_pull", "answer"),
    [
        (False, None),
        (True, b'{"status": "pulling manifest"}\n{"error": "file does not exist"}'),
        (True, b"<html>"),
    ],
    ids=["not allowed", "unknown", "garbage"],
)
def test_a_model_that_cannot_be_had_names_the_remedy(model_server, server, may_pull, answer):
    if answer:
        model_server.always = model_server.json(answer)
    made = ollama.embedder(server(may_pull=may_pull), model="nope")
    with pytest.raises(Unavailable, match=r"lacks the model nope .*ollama pull nope"):
        _ = made.identity


def test_changed_weights_change_the_identity(model_server, server):
    first = ollama.embedder(server(), model="embed").identity
    model_server.models["embed:latest"] = "ee" * 32
    assert ollama.embedder(server(), model="embed").identity != first


def test_weights_that_change_while_we_run_are_refused(model_server, server):
    now = [0.0]
    made = ollama.embedder(server(), model="embed", clock=lambda: now[0])
    made.embed_documents(TEXTS)
    model_server.models["embed:latest"] = "ee" * 32
    made.embed_documents(TEXTS)
    now[0] += RECHECK_S
    for _ in range(2):
        with pytest.raises(SchemaMismatch, match="index again"):
            made.embed_documents(TEXTS)
    with pytest.raises(Unavailable, match="index again"):
        made.embed_query("cache")


def test_weights_that_change_while_their_server_is_away_are_refused_when_it_is_back():
    now, weights = [0.0], ["before"]

    def version(_):
        if not weights:
            raise Unavailable("restarting")
        return weights[0]

    made = ServedEmbedder(
        "server",
        model="embed",
        backend="memory",
        fetch=lambda texts, _: [[1.0] * 8 for _ in texts],
        version=version,
        check=version,
        remote=Remote("server"),
        limits=Limits(),
        clock=lambda: now[0],
    )
    assert made.embed_documents(TEXTS).any()
    now[0] += RECHECK_S
    weights.clear()
    with pytest.raises(Unavailable, match="restarting"):
        made.embed_documents(TEXTS)
    weights.append("after")
    with pytest.raises(SchemaMismatch, match="index again"):
        made.embed_documents(TEXTS)
    weights[0] = "before"
    assert made.embed_documents(TEXTS).any()


def test_a_check_asks_the_server_and_not_the_model(model_server, embedder, writer, nobody):
    for made in (embedder(), writer()):
        made.check()
    assert {path for path, _ in model_server.calls} <= {"/api/tags", "/v1/models"}
    for made in (embedder(nobody), writer(nobody)):
        with pytest.raises(Unavailable, match="does not answer"):
            made.check()


def test_a_query_does_not_pull_a_model_that_is_missing_at_the_start(model_server, server):
    made = ollama.embedder(server(), model="fresh")
    with pytest.raises(Unavailable, match=r"lacks the model fresh .*next indexing.*pull fresh"):
        made.embed_query("cache")
    assert model_server.asked("/api/pull") == 0
    assert made.embed_documents(TEXTS).any()
    assert made.embed_query("cache").any()
    assert model_server.asked("/api/pull") == 1


def test_the_error_of_a_query_says_that_pulling_is_switched_off(server):
    with pytest.raises(Unavailable, match=r"pulling is switched off.*ollama pull fresh"):
        ollama.embedder(server(may_pull=False), model="fresh").embed_query("cache")


def test_a_query_does_not_wait_for_a_model_that_documents_pull(model_server, server, wait_for):
    now = [0.0]
    model_server.models["embed:latest"] = "d3" * 32  # what a pull brings
    made = ollama.embedder(server(), model="embed", clock=lambda: now[0])
    made.embed_query("cache")

    def hold(path, asked):
        if path == "/api/pull":
            model_server.released.wait(60)
        return model_server.good(path, asked)

    del model_server.models["embed:latest"]
    model_server.always = hold
    now[0] += RECHECK_S
    vectors = []
    documents = threading.Thread(target=lambda: vectors.append(made.embed_documents(TEXTS)))
    documents.start()
    wait_for(lambda: model_server.asked("/api/pull"), "the pull to begin")
    with pytest.raises(Unavailable, match="lacks the model embed"):
        made.embed_query("cache")
    assert not vectors

    model_server.released.set()
    documents.join()
    assert vectors[0].any()
    assert made.embed_query("cache").any()
    assert model_server.asked("/api/pull") == 1


def test_the_number_of_threads_is_sent_if_it_is_set(model_server, server):
    ollama.embedder(server(threads=1), model="embed").embed_query("cache")
    ollama.OllamaLanguageModel(server(threads=1), model="write").complete("x", max_tokens=5)
    options = [body["options"] for _, body in model_server.calls if "options" in body]
    assert [each.get("num_thread") for each in options] == [1, 1, 1]
