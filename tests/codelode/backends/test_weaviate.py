"""The promises of the clustered chunk store beyond the contract, on a real server."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
import time
from bisect import bisect
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import NAMESPACE_URL, uuid4, uuid5

import httpx
import numpy as np
import pytest
import weaviate.exceptions
from weaviate.classes.config import Configure, DataType, Property
from weaviate.classes.data import DataObject

from codelode.access import EVERYTHING
from codelode.backends.weaviate import (
    WeaviateChunkStore,
    WeaviateShadowIndex,
    batch,
    intent_log,
    published,
    search,
    versions,
)
from codelode.backends.weaviate.codec import ChunkCache
from codelode.backends.weaviate.connection import Address, connect
from codelode.backends.weaviate.errors import TRANSLATIONS, refusal, translate
from codelode.backends.weaviate.query import TenantObjects
from codelode.backends.weaviate.schema import SCHEMA_VERSION, VECTOR, Version, from_description
from codelode.errors import (
    CodelodeError,
    Corrupt,
    InvalidSettings,
    Rejected,
    SchemaMismatch,
    Superseded,
    TimedOut,
    Unavailable,
)
from codelode.model import Filters, HybridQuery, RefName

EAST = np.array([1, 0, 0, 0], np.float32)
NORTH = np.array([0, 1, 0, 0], np.float32)


@pytest.fixture
def sides(open_weaviate, weaviate_address, weaviate_place):
    return open_weaviate(weaviate_address, weaviate_place)


# Errors


def test_every_exception_of_the_library_has_a_translation():
    raised = [
        kind
        for _, kind in inspect.getmembers(weaviate.exceptions, inspect.isclass)
        if issubclass(kind, Exception)
        and kind.__module__ == weaviate.exceptions.__name__
        and not kind.__name__.startswith("_")
    ]
    # The base class's row is for classes of later versions; those of this version have their own.
    query_error = weaviate.exceptions.WeaviateQueryError
    unnamed = [k for k in raised if k not in TRANSLATIONS and not issubclass(k, query_error)]
    assert len(raised) > 30
    assert unnamed == []


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (weaviate.exceptions.WeaviateConnectionError("refused"), Unavailable),
        (weaviate.exceptions.WeaviateTimeoutError("slow"), TimedOut),
        (weaviate.exceptions.WeaviateBatchError("no leader"), Unavailable),
        (weaviate.exceptions.WeaviateQueryError("could not find class X", "GRPC"), Corrupt),
        (weaviate.exceptions.AuthenticationFailedError("401"), InvalidSettings),
        (httpx.ReadTimeout("slow"), TimedOut),
        (httpx.ConnectError("refused"), Unavailable),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_an_exception_becomes_the_error_that_says_what_to_do(raised, error):
    assert type(translate(raised)) is error
    assert isinstance(translate(raised), CodelodeError)


def test_an_object_that_can_never_be_stored_is_rejected_at_its_file():
    assert type(refusal("invalid text property 'x'", file="acme/app:a.py")) is Rejected
    assert type(refusal("shard is read-only", file="acme/app:a.py")) is Unavailable
    assert str(refusal("invalid text", file="acme/app:a.py")).startswith("acme/app:a.py: ")


def test_a_shortened_error_keeps_its_beginning_and_its_end():
    server = f"put object: {'import: ' * 100}write /var/lib/weaviate/1.wal: no space left on device"
    for error in (
        translate(weaviate.exceptions.WeaviateQueryError(server, "GRPC")),
        refusal(server, file="acme/app:a.py"),
    ):
        assert "put object: import" in str(error)
        assert "no space left on device" in str(error)
        assert len(str(error)) < len(server) / 2


def test_an_invalid_address_is_reported_with_an_example():
    with pytest.raises(InvalidSettings, match="CODELODE_WEAVIATE_URL='localhost'"):
        connect(Address("localhost", 1))


def test_a_key_is_not_printed():
    assert "secret" not in repr(Address("http://x", 1, "secret"))


# Versions


async def test_another_embedder_is_refused_with_the_remedy(
    open_weaviate, weaviate_address, own_place, chunk_of, file_of
):
    open_weaviate(weaviate_address, own_place).store.replace([file_of(chunk_of())])
    other = open_weaviate(weaviate_address, own_place, identity="other")

    message = "embedder test, dim 4, this is schema .*, embedder other.*CODELODE_EMBEDDER"
    with pytest.raises(SchemaMismatch, match=message):
        other.store.replace([file_of(chunk_of())])
    with pytest.raises(SchemaMismatch, match=message):
        await other.found()


def test_an_index_of_an_older_schema_is_refused_with_the_remedy(weaviate_place):
    older = Version("test", 4, SCHEMA_VERSION - 1).describe()
    remedy = r"written with schema \d+.*COLLECTION to another name, and `codelode doctor --repair`"
    with pytest.raises(SchemaMismatch, match=remedy):
        versions.check(older, weaviate_place, Version("test", 4))


async def test_a_query_of_other_dimensions_is_refused(sides):
    with pytest.raises(SchemaMismatch, match="4 dimensions"):
        await sides.found(vector=np.ones(5, np.float32))


def test_an_index_that_holds_other_dimensions_is_refused(
    weaviate_address, weaviate_place, sides, chunk_of, file_of
):
    version = Version("test", 4)
    with connect(weaviate_address) as client:
        name = versions.require(client, weaviate_place, version)
        objects = client.collections.use(name).with_tenant(weaviate_place.tenant)
        objects.data.insert_many([DataObject(properties={"path": "x"}, vector={VECTOR: [1.0] * 5})])

    with pytest.raises(SchemaMismatch, match=r"acme/app:a\.py: the index has other dimensions"):
        sides.store.replace([file_of(chunk_of())])


def test_a_version_is_read_from_the_description_it_wrote():
    version = Version("ollama nomic · «é»", 768)
    assert from_description(version.describe()) == version
    assert from_description("somebody else's") is None
    assert from_description(None) is None


async def test_a_shadow_index_is_built_and_swapped_in(
    open_weaviate, weaviate_address, own_place, chunk_of, file_of, monkeypatch
):
    old = open_weaviate(weaviate_address, own_place)
    old.store.replace([file_of(chunk_of("old.py"))])
    assert [hit.chunk.path for hit in await old.found()] == ["old.py"]

    new = open_weaviate(weaviate_address, own_place, identity="new", is_shadow=True)
    new.store.replace([file_of(chunk_of("new.py"))])
    assert [hit.chunk.path for hit in await old.found()] == ["old.py"]

    with connect(weaviate_address) as client:
        assert versions.others(client, own_place) == [Version("new", 4).collection(own_place.alias)]
        replaced = versions.publish(client, own_place, Version("new", 4))
        assert replaced == Version("test", 4).collection(own_place.alias)
        assert versions.publish(client, own_place, Version("new", 4)) is None
        versions.drop(client, own_place, replaced)
        assert versions.others(client, own_place) == []
    assert [hit.chunk.path for hit in await new.found()] == ["new.py"]
    monkeypatch.setattr(search, "FOLLOW_S", 0.0)
    with pytest.raises(SchemaMismatch, match="embedder new"):
        await old.found()


async def test_an_organisation_changes_its_embedder_and_others_keep_theirs(
    open_weaviate, weaviate_address, own_place, chunk_of, file_of, monkeypatch
):
    monkeypatch.setattr(search, "FOLLOW_S", 0.0)
    other_place = replace(own_place, tenant="others")
    ours, theirs = (open_weaviate(weaviate_address, place) for place in (own_place, other_place))
    ours.store.replace([file_of(chunk_of("ours.py"))])
    theirs.store.replace([file_of(chunk_of("theirs.py"))])
    await ours.found()
    beside = WeaviateShadowIndex(
        weaviate_address, own_place, dim=4, identity="new", choice={"embedder": "ollama"}
    )
    built = beside.open()
    built.replace([file_of(chunk_of("new.py"))])
    old = Version("test", 4).collection(own_place.alias)

    beside.publish()
    beside.publish()

    assert beside.is_published()
    choice = {"embedder": "ollama"}
    assert published(weaviate_address, own_place) == (beside.name, choice, Version("new", 4))
    assert published(weaviate_address, other_place) == (old, {}, Version("test", 4))
    with pytest.raises(Superseded):
        await ours.found()
    with pytest.raises(Superseded):
        ours.store.replace([file_of(chunk_of("late.py"))])
    assert beside.others() == [old]
    beside.drop(old)
    beside.drop(old)
    beside.drop(beside.name)
    assert beside.others() == []
    assert [hit.chunk.path for hit in await theirs.found()] == ["theirs.py"]
    theirs.store.replace([file_of(chunk_of("theirs too.py"))])
    new = open_weaviate(weaviate_address, own_place, identity="new")
    assert [hit.chunk.path for hit in await new.found()] == ["new.py"]
    built.close()
    beside.close()


async def test_a_reader_keeps_answering_while_the_alias_cannot_be_resolved(
    sides, chunk_of, file_of, monkeypatch
):
    """This happens while the nodes of a cluster elect a leader."""
    sides.store.replace([file_of(chunk_of())])
    await sides.found()

    async def fails(*_, **__):
        answer = httpx.Response(500, text="client connection is closing")
        raise weaviate.exceptions.UnexpectedStatusCodeError("Could not get alias", answer)

    monkeypatch.setattr(search, "FOLLOW_S", -1.0)
    monkeypatch.setattr(versions, "find", fails)
    assert len(await sides.found()) == 1


async def test_a_reader_switches_to_a_rebuilt_index(
    open_weaviate, weaviate_address, own_place, chunk_of, file_of
):
    reader = open_weaviate(weaviate_address, own_place)
    reader.store.replace([file_of(chunk_of("old.py"))])
    await reader.found()
    with connect(weaviate_address) as client:
        name = Version("test", 4).collection(own_place.alias)
        client.alias.delete(alias_name=own_place.alias)
        versions.drop(client, own_place, name)
    open_weaviate(weaviate_address, own_place).store.replace([file_of(chunk_of("new.py"))])

    assert [hit.chunk.path for hit in await reader.found()] == ["new.py"]


async def test_a_hybrid_query_has_the_scores_of_a_keyword_and_a_vector_query(
    sides, chunk_of, file_of
):
    texts = ["shared", "shared shared pad", "pad shared", "nothing of it"]
    sides.store.replace([file_of(chunk_of(f"{n}.py", text)) for n, text in enumerate(texts)])

    both = await sides.found("shared", EAST)
    by_words = await sides.found("shared", None)
    by_vector = await sides.found("", EAST)

    assert (len(both), len(by_words), len(by_vector)) == (4, 3, 4)
    assert _scores(both, "keyword_score") == pytest.approx(_scores(by_words, "keyword_score"))
    assert _scores(both, "similarity") == pytest.approx(_scores(by_vector, "similarity"))


def _scores(hits, side):
    scores = {hit.chunk.path: getattr(hit, side) for hit in hits}
    return {path: score for path, score in scores.items() if score is not None}


async def test_a_search_is_one_query_and_fetches_ranked_chunks_that_are_not_cached(
    sides, chunk_of, file_of, monkeypatch
):
    chunks = [chunk_of(f"{n}.py", "shared " * (1 + n)) for n in range(60)]
    sides.store.replace([file_of(chunk) for chunk in chunks])
    asked = []
    for name in ("top_k", "by_id"):
        monkeypatch.setattr(TenantObjects, name, _recorded(getattr(TenantObjects, name), asked))
    query = HybridQuery(
        "shared", EAST, Filters(ref=chunks[0].refs[0]), 40, total_limit=30, visible=EVERYTHING
    )

    found = await sides.search.hybrid(query)
    again = await sides.search.hybrid(query)

    assert len(found) == 30
    assert {hit.chunk for hit in found} <= set(chunks)
    assert asked == [("top_k", 60), ("by_id", 15), ("by_id", 15), ("top_k", 60)]
    assert {hit.chunk: hit for hit in again} == {hit.chunk: hit for hit in found}


def _recorded(call, asked):
    async def recorded(*args, **kwargs):
        found = await call(*args, **kwargs)
        asked.append((call.__name__, len(found)))
        return found

    return recorded


@pytest.mark.parametrize("broken", ["top_k", "by_id"])
async def test_a_query_that_fails_fails_the_search(sides, chunk_of, file_of, monkeypatch, broken):
    sides.store.replace([file_of(chunk_of("a.py")), file_of(chunk_of("b.py"))])

    async def fails(self, *args, **kwargs):
        raise weaviate.exceptions.WeaviateQueryError("gone", "GRPC")

    monkeypatch.setattr(TenantObjects, broken, fails)

    with pytest.raises(CodelodeError, match="gone"):
        await sides.found("shared", EAST)


async def test_a_fetch_that_fails_cancels_the_other_one(sides, chunk_of, file_of, monkeypatch):
    sides.store.replace([file_of(chunk_of(f"{n}.py")) for n in range(30)])
    is_asked, is_ended = asyncio.Event(), asyncio.Event()

    async def by_id(self, ids, properties):
        if is_asked.is_set():
            raise weaviate.exceptions.WeaviateQueryError("gone", "GRPC")
        is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_ended.set()

    monkeypatch.setattr(TenantObjects, "by_id", by_id)

    with pytest.raises(CodelodeError, match="gone"):
        await sides.found("shared", EAST)
    await asyncio.wait_for(is_ended.wait(), 5)


async def test_two_organisations_share_nothing(
    open_weaviate, weaviate_address, weaviate_place, chunk_of, file_of
):
    other_place = replace(weaviate_place, tenant=uuid4().hex)
    ours = open_weaviate(weaviate_address, weaviate_place)
    theirs = open_weaviate(weaviate_address, other_place)
    ours.store.replace([file_of(chunk_of())])
    theirs.store.replace([file_of(chunk_of("b.py"))])
    theirs.store.remove_repository("acme/app")

    assert [hit.chunk.path for hit in await ours.found()] == ["a.py"]
    assert await theirs.found() == []


# Writing


async def test_a_reader_never_finds_a_replaced_file_missing(sides, chunk_of, file_of):
    """It finds the old, the new, or briefly both; also if a chunk changes and keeps its id."""

    def making(turn):
        contents = [f"shared {line} {turn if line % 2 else ''}" for line in range(20)]
        return [
            chunk_of(line=line, content=content, header=f"turn {turn}")
            for line, content in enumerate(contents)
        ]

    sides.store.replace([file_of(*making(0))])
    replaced_s = []  # when each turn was over

    def change():
        for turn in range(1, 17):
            vector = NORTH if turn % 2 else NORTH[::-1].copy()
            sides.store.replace([file_of(*making(turn), vector=vector)])
            replaced_s.append(time.monotonic())

    seen = await seen_during(change, sides)
    assert len(seen) > 8
    assert all(one.lines == set(range(20)) for one in seen)
    for one in seen:
        turns = {int(header.removeprefix("turn ")) for header in one.headers}
        assert min(turns) >= bisect(replaced_s, one.since_s)
        assert max(turns) - min(turns) <= 1  # not the remains of several replacements
    assert len(await sides.found()) == await sides.search.count(EVERYTHING) == 20


@pytest.mark.parametrize("vector", [None, EAST], ids=["words", "words and vector"])
async def test_a_file_replaced_during_a_search_is_found_in_its_new_version(
    sides, chunk_of, file_of, monkeypatch, vector
):
    """The objects that the query found are deleted before their chunks are fetched."""
    sides.store.replace([file_of(chunk_of(content="shared old"))])
    known = ChunkCache.known

    def known_after_it_was_replaced(kept, ids):
        sides.store.replace([file_of(chunk_of(content="shared new"))])
        return known(kept, ids)

    monkeypatch.setattr(ChunkCache, "known", known_after_it_was_replaced)
    found = await sides.found("shared", vector=vector)
    assert [hit.chunk.content for hit in found] == ["shared new"]


async def test_a_reader_always_finds_a_chunk_whose_refs_change(sides, chunk_of, file_of):
    made = [chunk_of(line=line, content=f"shared {line}") for line in range(20)]
    sides.store.replace([file_of(*made)])

    def change():
        for _ in range(4):
            sides.store.replace([replace(file_of(*made), refs=(RefName("dev"),))])
            gone = replace(
                file_of(*made), refs=(RefName("dev"),), chunks=(), vectors=np.zeros((0, 0))
            )
            sides.store.replace([gone])

    seen = await seen_during(change, sides)
    assert len(seen) > 8
    assert all(one.lines == set(range(20)) for one in seen)


@dataclass(frozen=True)
class Seen:
    """The results of a search, and when it began."""

    since_s: float
    lines: set[int]
    headers: set[str]


async def seen_during(change, sides):
    """Return every search that began while `change` ran, by keywords and by vector in turn."""
    changing, seen = asyncio.create_task(asyncio.to_thread(change)), []
    while not changing.done():
        for question in (("shared", None), ("", EAST)):
            since_s = time.monotonic()
            chunks = [hit.chunk for hit in await sides.found(*question)]
            lines, headers = (
                {getattr(one, of) for one in chunks} for of in ("start_line", "header")
            )
            seen.append(Seen(since_s, lines, headers))
    await changing
    return seen


class Sharded:
    """A collection with two shards, and the number of objects refused in each request."""

    def __init__(self, objects, monkeypatch):
        self.objects = objects
        self.refused = []
        self._insert = batch.insert
        monkeypatch.setattr(batch, "insert", self._recorded)

    def _recorded(self, objects, made):
        refused = self._insert(objects, made)
        self.refused.append(len(refused))
        return refused

    def paths(self):
        return {one.properties["path"] for one in self.objects.iterator()}

    def set_first_shard(self, status):
        """Set the status of one of two shards; READONLY refuses its objects one by one."""
        config = self.objects.config
        config.update_shards(status, min(shard.name for shard in config.get_shards()))


@pytest.fixture
def sharded(weaviate_address, weaviate_alias, monkeypatch):
    with connect(weaviate_address) as client:
        made = client.collections.create(
            f"{weaviate_alias}{uuid4().hex[:6]}",
            properties=[
                Property(name=name, data_type=DataType.TEXT) for name in ("repository", "path")
            ],
            vector_config=[Configure.Vectors.self_provided(name=VECTOR)],
            sharding_config=Configure.sharding(desired_count=2),
        )
        yield Sharded(made, monkeypatch)


def objects_of(*paths, dim=4):
    return [
        DataObject(
            uuid=uuid5(NAMESPACE_URL, path),
            properties={"repository": "acme/app", "path": path},
            vector={VECTOR: np.ones(dim, np.float32)},  # type: ignore[dict-item]
        )
        for path in paths
    ]


MANY = [f"{n}.py" for n in range(40)]


def test_objects_that_are_refused_temporarily_are_sent_again(sharded, wait_for):
    sharded.set_first_shard("READONLY")
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(batch.write, sharded.objects, objects_of(*MANY), check=lambda: None)
        wait_for(lambda: sharded.refused or writing.done(), "the first answer")
        sharded.set_first_shard("READY")
        writing.result()

    assert 0 < sharded.refused[0] < len(MANY)
    assert sharded.refused[-1] == 0
    assert sharded.paths() == set(MANY)


def test_objects_that_stay_refused_are_reported_with_a_file_and_others_are_stored(
    sharded, monkeypatch
):
    monkeypatch.setattr(batch, "PAUSES_S", (0.0, 0.0, 0.0))
    sharded.set_first_shard("READONLY")

    with pytest.raises(Unavailable, match="did not store it") as told:
        batch.write(sharded.objects, objects_of(*MANY), check=lambda: None)
    refused, *again = sharded.refused
    assert again == [refused] * 3
    stored = sharded.paths()
    assert len(stored) == len(MANY) - refused
    assert str(told.value).partition(": ")[0] in {f"acme/app:{path}" for path in set(MANY) - stored}


def test_when_all_objects_are_refused_the_reason_of_the_first_one_is_known(sharded):
    batch.insert(sharded.objects, objects_of(*MANY))
    (wide,) = objects_of("wide.py", dim=5)
    (number,) = objects_of("number.py")
    number.properties["path"] = 5

    wide_first = batch.insert(sharded.objects, [wide, number])
    number_first = batch.insert(sharded.objects, [number, wide])

    assert set(wide_first) == set(number_first) == {0, 1}
    assert type(refusal(wide_first[0], file="wide.py")) is SchemaMismatch
    assert type(refusal(number_first[0], file="number.py")) is Rejected


def test_an_object_that_can_never_be_stored_is_reported_at_once_and_others_are_stored(sharded):
    batch.write(
        sharded.objects, objects_of(*MANY[20:]), check=lambda: None
    )  # they set the dimensions
    made = objects_of(*MANY[:20])
    made[7:7] = objects_of("wrong.py", dim=5)

    with pytest.raises(SchemaMismatch, match=r"acme/app:wrong\.py: the index has other dimensions"):
        batch.write(sharded.objects, made, check=lambda: None)
    assert sharded.refused[-1] == 1
    assert sum(sharded.refused) == 1  # it is not sent again
    assert sharded.paths() >= set(MANY)  # the refused object's properties are stored as well


def test_two_writers_of_different_files_do_not_disturb_each_other(
    open_weaviate, weaviate_address, weaviate_place, chunk_of, file_of
):
    writers = [open_weaviate(weaviate_address, weaviate_place) for _ in range(2)]

    def write(number):
        for turn in range(4):
            made = [
                chunk_of(f"{number}.py", f"shared {turn} {line}", line=line) for line in range(9)
            ]
            writers[number].store.replace([file_of(*made)])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    expected = {
        chunk_of(f"{number}.py", f"shared 3 {line}", line=line).id
        for number in range(2)
        for line in range(9)
    }
    assert writers[0].ids() == expected


async def test_the_next_call_deletes_what_a_dead_writer_left(sides, chunk_of, file_of, monkeypatch):
    old, new = chunk_of(content="shared old"), chunk_of(content="shared new")
    sides.store.replace([file_of(old)])

    def dies(*_):
        raise Unavailable("died")

    with monkeypatch.context() as patched:
        patched.setattr("codelode.backends.weaviate.batch.delete", dies)
        with pytest.raises(Unavailable):
            sides.store.replace([file_of(new)])
    assert sides.ids() == {old.id, new.id}
    sides.store.replace([file_of(new)])
    assert sides.ids() == {new.id}


class Leavings:
    """Two files whose writer died before it deleted its intent, and stores that clean up."""

    def __init__(self, open_store, chunk_of, file_of, *, monkeypatch):
        self.sides, self.other = open_store(), open_store()
        self.chunks = {
            path: [chunk_of(path, f"shared {line}", line=line) for line in range(9)]
            for path in ("a.py", "b c.py")
        }
        self.a, self.b = (file_of(*chunks) for chunks in self.chunks.values())
        with monkeypatch.context() as patched:
            patched.setattr(batch, "write", self._write_and_die)
            with pytest.raises(Unavailable):
                self.sides.store.replace([self.a, self.b])

    @property
    def all_ids(self):
        return {chunk.id for chunks in self.chunks.values() for chunk in chunks}

    @staticmethod
    def _write_and_die(objects, made, *, check):
        batch.insert(objects, list(made))
        raise Unavailable("died")


@pytest.fixture
def leavings(open_weaviate, weaviate_address, own_place, chunk_of, file_of, monkeypatch):
    def open_store():
        return open_weaviate(weaviate_address, own_place)

    return Leavings(open_store, chunk_of, file_of, monkeypatch=monkeypatch)


@pytest.fixture
def noted(weaviate_address, own_place):
    """`noted()` returns the number of objects in the intent log."""
    with connect(weaviate_address) as client:
        notes = client.collections.use(intent_log.collection_name(own_place))
        yield lambda: len(list(notes.iterator()))


@pytest.mark.parametrize("slow", ["a.py", "b c.py"])
def test_writers_that_clean_up_the_same_intent_keep_what_was_written_again(
    leavings, noted, monkeypatch, slow
):
    """Both have read the intent; one is done before the other deletes its first object."""
    both_know, is_done = threading.Barrier(2, timeout=20), threading.Event()
    delete_singly = batch.delete_singly

    def gated(objects, ids):
        with suppress(threading.BrokenBarrierError):
            both_know.wait()
        both_know.abort()  # later deletions need not wait
        if threading.current_thread().name == slow:
            is_done.wait(20)
        delete_singly(objects, ids)

    def write(sides, file):
        threading.current_thread().name = file.path
        sides.store.replace([file])
        if file.path != slow:
            is_done.set()

    monkeypatch.setattr(batch, "delete_singly", gated)
    with ThreadPoolExecutor() as pool:
        writing = [
            pool.submit(write, leavings.sides, leavings.a),
            pool.submit(write, leavings.other, leavings.b),
        ]
        for one in writing:
            one.result()
    assert leavings.sides.ids() == leavings.all_ids
    assert noted() == 0


@pytest.mark.parametrize("dies_at", ["delete_singly", "mark_done"])
def test_leftovers_are_deleted_after_a_writer_died_cleaning_up(
    leavings, noted, monkeypatch, dies_at
):
    def dies(*_):
        raise Unavailable("died")

    with monkeypatch.context() as patched:
        patched.setattr(
            batch if dies_at == "delete_singly" else intent_log.IntentLog, dies_at, dies
        )
        with pytest.raises(Unavailable):
            leavings.sides.store.replace([leavings.a])
    leavings.other.store.replace([leavings.b])
    assert noted() == 2  # the intent, and the mark of b c.py
    leavings.other.store.replace([leavings.a])

    assert leavings.sides.ids() == leavings.all_ids
    assert noted() == 0


def test_a_rewritten_file_is_kept_while_other_files_of_its_intent_are_pending(
    leavings, chunk_of, file_of
):
    """Deleting the file's recorded objects a second time would delete a chunk at main."""
    leavings.sides.store.replace([leavings.a])
    at_dev = replace(file_of(chunk_of("a.py", "shared dev")), refs=(RefName("dev"),))
    leavings.other.store.replace([at_dev])

    assert leavings.sides.ids() >= {chunk.id for chunk in leavings.chunks["a.py"]}


