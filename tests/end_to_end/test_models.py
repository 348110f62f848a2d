"""Runs with model servers reuse results, and complete even if the servers fail."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from itertools import count

import pytest

from codelode.access import EVERYTHING
from codelode.backends import registry
from codelode.model import DEFAULT_REF, Filters, HybridQuery, RepositoryName, RunState
from tests.end_to_end.runs import command, ended
from tests.waiting import answered
from workers.enrich.priority import CENTRAL_IMPORTERS

FILES = 12


def sources(number, mark):
    """Return different contents by path. Each has two definitions, and the mark, so that caches of
    other tests do not have it.
    """
    return {
        f"src/part_{n}.py": textwrap.dedent(f'''
            """Part {n} of the program {mark}."""

            def load_{n}(path, limit):
                """Read what is there in {mark}."""
                with open(path) as source:
                    rows = [line.strip() for line in source]
                return rows[:limit]


            def store_{n}(path, rows, mode):
                """Write what was read in {mark}."""
                with open(path, mode) as target:
                    for row in rows:
                        target.write(row + "{n}")
        ''')
        for n in range(number)
    }


_numbers = count(1)


@pytest.fixture
def mark():
    return f"number {next(_numbers)}"


@pytest.fixture
def files(mark):
    return sources(FILES, mark)


def settings_at(server):
    """Return the settings of a cluster that embeds and summarises with the model server."""
    return {
        "embedder": "openai",
        "language_model": "openai",
        "openai_url": f"{server.url}/v1",
        "openai_api_key": "sk-secret",
        "embedding_model": "embed",
        "summary_model": "write",
    }


@pytest.fixture
def served(shared_model_server):
    """The model server, which works."""
    shared_model_server.calls.clear()
    shared_model_server.released.clear()
    yield shared_model_server
    shared_model_server.always = None
    shared_model_server.released.set()


@pytest.fixture(scope="module")
def shared(make_cluster, shared_model_server):
    return make_cluster(**settings_at(shared_model_server))


@pytest.fixture
def served_cluster(shared, served, wait_for):
    """The cluster of these tests, with an empty index."""
    with shared.client() as client:
        for found in client.repositories():
            client.remove(found.repository.name)
    ledger = registry.ledger(shared.settings())
    wait_for(lambda: not ledger.being_removed(), "what was indexed to leave")
    return shared


def stored_summaries(cluster, name):
    """Return by path how many summaries the ledger has as made and as missing."""
    ledger = registry.ledger(cluster.settings())
    (status,) = ledger.refs(RepositoryName(name))
    return {
        record.path: (record.summaries, record.summaries_missing)
        for record in ledger.all(RepositoryName(name), status.ref)
    }


async def stored_sentences(cluster, name):
    """Return the summaries of the chunks that have a word of SOURCES."""
    search = registry.chunk_search(cluster.settings())
    filters = Filters(repositories=(RepositoryName(name),))
    query = HybridQuery("rows", None, filters, limit=100, visible=EVERYTHING)
    found = await answered(lambda: search.hybrid(query))
    await search.close()
    return {candidate.chunk.summary for candidate in found}


def calls_for_content(server):
    """Return all calls except those by which a process finds the dimension of the embedder."""
    return sum(asked.get("input") != ["dimension"] for _, asked in server.calls)


def run_of(cluster, run):
    ledger = registry.ledger(cluster.settings())
    return ledger.run(run.id)


def test_every_definition_is_summarised_and_a_copy_costs_no_call(
    served_cluster, served, git, files
):
    git.commit(files)
    with served_cluster.client() as client:
        first = client.index(str(git.folder), name="first")
        assert (first.state, first.failed) == (RunState.COMPLETE, 0)
        made = run_of(served_cluster, first)
        assert made.summaries >= len(files)
        assert made.summaries_missing == 0
        assert served.asked("/chat/completions") == made.summaries
        before = calls_for_content(served)
        second = client.index(str(git.folder), name="second")
        assert (second.state, second.done) == (RunState.COMPLETE, first.done)
        assert calls_for_content(served) == before
    assert run_of(served_cluster, second).summaries == made.summaries
    assert stored_summaries(served_cluster, "second") == stored_summaries(served_cluster, "first")


def test_the_summary_of_a_file_is_made_once_shown_by_explain_and_shared_by_copies(
    served_cluster, served, git, files, mark
):
    whole = "\n\n".join(files.values())
    git.commit({"src/all.py": whole, "src/part_0.py": files["src/part_0.py"]})
    with served_cluster.client() as client:
        run = client.index(str(git.folder), name="first")
        made = run_of(served_cluster, run)
        asked = [json.dumps(body) for path, body in served.calls if "completions" in path]
        assert ["the outline of" in question for question in asked].count(True) == 1
        assert (len(asked), made.summaries_missing) == (made.summaries, 0)
        git.run("mv", "src/all.py", "src/moved.py")
        git.commit({})
        client.index(str(git.folder), name="first")
        assert served.asked("/chat/completions") == len(asked)
        told = client.explain("src/moved.py", repository="first").summary
    assert told.startswith(
        f"src/moved.py. Returns what was asked for. Part 0 of the program {mark}."
    )


@pytest.fixture
def one_by_one(tmp_path, cluster_at, served):
    """A cluster that works on one file of a run at a time, in the planned order."""
    made = cluster_at(tmp_path / "data", **settings_at(served), window="1")
    made.start()
    yield made
    made.kill()


@pytest.mark.parametrize(
    "store", ["local"], indirect=True
)  # the ledger plans independently of the store
def test_a_central_file_is_summarised_before_one_that_was_changed_later(
    one_by_one, store, served, git, files
):
    hub = files["src/part_0.py"]
    users = [f"src/part_{n}.py" for n in range(1, CENTRAL_IMPORTERS + 1)]
    git.commit({"src/hub.py": hub} | {path: f"import hub\n{files[path]}" for path in users})
    with one_by_one.client() as client:
        client.index(str(git.folder), name="app")
        before = len(served.calls)
        git.commit({"src/hub.py": hub.replace("rows", "lines")})
        git.commit({"src/part_1.py": files["src/part_1.py"].replace("rows", "lines")})
        run = client.index(str(git.folder), name="app")
    assert (run.state, run.done) == (RunState.COMPLETE, 2)
    asked = [json.dumps(body) for path, body in served.calls[before:] if "completions" in path]
    assert ["load_0" in question for question in asked] == [True, False]


def test_a_renamed_file_reuses_cached_summaries(served_cluster, served, git, files):
    git.commit(files)
    with served_cluster.client() as client:
        client.index(str(git.folder), name="app")
        before = served.asked("/chat/completions")
        git.run("mv", "src/part_0.py", "src/moved.py")
        git.commit({}, "move")
        run = client.index(str(git.folder), name="app")
        assert run.state is RunState.COMPLETE
        assert served.asked("/chat/completions") == before
    assert stored_summaries(served_cluster, "app")["src/moved.py"][0] > 0


def test_a_temporary_outage_of_the_embedder_loses_no_file(
    served_cluster, served, git, wait_for, files
):
    git.commit(files)
    served.always = served.json({"error": "loading"}, 503)
    with served_cluster.client() as client:
        run = client.index(str(git.folder), name="app", wait=False)
        wait_for(lambda: served.asked("/embeddings") >= 3, "the embedder to be asked")
        wait_for(lambda: run_of(served_cluster, run).waits_for, "the run to say what it waits for")
        assert served.url in run_of(served_cluster, run).waits_for
        served.always = None
        *_, end = client.watch(run.id)
        assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, len(files))
        assert end.waits_for == ""
        served.always = served.json({"error": "loading"}, 503)
        answer = client.search("write what was read", repositories=["app"])
        assert answer.hits
        assert any("keywords" in notice for notice in answer.notices)


async def test_a_language_model_that_fails_stops_itself_and_not_the_run(
    served_cluster, served, git, files
):
    git.commit(files)
    served.always = refusing(served, "/chat/completions", 500)
    with served_cluster.client() as client:
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.failed, run.done) == (RunState.COMPLETE, 0, len(files))
        found = run_of(served_cluster, run)
        assert found.summaries == 0
        assert found.summaries_missing >= len(files)
        assert client.search("write what was read", repositories=["app"]).hits
        assert await stored_sentences(served_cluster, "app") == {""}
        served.always = None
        again = redo_summaries(served_cluster, client, "app")
        assert (again.state, again.summaries_missing) == (RunState.COMPLETE, 0)
        assert again.summaries == found.summaries_missing
    assert all(missing == 0 for _, missing in stored_summaries(served_cluster, "app").values())
    assert await stored_sentences(served_cluster, "app") == {"Returns what was asked for."}


async def test_a_failed_attempt_to_process_a_file_again_keeps_its_index(
    served_cluster, served, git, files
):
    git.commit(files)
    served.always = refusing(served, "/chat/completions")
    with served_cluster.client() as client:
        first = client.index(str(git.folder), name="app")
        assert (first.state, first.failed) == (RunState.COMPLETE, 0)
        before = served_cluster.index_of("app")
        served.always = refusing(served, "/embeddings")
        again = redo_summaries(served_cluster, client, "app")
        assert (again.state, again.failed) == (RunState.COMPLETE, len(files))
        served.always = None
        assert served_cluster.index_of("app") == before
        assert client.search("write what was read", repositories=["app"], skip_cache=True).hits
        (retried,) = client.retry("app")
        *_, end = client.watch(retried.id)
        assert (end.state, end.failed) == (RunState.COMPLETE, 0)
    assert served_cluster.index_of("app") == before
    assert await stored_sentences(served_cluster, "app") == {"Returns what was asked for."}


def refusing(server, ending, status=400):
    """Make the server refuse all contents at paths with this ending.

    It still answers the call by which a process finds the dimension of the embedder.
    """

    def answer(path, asked):
        if path.endswith(ending) and asked.get("input") != ["dimension"]:
            return server.json({"error": "refused"}, status)(path, asked)
        return server.good(path, asked)

    return answer


def hold_sentences(server, *, after=0):
    """Answer this many more calls of the language model, and the others after `released`."""
    most = server.asked("/chat/completions") + after

    def answer(path, asked):
        if path.endswith("/chat/completions") and server.asked("/chat/completions") > most:
            server.released.wait(60)
        return server.good(path, asked)

    server.always = answer


async def test_a_killed_enrich_worker_repeats_at_most_one_batch_of_calls(
    served_cluster, served, git, wait_for, mark
):
    many = sources(40, mark)
    git.commit(many)
    batch = 2 * served_cluster.settings().model_concurrency
    hold_sentences(served, after=batch + batch // 2)
    with served_cluster.client() as client:
        run = client.index(str(git.folder), name="app", wait=False)
        wait_for(
            lambda: served.asked("/chat/completions") > batch + batch // 2,
            "a question of the second batch to be held",
        )
        killed = served_cluster.pids("workers enrich")
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        served.released.set()
        *_, end = client.watch(run.id)
    assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, len(many))
    found = run_of(served_cluster, run)
    assert (found.summaries >= len(many), found.summaries_missing) == (True, 0)
    assert await stored_sentences(served_cluster, "app") == {"Returns what was asked for."}
    assert found.summaries <= served.asked("/chat/completions") <= found.summaries + batch


def indexed_by(overview):
    """Return the numbers of files and chunks of each ref, from the status."""
    refs = [ref for each in overview.repositories for ref in each.refs]
    return [(ref.files, ref.chunks, ref.failed) for ref in refs]


async def test_a_command_makes_missing_summaries_while_the_index_stays_complete(
    served_cluster, served, git, wait_for, files
):
    git.commit(files)
    served.always = refusing(served, "/chat/completions", 500)
    status, said = ended(
        command(served_cluster, "index", str(git.folder), "--name", "app", "--wait")
    )
    missing = sum(lacking for _, lacking in stored_summaries(served_cluster, "app").values())
    assert (status, missing >= len(files)) == (0, True)
    assert f"complete without {missing} summaries" in said

    with served_cluster.client() as client:
        before = indexed_by(client.status())
        assert before[0][0] == len(files)
        asked = served.asked("/chat/completions")
        hold_sentences(served)
        enriching = command(served_cluster, "enrich", "app", "--wait")
        wait_for(lambda: served.asked("/chat/completions") > asked, "a question to be held")
        status, said = ended(command(served_cluster, "status", "--json"))
        [ref] = json.loads(said)["repositories"][0]["refs"]
        assert (status, ref["files"], ref["chunks"], ref["failed"]) == (0, *before[0])
        context = client.context("write what was read", repositories=["app"])
        assert "store_" in context.text
        assert context.search.notices == ()
        assert [one.pending for one in context.search.coverage] == [0]
        served.released.set()
        seen = [indexed_by(client.status())]
        while enriching.poll() is None:
            seen.append(indexed_by(client.status()))
    status, said = ended(enriching)
    assert (status, "complete" in said, "without" in said) == (0, True, False)
    assert all(one == before for one in seen)
    assert served.asked("/chat/completions") == asked + missing
    assert all(lacking == 0 for _, lacking in stored_summaries(served_cluster, "app").values())
    assert await stored_sentences(served_cluster, "app") == {"Returns what was asked for."}


def redo_summaries(cluster, client, name):
    """Make the missing summaries by a run that is created in the ledger and sent to the broker."""
    from codelode.model import Reprocess
    from gateway.jobs import CeleryJobs

    settings = cluster.settings()
    run = registry.ledger(settings).create(
        RepositoryName(name), DEFAULT_REF, reprocess=[Reprocess.SUMMARIES]
    )
    jobs = CeleryJobs(settings)
    jobs.pull(run)
    jobs.close()
    *_, end = client.watch(run.id)
    assert end.state.is_over
    return run_of(cluster, run)


@pytest.fixture
def ollama_cluster(tmp_path, store, cluster_at, ollama_url):
    """A cluster that uses a real Ollama with small models."""
    settings = {
        "embedder": "ollama",
        "language_model": "ollama",
        "ollama_url": ollama_url,
        "ollama_threads": "1",
        "embedding_model": "all-minilm",
        "summary_model": "smollm2",
    }
    made = cluster_at(tmp_path / "data", **settings, **store())
    made.start()
    yield made
    made.kill()


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)  # other tests use the local store
def test_search_works_with_embeddings_and_summaries_of_a_real_ollama(ollama_cluster, git, mark):
    git.commit(sources(2, mark))
    with ollama_cluster.client() as client:
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.failed, run.done) == (RunState.COMPLETE, 0, 2)
        found = run_of(ollama_cluster, run)
        assert found.summaries
        answer = client.search("put rows into a file", repositories=["app"])
        assert "store_" in answer.hits[0].content
        assert not answer.notices
        copy = client.index(str(git.folder), name="copy")
    assert run_of(ollama_cluster, copy).summaries >= found.summaries
