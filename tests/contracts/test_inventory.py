"""The contract of the port Inventory, over every implementation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from codelode.backends.local import LocalChunkStore
from codelode.backends.local.inventory import LocalInventory
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.weaviate import WeaviateChunkStore
from codelode.backends.weaviate.inventory import WeaviateInventory
from codelode.covers import Grouped
from codelode.model import (
    DEFAULT_REF,
    FileChunks,
    Kind,
    RefName,
    RepositoryName,
)
from tests.chunks import chunk

DIM = 4
APP, LIB = RepositoryName("acme/app"), RepositoryName("acme/lib")
MAIN, DEV = RefName("main"), RefName("dev")


@dataclass(frozen=True)
class Stock:
    store: Any
    inventory: Any


@pytest.fixture(params=["memory", "local", pytest.param("weaviate", marks=pytest.mark.server)])
def stock(request, tmp_path):
    if request.param == "memory":
        twin = MemoryChunkStore(dim=DIM)
        yield Stock(twin, twin)
        return
    if request.param == "local":
        made = Stock(LocalChunkStore(tmp_path, dim=DIM, identity="test"), LocalInventory(tmp_path))
    else:
        address = request.getfixturevalue("weaviate_address")
        place = request.getfixturevalue("weaviate_place")
        store = WeaviateChunkStore(address, place, dim=DIM, identity="test")
        made = Stock(store, WeaviateInventory(address, place))
    yield made
    made.inventory.close()
    made.store.close()


def file(path, *contents, repository=APP, refs=(MAIN,)):
    chunks = tuple(
        chunk(path, content, repository=repository, start_line=line, refs=refs, kind=Kind.BLOCK)
        for line, content in enumerate(contents, 1)
    )
    vectors = np.array([[1, 0, 0, 0]] * len(chunks), np.float32)
    return FileChunks(repository, path, refs, chunks, vectors)


def test_an_empty_store_has_nothing(stock):
    assert stock.inventory.repositories() == frozenset()
    assert dict(stock.inventory.counts(APP)) == {}


def test_files_are_counted_at_each_of_their_refs(stock):
    stock.store.replace([file("a.py", "one", "two", refs=(MAIN, DEFAULT_REF)), file("b c.py", "x")])
    stock.store.replace([file("a.py", "one", "other", "third", refs=(DEV,))])
    stock.store.replace([file("a.py", "one", repository=LIB)])

    assert stock.inventory.repositories() == {APP, LIB}
    assert dict(stock.inventory.counts(APP)) == {
        "a.py": {MAIN: 2, DEFAULT_REF: 2, DEV: 3},
        "b c.py": {MAIN: 1},
    }


def test_only_the_named_files_are_counted(stock):
    stock.store.replace([file("a.py", "one"), file("b.py", "two", "three")])

    assert dict(stock.inventory.counts(APP, ["b.py", "none.py"])) == {"b.py": {MAIN: 2}}
    assert dict(stock.inventory.counts(APP, [])) == {}


def test_removed_files_are_not_counted(stock):
    stock.store.replace([file("a.py", "one"), file("b.py", "two"), file("c.py", repository=LIB)])
    stock.store.replace([FileChunks(APP, "a.py", (MAIN,))])
    assert dict(stock.inventory.counts(APP)) == {"b.py": {MAIN: 1}}
    stock.store.remove_repository(APP)
    assert stock.inventory.repositories() == frozenset()


def test_vectors_come_with_their_places(stock):
    stock.store.replace([file("a.py", "one\ntwo", "x", refs=(MAIN, DEFAULT_REF))])
    stock.store.replace([file("b.py", "other", refs=(DEV,)), file("c.py", "y", repository=LIB)])
    without = file("d.py", "no words", refs=(DEFAULT_REF,))
    stock.store.replace([replace(without, vectors=np.zeros((1, DIM), np.float32))])

    found = {(one.path, one.start_line): one for one in vectors(stock, [APP, LIB], DEFAULT_REF)}

    assert found.keys() == {("a.py", 1), ("a.py", 2)}
    first = found["a.py", 1]
    assert (first.repository, first.end_line, first.language) == (APP, 2, "python")
    assert first.category == "source"
    assert first.vector.tolist() == [1, 0, 0, 0]
    assert [one.path for one in vectors(stock, [LIB], MAIN)] == ["c.py"]


def test_the_vectors_with_the_smallest_ids_are_sampled(stock):
    stock.store.replace([file("a.py", *map(str, range(30)))])
    every = sorted(one.id for one in vectors(stock, [APP], MAIN))

    assert len(every) == 30
    assert sorted(one.id for one in vectors(stock, [APP], MAIN, most=7)) == every[:7]


def vectors(stock, repositories, ref, most=1_000):
    return list(stock.inventory.vectors(repositories, ref, most=most))


def test_a_store_that_knows_the_sizes_of_its_parts_reports_them(stock):
    before = stock.inventory.sizes()
    if before is None:
        return
    assert before["vectors"] == 0
    stock.store.replace([file("a.py", *(f"line {number} " * 500 for number in range(20)))])

    now = stock.inventory.sizes()
    assert now["vectors"] == 20 * 3 * DIM
    assert now["texts and metadata"] > 20 * 4_000
    assert now["keyword index"] > before["keyword index"]


def test_more_repositories_than_a_page_are_all_named(stock):
    names = {RepositoryName(f"acme/{number}") for number in range(130)}
    stock.store.replace([file("a.py", "text", repository=name) for name in names])

    assert stock.inventory.repositories() == names


def test_chunks_without_a_group_or_with_a_former_one_are_noticed(stock):
    def stored(line, *groups, repository=APP):
        made = chunk(f"{line}.py", "x = 1", repository=repository)
        vectors = np.ones((1, DIM), np.float32)
        return FileChunks(repository, made.path, (MAIN,), (made,), vectors, groups)

    if isinstance(stock.inventory, LocalInventory):
        stock.store.replace([stored(1, "=1")])
        assert not stock.inventory.has_others(APP, Grouped(("=2",), ("=1",)))
        return
    assert not stock.inventory.has_others(APP, Grouped(("=1",), ()))
    stock.store.replace([stored(1, "=1", "=2"), stored(2, "=1", "=2"), stored(3, repository=LIB)])

    def has_others(*written, former=()):
        return stock.inventory.has_others(APP, Grouped(written, former))

    assert not has_others("=1", "=2")
    assert not has_others("=2", "=1", former=("=2", "=3"))
    assert not has_others("=1")
    assert not has_others()
    assert has_others("=1", former=("=1", "=2"))
    assert has_others(former=("=2",))
    assert has_others("=1", "=3")
    stock.store.replace([stored(2, "=1")])
    assert has_others("=1", "=2")
    assert stock.inventory.has_others(LIB, Grouped(("=1",)))
    stock.store.replace([stored(2, "=1", "=2")])
    assert not has_others("=1", "=2")