def test_an_intent_that_was_deleted_after_it_was_read_has_no_pending_files(
    leavings, weaviate_address, own_place
):
    with connect(weaviate_address) as client:
        collection = Version("test", 4).collection(own_place.alias)
        log = intent_log.IntentLog(client, own_place, collection=collection)
        (intent,) = log.intents(lambda _: True)
        assert sorted(log.pending(intent, lambda _: True)) == ["acme/app:a.py", "acme/app:b c.py"]
        leavings.sides.store.replace([leavings.a, leavings.b])

        assert log.pending(intent, lambda _: True) == []


def test_leftovers_of_a_removal_are_deleted_when_a_file_is_written_again(
    leavings, noted, monkeypatch
):
    leavings.sides.store.replace([leavings.a, leavings.b])

    def dies(*_):
        raise Unavailable("died")

    with monkeypatch.context() as patched:
        patched.setattr(batch, "delete", dies)
        with pytest.raises(Unavailable):
            leavings.sides.store.remove_repository("acme/app")
    assert noted() == 1
    leavings.sides.store.replace([leavings.a])
    assert noted() == 2  # the intent, and the mark of a.py
    assert leavings.sides.ids() == leavings.all_ids
    leavings.sides.store.remove_repository("acme/app")
    assert leavings.sides.ids() == set()
    assert noted() == 0


