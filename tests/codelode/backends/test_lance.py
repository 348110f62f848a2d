"""The embedded chunk store: processes, interrupted writes, maintenance, wrong folders."""

from __future__ import annotations

import asyncio
import inspect
import json
import multiprocessing
import threading
from datetime import timedelta

import lancedb.exceptions
import numpy as np
import pyarrow as pa
import pytest

from codelode.backends.lance import LanceChunkSearch, LanceChunkStore, indexes
from codelode.backends.lance.table import SCHEMA_VERSION, translated
from codelode.errors import CodelodeError, Corrupt, NotIndexed, SchemaMismatch, Unavailable
from codelode.model import (
    DEFAULT_REF,
    Category,
    Chunk,
    FileChunks,
    Filters,
    HybridQuery,
    Kind,
    RefName,
    RepositoryName,
    chunk_id,
)

DIM = 8
APP, MAIN = RepositoryName("acme/app"), RefName("main")
QUERY = HybridQuery("shared", np.ones(DIM, np.float32), Filters(), 500)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def store(folder):
    opened = LanceChunkStore(folder, dim=DIM, identity="test")
    yield opened
    opened.close()


@pytest.fixture
async def search(folder):
    opened = LanceChunkSearch(folder, dim=DIM, identity="test")
    yield opened
    await opened.close()


def file(path, *contents, refs=(DEFAULT_REF, MAIN)):
    chunks = tuple(
        Chunk(
            id=chunk_id(APP, path, line, content),
            repository=APP,
            path=path,
            refs=refs,
            language="python",
            category=Category.SOURCE,
            kind=Kind.BLOCK,
            symbol="",
            symbols=(),
            header="",
            start_line=line,
            end_line=line,
            content=content,
        )
        for line, content in enumerate(contents, 1)
    )
    rng = np.random.default_rng(len(chunks))
    return FileChunks(APP, path, refs, chunks, rng.standard_normal((len(chunks), DIM), np.float32))


def files(count, *, version=0, chunks=5):
    contents = [f"shared v{version} line {line}" for line in range(chunks)]
    return [file(f"f{number}.py", *contents) for number in range(count)]


def ids(store):
    return set(store.ids(APP, MAIN))


async def paths(search):
    return sorted(hit.chunk.path for hit in await search.hybrid(QUERY))


async def test_a_reader_may_come_before_the_writer(folder, search):
    assert await search.hybrid(QUERY) == []
    assert await search.count() == 0

    store = LanceChunkStore(folder, dim=DIM, identity="test")
    assert await search.hybrid(QUERY) == []
    store.replace([file("a.py", "shared")])
    assert await paths(search) == ["a.py"]


async def test_a_reader_sees_each_write_as_soon_as_it_returned(store, search):
    for number in range(20):
        store.replace([file("a.py", f"shared {number}")])
        assert [hit.chunk.content for hit in await search.hybrid(QUERY)] == [f"shared {number}"]


async def test_a_reader_never_finds_a_file_missing_while_it_is_replaced(store, search):
    store.replace(files(4))
    over = threading.Event()

    def rewrite():
        for version in range(30):
            store.replace(files(4, version=version))
        over.set()

    writer = asyncio.create_task(asyncio.to_thread(rewrite))
    while not over.is_set():
        assert set(await paths(search)) == {f"f{number}.py" for number in range(4)}
    await writer
    assert ids(store) == {chunk.id for of in files(4, version=29) for chunk in of.chunks}


async def test_readers_never_fail_while_versions_are_dropped(store, search, monkeypatch):
    """A search holds its version for as long as it takes, not for as long as versions are kept."""
    monkeypatch.setattr(indexes, "KEEP_VERSIONS", timedelta(seconds=2))
    monkeypatch.setattr(indexes, "QUIET_S", 0)
    store.replace(files(40))
    over = threading.Event()

    def write_and_maintain():
        for version in range(25):
            store.replace(files(8, version=version))
            store.maintain()
        over.set()

    writer = asyncio.create_task(asyncio.to_thread(write_and_maintain))
    while not over.is_set():
        answers = await asyncio.gather(*(search.hybrid(QUERY) for _ in range(4)))
        assert all(len(answer) >= 200 for answer in answers)
    await writer


