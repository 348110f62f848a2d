"""A gateway that starts while the embedding model is unreachable answers by keywords."""

from __future__ import annotations

import os
import signal

import pytest

from codelode.errors import Unavailable
from codelode.model import RunState

#: One store suffices: what a gateway reads from a store is tested with each of them.
pytestmark = pytest.mark.parametrize("store", ["local"], indirect=True)

FILES = {f"part_{n}.py": f"def read_{n}(path):\n    return open(path)\n" for n in range(3)}


@pytest.fixture
def cluster(tmp_path, store, cluster_at, ollama):
    made = cluster_at(
        tmp_path / "data",
        embedder="ollama",
        ollama_url=ollama.url,
        ollama_threads="1",
        embedding_model="all-minilm",
        **store(),
    )
    made.start()
    yield made
    made.stop()


def answer(client):
    """Return the answer, or None while no gateway serves."""
    try:
        return client.search("read_1", repositories=["app"], skip_cache=True)
    except Unavailable:
        return None


def ranks_by_keywords(found):
    return any("keywords" in notice for notice in found.notices)


def test_a_gateway_that_starts_without_ollama_searches_by_keywords_until_it_returns(
    cluster, ollama, git, wait_for
):
    git.commit(FILES)
    with cluster.client() as client:
        run = client.index(str(git.folder), name="app")
        assert (run.state, run.done) == (RunState.COMPLETE, 3)
        assert not ranks_by_keywords(answer(client))
        before = client.status()

        (pid,) = cluster.pids("-m gateway")
        ollama.kill()
        try:
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: cluster.pids("-m gateway") not in ([], [pid]), "another gateway")
            wait_for(lambda: answer(client), "it to serve")
            found, now = answer(client), client.status()
            alone = cluster.pids("-m gateway")
        finally:
            ollama.start()
        assert found.hits[0].path == "part_1.py"
        assert ranks_by_keywords(found)
        assert (now.embedder, now.chunks) == (before.embedder, before.chunks)

        wait_for(lambda: not ranks_by_keywords(answer(client)), "vectors to count again")
        assert len(answer(client).hits) == 3
        assert cluster.pids("-m gateway") == alone
