"""Three real nodes on loopback with every chunk on each of them: one may fail."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from uuid import uuid4

import httpx
import pytest

from codelode.backends.weaviate import TenantIndex, search
from codelode.errors import InvalidSettings, Unavailable
from codelode.model import FileChunks
from tests.waiting import wait_until


@pytest.mark.timeout(240)
async def test_with_one_of_three_nodes_down_writes_and_reads_continue(
    weaviate_nodes, open_weaviate, chunk_of, file_of, monkeypatch
):
    """The failing node is the leader, so the others must elect another one."""
    monkeypatch.setattr(search, "FOLLOW_S", 0.0)
    gone = next(node for node in weaviate_nodes if node.is_leader())
    stays = next(node for node in weaviate_nodes if node is not gone)
    place = TenantIndex(alias=f"Test{uuid4().hex[:8]}", replicas=len(weaviate_nodes))
    there, here = (open_weaviate(node.address, place) for node in (gone, stays))
    here.store.replace([file_of(chunk_of("before.py")), file_of(chunk_of("leaves.py"))])
    assert paths(await here.found()) == ["before.py", "leaves.py"]
    assert paths(await there.found()) == ["before.py", "leaves.py"]

    gone.end()
    assert paths(await here.found()) == ["before.py", "leaves.py"]
    left = file_of(chunk_of("leaves.py"))
    insist(lambda: here.store.replace([file_of(chunk_of("during.py"))]))
    here.store.remove_repository("acme/none")
    here.store.replace([FileChunks(left.repository, left.path, left.refs)])
    assert paths(await here.found()) == ["before.py", "during.py"]

    gone.start()
    gone.wait_ready()
    again = open_weaviate(gone.address, place)
    deadline = time.monotonic() + 120
    while paths(await again.found()) != ["before.py", "during.py"]:
        assert time.monotonic() < deadline
    assert again.ids() == here.ids()


async def test_no_node_accepts_a_request_without_the_key(weaviate_nodes, open_weaviate):
    for node in weaviate_nodes:
        place = TenantIndex(alias=f"Test{uuid4().hex[:8]}")
        stranger = open_weaviate(replace(node.address, api_key="wrong"), place)
        with pytest.raises(InvalidSettings, match="CODELODE_WEAVIATE_API_KEY"):
            await stranger.found()
        for path in ("/nodes/status", "/cluster/users/db/lastUsedTime", "/indices/Any/shards/any"):
            wait_until(partial(answer, node.data_url + path), "the node to listen")
            assert answer(node.data_url + path) == 401


def answer(url):
    """Return the status of the answer; None while a node that starts again does not listen yet."""
    try:
        return httpx.get(url, trust_env=False, timeout=60).status_code
    except httpx.ConnectError:
        return None


def insist(write, *, timeout_s=120.0):
    """Retry as a worker does while the store is unavailable."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return write()
        except Unavailable:
            assert time.monotonic() < deadline


def paths(hits):
    return sorted(hit.chunk.path for hit in hits)