async def test_a_reader_that_slept_through_dropped_versions_goes_on(store, search, monkeypatch):
    monkeypatch.setattr(indexes, "KEEP_VERSIONS", timedelta(milliseconds=1))
    monkeypatch.setattr(indexes, "QUIET_S", 0)
    store.replace(files(10))
    assert len(await search.hybrid(QUERY)) == 50
    for version in range(1, 4):
        store.replace(files(10, version=version))
        store.maintain()

    assert len(await search.hybrid(QUERY)) == 50


@pytest.mark.parametrize("step", ["_bring_in", "_take_out"])
def test_a_replace_that_died_between_commits_is_completed_by_its_repetition(
    store, folder, step, monkeypatch
):
    old = [file("a.py", "kept", "left"), file("b.py", "both", refs=(MAIN, RefName("dev")))]
    new = [file("a.py", "kept", "new", "more"), file("b.py", "b2", refs=(RefName("dev"),))]
    store.replace(old)
    with monkeypatch.context() as patch:
        patch.setattr(store, step, _die)
        with pytest.raises(_Killed):
            store.replace(new)

    restarted = LanceChunkStore(folder, dim=DIM, identity="test")
    restarted.replace(new)
    kept, _ = old[0].chunks
    assert ids(restarted) == {kept.id, *(c.id for c in new[0].chunks), old[1].chunks[0].id}
    assert set(restarted.ids(APP, RefName("dev"))) == {new[1].chunks[0].id}


class _Killed(BaseException):
    pass


def _die(*_):
    raise _Killed


def test_repeating_a_replace_writes_nothing(store, folder):
    store.replace(files(3))
    versions = list((folder / "chunks.lance" / "_versions").iterdir())
    store.replace(files(3))

    assert list((folder / "chunks.lance" / "_versions").iterdir()) == versions


async def test_writers_in_two_processes_wait_for_each_other(store, folder, search):
    other = multiprocessing.get_context("spawn").Process(target=_write_files, args=(folder,))
    other.start()
    while await search.count() == 0:
        await asyncio.sleep(0.01)
    for number in range(20):
        store.replace([file(f"here{number}.py", "shared")])
    other.join(60)

    assert other.exitcode == 0
    assert len(set(await paths(search))) == await search.count() == 40


def _write_files(folder):
    store = LanceChunkStore(folder, dim=DIM, identity="test")
    for number in range(20):
        store.replace([file(f"there{number}.py", "shared")])


@pytest.mark.parametrize("opening", [LanceChunkStore, LanceChunkSearch], ids=["writer", "reader"])
@pytest.mark.parametrize(
    ("dim", "identity"), [(DIM, "other-model"), (DIM + 1, "test")], ids=["model", "dimensions"]
)
def test_another_embedders_folder_is_refused_with_the_remedy(store, folder, opening, dim, identity):
    with pytest.raises(SchemaMismatch, match=f"remove {folder} and index again, or set CODELODE_E"):
        opening(folder, dim=dim, identity=identity)


def test_another_schemas_folder_is_refused(store, folder):
    identity = {"schema": SCHEMA_VERSION + 1, "embedder": "test", "dim": DIM}
    (folder / "identity.json").write_text(json.dumps(identity))

    with pytest.raises(SchemaMismatch, match=f"schema {SCHEMA_VERSION + 1}"):
        LanceChunkStore(folder, dim=DIM, identity="test")


async def test_a_reader_refuses_the_folder_that_another_embedder_filled_later(folder, search):
    LanceChunkStore(folder, dim=DIM, identity="other-model")

    with pytest.raises(SchemaMismatch):
        await search.hybrid(QUERY)


def test_a_damaged_identity_is_reported_with_the_remedy(store, folder):
    (folder / "identity.json").write_text("{")

    with pytest.raises(Corrupt, match="index again"):
        LanceChunkStore(folder, dim=DIM, identity="test")