def test_a_process_may_fork_before_the_first_call(weaviate_address, weaviate_place):
    script = """
import os, sys
from codelode.backends.weaviate import Address, TenantIndex, WeaviateChunkStore
url, port, key, alias, tenant = sys.argv[1:]
place = TenantIndex(alias, tenant)
store = WeaviateChunkStore(Address(url, int(port), key), place, dim=4, identity="test")
child = os.fork()
store.remove_repository("acme/none")
store.close()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 0)
"""
    where = (weaviate_address.url, str(weaviate_address.grpc_port), weaviate_address.api_key)
    command = [sys.executable, "-c", script, *where, weaviate_place.alias, weaviate_place.tenant]
    assert subprocess.run(command, timeout=60, env={**os.environ}, check=False).returncode == 0


def test_a_store_that_never_connected_closes(weaviate_place):
    store = WeaviateChunkStore(Address("http://127.0.0.1:1", 1), weaviate_place, dim=4, identity="")
    store.close()


# Searching


@pytest.fixture
def limits(monkeypatch):
    """Return the list that records the limit of each query."""
    asked, top_k = [], TenantObjects.top_k

    async def recorded(*args, limit, **kwargs):
        asked.append(limit)
        return await top_k(*args, limit=limit, **kwargs)

    monkeypatch.setattr(TenantObjects, "top_k", recorded)
    return asked


