"""Repositories in a real Weaviate are regrouped after changes of rights, while searches go on."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

import pytest

from codelode.backends import registry
from codelode.backends.weaviate.connection import connect
from codelode.cli import main
from codelode.client import Client
from codelode.model import RunState
from tests.end_to_end.searching import Searcher

pytestmark = pytest.mark.parametrize("store", ["weaviate"], indirect=True)

WORD = "regrouped_everywhere"
RED, BLUE = ("a-red", "b-red"), ("c-blue", "d-blue")


def searching(cluster, key, expected):
    """Return a thread that searches with the key and expects hits of these repositories."""

    def wrong(client):
        found = client.search(WORD, top_k=50, skip_cache=True)
        places = {hit.repository for hit in found.hits}
        places |= {copy.repository for hit in found.hits for copy in hit.copies}
        return None if places == {*expected} else places

    return Searcher(partial(Client, cluster.facts["grpc"], token=key), wrong)


def groups_in_chunks(cluster, address):
    """Return the groups of each repository's chunks."""
    settings, found = cluster.settings(), {}
    with closing(connect(address)) as client:
        chunks: Any = client.collections.use(settings.weaviate_collection)
        chunks = chunks.with_tenant(settings.organisation)
        for one in chunks.iterator(return_properties=["repository", "prefixes"]):
            groups = [part for part in one.properties["prefixes"] if part.startswith("=")]
            found.setdefault(one.properties["repository"], set()).add(tuple(groups))
    return found


def regroup(cluster, monkeypatch):
    for name, value in cluster._settings.items():
        monkeypatch.setenv(f"CODELODE_{name.upper()}", value)
    with pytest.raises(SystemExit) as ended:
        main(["regroup", "--data", str(cluster.data)])
    assert not ended.value.code


def test_searches_find_exactly_the_visible_repositories_during_regrouping(
    own_cluster, make_git, monkeypatch, weaviate_address
):
    cluster = own_cluster
    gits = {name: make_git() for name in (*RED, *BLUE)}
    with cluster.client() as admin:
        for name, git in gits.items():
            git.commit({f"{n}.py": f"def {WORD}_{n}():\n    return '{WORD}'\n" for n in range(5)})
            git.run("branch", "dev")
            for ref in ("", "dev"):
                run = admin.index(str(git.folder), name=name, ref=ref, label="internal")
                assert run.state is RunState.COMPLETE
        keys = {
            colour: admin.create_key(colour, repositories=[f"*-{colour}"]).text
            for colour in ("red", "blue")
        }
    before = groups_in_chunks(cluster, weaviate_address)
    assert len({*map(frozenset, before.values())}) == 1

    with (
        searching(cluster, keys["red"], RED) as red,
        searching(cluster, keys["blue"], BLUE) as blue,
        cluster.client() as admin,
    ):
        gits["a-red"].commit({"more.py": f"def {WORD}_more():\n    return 0\n"})
        late = admin.index(str(gits["a-red"].folder), name="a-red", wait=False)
        gits["d-blue"].folder.rename(gits["d-blue"].folder.with_suffix(".gone"))
        regroup(cluster, monkeypatch)
        *_, ended = admin.watch(late)
        assert ended.state is RunState.COMPLETE
    assert (red.failures, blue.failures) == ([], [])
    assert min(red.answers, blue.answers) > 10

    after = groups_in_chunks(cluster, weaviate_address)
    assert {name: len(some) for name, some in after.items()} == dict.fromkeys(gits, 1)
    ((label, a_red),) = after["a-red"]
    ((_, c_blue),) = after["c-blue"]
    assert a_red != c_blue
    assert after == {
        **{name: {(label, a_red)} for name in RED},
        **{name: {(label, c_blue)} for name in BLUE},
    }
    stored = registry.ledger(cluster.settings()).groups()
    assert {name: {found.certain} for name, found in stored.items()} == after