def test_a_writer_that_died_while_creating_the_table_is_no_obstacle(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(indexes, "build_full_text", _die)
        with pytest.raises(_Killed):
            LanceChunkStore(folder, dim=DIM, identity="test")

    store = LanceChunkStore(folder, dim=DIM, identity="test")
    store.replace(files(1))
    assert len(ids(store)) == 5


async def test_a_query_vector_of_another_embedder_is_refused(store, search):
    store.replace(files(1))

    with pytest.raises(SchemaMismatch, match="8 dimensions"):
        await search.hybrid(HybridQuery("", np.ones(DIM + 1, np.float32), Filters(), 5))


def test_a_reopened_store_holds_what_was_written(store, folder):
    store.replace(files(3))
    before = ids(store)

    assert ids(LanceChunkStore(folder, dim=DIM, identity="test")) == before


@pytest.mark.parametrize(
    ("outside", "rows", "quiet_s", "due"),
    [
        (0, 0, 60, False),
        (0, 60_000, 60, False),
        (1, 1, 60, True),
        (1, 1, 0, False),
        (7_999, 7_999, 0, False),
        (8_000, 8_000, 0, True),
        (49, 1_000, 60, False),
        (50, 1_000, 60, True),
        (255, 60_000, 60, False),
        (256, 60_000, 60, True),
        (256, 60_000, 0, False),
        (30_000, 90_000, 0, False),
        (45_000, 90_000, 0, True),
    ],
)
def test_indexes_are_built_when_enough_has_gathered(outside, rows, quiet_s, due):
    assert indexes.is_due(outside, rows, quiet_s=quiet_s) is due


async def test_maintenance_after_deletions_still_takes_in_new_rows(store, monkeypatch):
    monkeypatch.setattr(indexes, "QUIET_S", 0)
    store.replace(files(40))
    store.maintain()
    store.replace([FileChunks(APP, f"f{n}.py", (DEFAULT_REF, MAIN)) for n in range(30)])
    store.replace([file(f"new{n}.py", "shared") for n in range(20)])
    store.maintain()

    stats = store._table.index_stats("terms_idx")
    assert (stats.num_indexed_rows, stats.num_unindexed_rows) == (70, 0)


async def test_the_vector_index_finds_what_a_scan_finds(store, search, monkeypatch):
    rng = np.random.default_rng(7)
    monkeypatch.setattr(indexes, "QUIET_S", 0)
    monkeypatch.setattr(indexes, "MIN_VECTORS", 1_000)
    store.replace(files(40, chunks=50))
    queries = [HybridQuery("", v, Filters(), 50) for v in rng.standard_normal((5, DIM), np.float32)]
    scanned = [await search.hybrid(query) for query in queries]
    store.maintain()

    assert "vector_idx" in {index.name for index in store._table.list_indices()}
    for query, before in zip(queries, scanned, strict=True):
        after = sorted(hit.similarity for hit in await search.hybrid(query))
        assert after == pytest.approx(sorted(hit.similarity for hit in before), abs=1e-3)


def test_maintenance_gives_back_the_space_of_what_was_replaced(store, folder, monkeypatch):
    monkeypatch.setattr(indexes, "KEEP_VERSIONS", timedelta(milliseconds=1))
    monkeypatch.setattr(indexes, "QUIET_S", 0)
    store.replace(files(40))
    store.maintain()
    size = _size(folder)
    for version in range(1, 15):
        store.replace(files(40, version=version))
        store.maintain()

    assert _size(folder) < 3 * size


def _size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _library_errors():
    own = (cls for _, cls in inspect.getmembers(lancedb.exceptions, inspect.isclass))
    arrow = (cls for _, cls in inspect.getmembers(pa.lib, inspect.isclass))
    raised = [cls for cls in own if issubclass(cls, Exception)]
    raised += [cls for cls in arrow if issubclass(cls, pa.ArrowException)]
    return [*raised, OSError, RuntimeError, ValueError, KeyError]


@pytest.mark.parametrize("error", _library_errors(), ids=lambda error: error.__name__)
def test_every_error_of_the_library_is_translated(error, tmp_path):
    with pytest.raises((Unavailable, Corrupt)) as raised, translated(tmp_path):
        raise error("reason")

    assert isinstance(raised.value.__cause__, error)


def test_our_own_errors_pass_as_they_are(tmp_path):
    with pytest.raises(NotIndexed), translated(tmp_path):
        raise NotIndexed("reason")
    assert issubclass(NotIndexed, CodelodeError)


async def test_a_table_that_vanished_is_an_error_of_ours(store, folder, search):
    store.replace(files(1))
    await search.hybrid(QUERY)
    for path in sorted((folder / "chunks.lance").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()

    with pytest.raises((Unavailable, Corrupt)):
        await search.hybrid(QUERY)