@pytest.fixture
def two_sides(chunk_of, file_of):
    """`two_sides(worded, near)` returns files with one chunk each at these paths.

    The worded ones contain the word, with ever more other words, and are far from the vector; the
    near ones do not contain it, and are ever farther from the vector.
    """

    def make(worded, near):
        turned = [np.array([np.cos(i / 200), np.sin(i / 200), 0, 0]) for i in range(len(near))]
        return [
            *(
                file_of(chunk_of(path, "shared " + "pad " * i), vector=[0, 0, 1, 0])
                for i, path in enumerate(worded)
            ),
            *(
                file_of(chunk_of(path, f"else {i}"), vector=vector)
                for i, (path, vector) in enumerate(zip(near, turned, strict=True))
            ),
        ]

    return make


@pytest.mark.parametrize(("vector", "asked"), [(None, [2, 16, 128]), (EAST, [100, 800])])
async def test_a_glob_that_the_server_approximates_loses_no_candidate(
    sides, chunk_of, file_of, limits, vector, asked
):
    """In LIKE `*` matches `/`: better hits that do not match the glob come first."""
    crowd = [chunk_of(f"src/a{i}/deep/x/b.py", "shared shared shared") for i in range(120)]
    wanted = chunk_of("src/a1/x/b.py", "shared and much else")
    sides.store.replace([*map(file_of, crowd), file_of(wanted, vector=NORTH)])

    hits = await sides.found("shared", vector, limit=2, paths=("**/a*/x/*.py",))
    assert [(hit.chunk.path, hit.keyword_score is None) for hit in hits] == [(wanted.path, False)]
    assert limits == asked


async def test_the_limit_grows_while_one_half_has_too_few_hits_that_match_a_glob(
    sides, two_sides, limits
):
    worded = [f"src/a1/x/w{i}.py" for i in range(120)]
    crowd = [f"src/a{i}/deep/x/b.py" for i in range(120)]
    sides.store.replace(two_sides(worded, [*crowd, "src/a2/x/near.py"]))

    hits = await sides.found(limit=8, paths=("**/a*/x/*.py",))

    assert "src/a2/x/near.py" in {hit.chunk.path for hit in hits if hit.similarity is not None}
    assert sum(hit.keyword_score is not None for hit in hits) == 8
    assert limits == [100, 800]


@pytest.mark.parametrize(("alpha", "counting"), [(0, "words"), (1, "vector")])
async def test_hits_of_the_half_with_all_the_weight_fill_the_limit(
    sides, two_sides, alpha, counting
):
    worded, near = ([f"{side}/{i}.py" for i in range(120)] for side in ("words", "vector"))
    sides.store.replace(two_sides(worded, near))

    hits = await sides.search.hybrid(
        HybridQuery(
            "shared", EAST, Filters(ref=RefName("main")), 100, alpha=alpha, visible=EVERYTHING
        )
    )

    assert len(hits) == 100
    assert sum(hit.chunk.path.startswith(counting) for hit in hits) >= 99


async def test_a_summary_is_searched(sides, chunk_of, file_of):
    sides.store.replace(
        [file_of(chunk_of(summary="Reads the configuration.")), file_of(chunk_of("b.py"))]
    )

    (hit,) = await sides.found("configuration", None)
    assert hit.chunk.summary == "Reads the configuration."


IMPORTING = """
import warnings
warnings.simplefilter("ignore", UserWarning)
import codelode.backends.weaviate
warnings.warn("that was to be ignored")
"""


@pytest.mark.slow
def test_importing_the_client_library_shows_no_warning_and_changes_no_filter():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
