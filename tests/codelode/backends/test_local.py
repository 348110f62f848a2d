"""The embedded chunk store: processes, crashes, readers, filters at size, damage, wrong folders."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from tantivy import Index, SchemaBuilder

from codelode import deadline, globs
from codelode.access import EVERYTHING
from codelode.backends import words
from codelode.backends.local import (
    LocalChunkSearch,
    LocalChunkStore,
    chunk_cache,
    coarse_vectors,
    column_loader,
    database,
    keyword_index,
    shared_vectors,
    signature,
    store,
)
from codelode.backends.local import search as local_search
from codelode.backends.local.column_loader import ColumnLoader
from codelode.backends.local.errors import Damaged, damage_reported, translated
from codelode.backends.local.inventory import LocalInventory
from codelode.backends.local.shadow import FIRST, LocalShadowIndex
from codelode.backends.local.signature import SCHEMA_VERSION
from codelode.backends.local.snapshots import Snapshots
from codelode.errors import Corrupt, NotIndexed, SchemaMismatch, TimedOut, Unavailable
from codelode.files import make_private
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
APP, MAIN, DEV = RepositoryName("acme/app"), RefName("main"), RefName("dev")
QUERY = HybridQuery("shared", np.ones(DIM, np.float32), Filters(), 400, visible=EVERYTHING)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def writer(folder):
    opened = opened_writer(folder)
    yield opened
    opened.close()


@pytest.fixture
async def search(folder):
    opened = LocalChunkSearch(folder, dim=DIM, identity="test")
    yield opened
    await opened.close()


def opened_writer(folder):
    return LocalChunkStore(folder, dim=DIM, identity="test")


def file(path, *contents, refs=(DEFAULT_REF, MAIN), **fields):
    fields = {"language": "python", "symbol": "", "symbols": (), "summary": "", **fields}
    chunks = tuple(
        Chunk(
            id=chunk_id(APP, path, line, content),
            repository=APP,
            path=path,
            refs=refs,
            category=Category.SOURCE,
            kind=Kind.BLOCK,
            header="",
            start_line=line,
            end_line=line,
            content=content,
            **fields,
        )
        for line, content in enumerate(contents, 1)
    )
    rng = np.random.default_rng(len(chunks))
    return FileChunks(APP, path, refs, chunks, rng.standard_normal((len(chunks), DIM), np.float32))


def files(count, *, version=0, chunks=5):
    contents = [f"shared v{version} line {line}" for line in range(chunks)]
    return [file(f"f{number}.py", *contents) for number in range(count)]


def wider(of):
    """Return the file with vectors of one more dimension."""
    return replace(of, vectors=np.ones((len(of.chunks), DIM + 1), np.float32))


def gone(path, refs=(DEFAULT_REF, MAIN)):
    return FileChunks(APP, path, refs)


def ids(writer):
    return set(writer.ids(APP, MAIN))


async def paths(search, query=QUERY):
    return sorted(hit.chunk.path for hit in await search.hybrid(query))


async def contents(search, text="shared", **filters):
    query = HybridQuery(text, None, Filters(**filters), 400, visible=EVERYTHING)
    return sorted(hit.chunk.content for hit in await search.hybrid(query))


# Readers


async def test_a_reader_may_be_created_before_the_writer(folder, search):
    assert await search.hybrid(QUERY) == []
    assert await search.count(EVERYTHING) == 0
    assert await search.files([(APP, "a.py")], MAIN) == {(APP, "a.py"): ()}

    writer = opened_writer(folder)
    assert await search.hybrid(QUERY) == []
    writer.replace([file("a.py", "shared")])
    assert await paths(search) == ["a.py"]


@pytest.mark.slow
async def test_a_reader_sees_each_write_as_soon_as_it_returned(writer, search):
    for number in range(20):
        writer.replace([file("a.py", f"shared {number}")])
        assert await contents(search) == [f"shared {number}"]
        assert [hit.chunk.content for hit in await search.hybrid(QUERY)] == [f"shared {number}"]


class Threads(ThreadPoolExecutor):
    """Counts the calls that did not run in the calling thread."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def submit(self, *args, **kwargs):
        self.calls += 1
        return super().submit(*args, **kwargs)


@pytest.fixture
async def threads():
    made = Threads()
    asyncio.get_running_loop().set_default_executor(made)
    return made


async def test_a_quick_search_runs_in_the_calling_thread_if_the_index_is_loaded(
    writer, search, threads
):
    for number in range(1, 4):
        writer.replace([file("a.py", f"shared {number}")])
        for _ in range(3):
            found = await search.hybrid(QUERY)
            assert [hit.chunk.content for hit in found] == [f"shared {number}"]
            assert threads.calls == number


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "shared " * 100},
        {"limit": 2_000},
        {"filters": Filters(paths=("*.py",))},
        {"filters": Filters(within=("*.py",))},
        {"filters": Filters(not_paths=("*.rb",))},
        {"filters": Filters(symbols=("sh*",))},
    ],
    ids=["text", "limit", "paths", "within", "not_paths", "symbols"],
)
async def test_a_search_that_may_take_long_runs_in_another_thread(writer, search, threads, changes):
    writer.replace([file("a.py", "shared", symbol="shared")])
    for number in range(1, 4):
        assert await paths(search, replace(QUERY, **changes)) == ["a.py"]
        assert threads.calls == number


async def test_a_search_of_a_large_index_runs_in_another_thread(
    writer, search, threads, monkeypatch
):
    monkeypatch.setattr(local_search, "MAX_AT_ONCE", 1)
    writer.replace([file("a.py", "shared", "shared too")])
    for number in range(1, 4):
        assert await paths(search) == ["a.py", "a.py"]
        assert threads.calls == number


async def test_a_search_does_not_wait_for_another_one_that_loads_the_index(
    writer, search, threads, monkeypatch
):
    writer.replace([file("a.py", "shared 1")])
    await search.hybrid(QUERY)
    writer.replace([file("a.py", "shared 2")])
    loading, may_go_on = threading.Event(), threading.Event()
    load = ColumnLoader.load

    def slow(*args):
        loading.set()
        may_go_on.wait()
        return load(*args)

    monkeypatch.setattr(ColumnLoader, "load", slow)
    first = asyncio.ensure_future(search.hybrid(QUERY))
    await asyncio.to_thread(loading.wait)
    second = asyncio.ensure_future(search.hybrid(QUERY))
    await asyncio.sleep(0)  # the second one has begun, and this thread is free again
    may_go_on.set()
    for found in await asyncio.gather(first, second):
        assert [hit.chunk.content for hit in found] == ["shared 2"]


@pytest.mark.slow
async def test_a_reader_never_finds_half_of_a_replacement(writer, search):
    writer.replace(files(4))
    over = threading.Event()

    def rewrite():
        for version in range(30):
            writer.replace(files(4, version=version))
            if version % 3 == 0:
                writer.maintain()
        over.set()

    writing = asyncio.create_task(asyncio.to_thread(rewrite))
    while not over.is_set():
        for found in await asyncio.gather(*(search.hybrid(QUERY) for _ in range(3))):
            assert len(found) == 20
            assert len({hit.chunk.content.split()[1] for hit in found}) == 1
            assert all(hit.keyword_score and hit.similarity is not None for hit in found)
    await writing
    assert ids(writer) == {chunk.id for of in files(4, version=29) for chunk in of.chunks}


async def test_a_write_between_reading_the_database_and_the_keyword_index_is_detected(
    writer, search, monkeypatch
):
    writer.replace(files(4))
    await search.count(EVERYTHING)
    writer.replace(files(4, version=1))
    opened, pending = Snapshots._searcher, [2, 3]

    def overtaken(self, number):
        if pending:
            writer.replace(files(4, version=pending.pop(0)))
            writer.maintain()
        return opened(self, number)

    monkeypatch.setattr(Snapshots, "_searcher", overtaken)
    found = await search.hybrid(QUERY)
    assert {hit.chunk.content.split()[1] for hit in found} == {"v3"}
    assert all(hit.keyword_score for hit in found)


@pytest.mark.slow
async def test_a_reader_in_another_process_never_finds_half_of_a_replacement(writer, folder):
    writer.replace(files(4))
    context = multiprocessing.get_context("spawn")
    ready, over, bad = context.Event(), context.Event(), context.Queue()
    reader = context.Process(target=_read_until, args=(folder, ready, over, bad))
    reader.start()
    assert ready.wait(60)
    for version in range(30):
        writer.replace(files(4, version=version))
    over.set()
    assert bad.get(timeout=60) == []
    reader.join(60)
    assert reader.exitcode == 0


def _read_until(folder, ready, over, bad):
    asyncio.run(_read(folder, ready, over, bad))


async def _read(folder, ready, over, bad):
    search = LocalChunkSearch(folder, dim=DIM, identity="test")
    wrong = []
    while not over.is_set():
        found = [hit.chunk.content.split()[1] for hit in await search.hybrid(QUERY)]
        if len(found) != 20 or len(set(found)) != 1:
            wrong.append(found)
        ready.set()
    bad.put(wrong)
    await search.close()


async def test_a_reader_that_missed_dropped_changes_reloads(writer, search, monkeypatch):
    monkeypatch.setattr(store, "KEPT_CHANGES", 0)
    writer.replace(files(10))
    assert len(await search.hybrid(QUERY)) == 50
    for version in range(1, 4):
        writer.replace([*files(10, version=version)[:5], gone("f9.py")])
        writer.maintain()

    found = await search.hybrid(QUERY)
    assert len(found) == await search.count(EVERYTHING) == 45
    assert sum("v3" in hit.chunk.content for hit in found) == 25


async def test_deleted_rows_are_removed_from_memory(writer, search):
    writer.replace(files(10))
    for version in range(8):
        writer.replace(files(10, version=version))
        await search.count(EVERYTHING)

    held = len(search._opened.snapshots._newest.columns.rows)
    assert held < 50 / (1 - column_loader.MAX_DELETED) + 50


async def test_refs_change_without_rewriting_rows(writer, search, folder):
    writer.replace(files(10))
    assert len(await search.hybrid(QUERY)) == 50
    before = _stamp(folder)
    writer.replace([replace(of, refs=(DEV,)) for of in files(10)])

    assert _stamp(folder) == before
    found = await search.hybrid(replace(QUERY, filters=Filters(ref=DEV)))
    assert {hit.chunk.refs for hit in found} == {(DEFAULT_REF, DEV, MAIN)}
    writer.replace([gone(f"f{number}.py") for number in range(10)])
    assert await search.hybrid(QUERY) == []
    assert len(await contents(search, ref=DEV)) == 50


def _stamp(folder):
    with sqlite3.connect(folder / database.FILE_NAME) as connection:
        return database.state(connection).keywords_stamp


async def test_a_reader_follows_an_index_that_was_removed_and_recreated(writer, search, folder):
    writer.replace(files(2))
    assert len(await search.hybrid(QUERY)) == 10
    shutil.rmtree(folder)
    assert await search.hybrid(QUERY) == []

    other = opened_writer(folder)
    other.replace([file("new.py", "shared")])
    assert await paths(search) == ["new.py"]
    writer.replace([file("newer.py", "shared")])
    assert await paths(search) == ["new.py", "newer.py"]


# Vectors that readers share


@pytest.fixture
def shares_all(monkeypatch):
    """Have maintenance share every vector."""
    monkeypatch.setattr(shared_vectors, "MIN_CHANGED", 0)


def _shared(search):
    """Return for each part of the vectors that a reader holds, whether it is the shared file."""
    parts = search._opened.snapshots._newest.columns.vectors
    return [(len(part), not part.flags.writeable) for part in parts]


async def _similarities(search):
    return {hit.chunk.id: hit.similarity for hit in await search.hybrid(QUERY)}


async def _unshared(folder):
    """Return the similarities that a reader finds which holds all vectors itself."""
    shared_vectors.remove(folder)
    search = LocalChunkSearch(folder, dim=DIM, identity="test")
    found = await _similarities(search)
    await search.close()
    return found


async def test_a_reader_maps_the_vectors_that_maintenance_has_written(
    writer, folder, search, shares_all
):
    writer.replace(files(10))
    writer.maintain()
    assert len(await _similarities(search)) == 50
    assert _shared(search) == [(50, True)]

    writer.replace([*files(3, version=1), file("new.py", "shared")])
    found = await _similarities(search)
    assert _shared(search) == [(50, True), (16, False)]
    near = replace(QUERY, filters=Filters(paths=("new.py", "f1.py", "f9.py")))
    assert await paths(search, near) == ["f1.py"] * 5 + ["f9.py"] * 5 + ["new.py"]
    assert found == await _unshared(folder)


async def test_a_running_reader_takes_over_a_new_file(writer, folder, search, shares_all):
    writer.replace(files(10))
    writer.maintain()
    await _similarities(search)
    writer.replace([*files(3, version=1), gone("f9.py")])
    await _similarities(search)
    writer.maintain()
    writer.replace([file("new.py", "shared")])

    found = await _similarities(search)
    assert _shared(search) == [(45, True), (1, False)]
    assert found == await _unshared(folder)


async def test_a_reader_drops_deleted_rows_of_the_shared_file(writer, folder, search, shares_all):
    writer.replace(files(10))
    writer.maintain()
    await _similarities(search)
    writer.replace([gone(f"f{number}.py") for number in range(6)])

    found = await _similarities(search)
    assert _shared(search) == [(20, False)]
    assert found == await _unshared(folder)


async def test_a_new_reader_uses_a_file_with_rows_that_were_deleted(
    writer, folder, search, shares_all
):
    writer.replace(files(10))
    writer.maintain()
    writer.replace([*files(1, version=1), gone("f4.py"), gone("f9.py")])

    found = await _similarities(search)
    assert _shared(search) == [(50, True), (5, False)]
    assert await paths(search) == sorted([f"f{n}.py" for n in (0, 1, 2, 3, 5, 6, 7, 8)] * 5)
    assert found == await _unshared(folder)


async def test_a_vector_file_newer_than_the_database_is_ignored(writer, folder, search, shares_all):
    writer.replace(files(10))
    writer.maintain()
    later = (folder / shared_vectors.FILE_NAME).read_bytes()
    shutil.rmtree(folder)
    opened_writer(folder).replace(files(2))
    (folder / shared_vectors.FILE_NAME).write_bytes(later)

    assert len(await _similarities(search)) == 10
    assert _shared(search) == [(10, False)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data[:-8],
        lambda data: b"vectors0" + data[8:],
        lambda data: data[:16] + bytes([DIM * 2]) + data[17:],
        lambda data: data[:64] + bytes(len(data) - 64),
        lambda data: data[:70] + bytes([data[70] ^ 1]) + data[71:],
        lambda data: data[:-16] + data[-8:] + data[-16:-8],
        lambda data: data[:-16] + 2 * data[-8:],
        lambda data: data[:-80] + bytes(8) + data[-72:],
        lambda data: data[:-75] + b"\1" + data[-74:],
    ],
    ids=[
        *("empty", "no header", "cut", "another format", "other dimensions", "zeros", "one bit"),
        *("rows out of order", "a row twice", "a row too low", "a row too high"),
    ],
)
async def test_a_damaged_file_of_vectors_is_ignored(writer, folder, search, shares_all, damage):
    writer.replace(files(4))
    writer.maintain()
    path = folder / shared_vectors.FILE_NAME
    path.write_bytes(damage(path.read_bytes()))

    found = await _similarities(search)
    assert _shared(search) == [(20, False)]
    assert found == await _unshared(folder)


def test_vectors_whose_last_row_number_is_damaged_are_written_again(writer, folder, shares_all):
    writer.replace(files(4))
    writer.maintain()
    path = folder / shared_vectors.FILE_NAME
    data = path.read_bytes()
    path.write_bytes(data[:-6] + b"\1" + data[-5:])
    damaged = shared_vectors.version(folder)

    writer.replace([file("new.py", "shared")])
    writer.maintain()
    assert shared_vectors.version(folder) != damaged


@pytest.fixture
def coded(writer, monkeypatch, shares_all):
    """Store 3,000 random vectors, near one direction in `a.py` and far from it in `b.py`."""
    monkeypatch.setattr(coarse_vectors, "MIN_ROWS", 1_000)
    vectors = np.random.default_rng(7).standard_normal((3_000, DIM)).astype(np.float32)
    vectors[:2_000, 0], vectors[2_000:, 0] = 2, -2
    for path, some in (("a.py", vectors[:2_000]), ("b.py", vectors[2_000:])):
        of = file(path, *(f"{path} {number}" for number in range(len(some))))
        writer.replace([replace(of, vectors=some)])
    writer.maintain()
    return vectors


def _has_codes(search):
    return search._opened.snapshots._newest.columns.coarse is not None


async def _are_nearest(search, vectors, filters=None):
    """Assert that the nearest of the vectors are found for some queries near `a.py`."""
    for query in np.random.default_rng(8).standard_normal((10, DIM)).astype(np.float32):
        query[0] = 2
        cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        found = await search.hybrid(
            HybridQuery("", query, filters or Filters(), 5, visible=EVERYTHING)
        )
        got = sorted((hit.similarity for hit in found), reverse=True)
        assert got == pytest.approx(np.sort(cosines)[::-1][:5], abs=2e-3)


async def test_the_nearest_of_many_vectors_are_found_by_their_codes(coded, writer, search):
    await _are_nearest(search, coded)
    assert _has_codes(search)

    added = np.random.default_rng(9).standard_normal((100, DIM)).astype(np.float32)
    of = file("new.py", *(f"new {number}" for number in range(100)))
    writer.replace([replace(of, vectors=added), gone("b.py")])
    await _are_nearest(search, np.concatenate([coded[:2_000], added]))
    assert _has_codes(search)


async def test_the_nearest_inside_filters_are_found_where_others_are_nearer(coded, search):
    await _are_nearest(search, coded[2_000:], Filters(paths=("b.py",)))
    assert _has_codes(search)


async def test_vectors_with_damaged_codes_are_ignored(coded, folder, search):
    path = folder / shared_vectors.FILE_NAME
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])

    await _are_nearest(search, coded)
    assert _shared(search) == [(3_000, False)]


async def test_a_full_disk_leaves_the_vectors_with_the_readers(
    writer, folder, search, monkeypatch, shares_all
):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    writer.replace(files(4))
    monkeypatch.setattr(os, "fsync", full)
    writer.maintain()

    assert not list(folder.glob("vectors*"))
    assert len(await _similarities(search)) == 20


def test_the_draft_of_a_killed_writer_is_counted_and_then_removed(writer, folder, shares_all):
    writer.replace(files(20))
    writer.maintain()
    inventory = LocalInventory(folder)
    before = (inventory.sizes() or {})["vectors"]
    draft = folder / f"{shared_vectors.FILE_NAME}.draft"
    draft.write_bytes(bytes(8_192))
    assert (inventory.sizes() or {})["vectors"] >= before + 8_192

    writer.maintain()  # nothing is due
    assert not draft.exists()


def test_a_dropped_first_index_leaves_no_vectors(writer, folder, shares_all):
    writer.replace(files(4))
    writer.maintain()
    (folder / f"{shared_vectors.FILE_NAME}.draft").write_bytes(b"half")
    shadow = LocalShadowIndex(folder, dim=DIM, identity="other", choice={})
    shadow.open().close()
    shadow.publish()

    shadow.drop(FIRST)
    assert not (folder / database.FILE_NAME).exists()
    assert not list(folder.glob("vectors*"))


def test_few_changes_do_not_write_the_vectors_again(writer, folder, shares_all):
    writer.replace(files(20))
    writer.maintain()
    before = shared_vectors.version(folder)
    writer.replace([file("new.py", "shared")])
    writer.maintain()
    assert shared_vectors.version(folder) == before

    writer.replace(files(4, version=1))
    writer.maintain()
    assert shared_vectors.version(folder) != before


async def test_an_index_without_chunks_shares_no_vectors(writer, search, shares_all):
    writer.replace(files(2))
    writer.maintain()
    writer.replace([gone("f0.py"), gone("f1.py")])
    writer.maintain()
    assert await search.hybrid(QUERY) == []
    writer.replace([file("new.py", "shared")])
    assert await paths(search) == ["new.py"]


# Crashes


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "between", "after"])
async def test_a_killed_writer_leaves_a_call_complete_or_undone(folder, search, moment):
    writer = opened_writer(folder)
    writer.replace([file("a.py", "shared old"), file("b.py", "shared kept")])
    writer.close()
    assert _exit_code(_replace_and_die, folder, moment) == -signal.SIGKILL

    new = ["shared kept", "shared new"] if moment == "after" else ["shared kept", "shared old"]
    assert await contents(search) == new
    restarted = opened_writer(folder)
    restarted.replace([file("a.py", "shared new")])
    restarted.replace([file("c.py", "shared more")])
    assert await contents(search) == ["shared kept", "shared more", "shared new"]
    assert _keyword_rows(folder) >= _rows(folder)
    restarted.maintain()
    assert _keyword_rows(folder) == _rows(folder)


def _replace_and_die(folder, moment):
    writer = opened_writer(folder)
    commit = keyword_index.Writer.commit

    def commit_and_die(index):
        commit(index)
        _die()

    if moment == "before":
        keyword_index.Writer.commit = _die  # type: ignore[method-assign]
    elif moment == "between":
        keyword_index.Writer.commit = commit_and_die  # type: ignore[method-assign]
    writer.replace([file("a.py", "shared new")])
    _die()


def _die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def _exit_code(target, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join(60)
    return process.exitcode


def _rows(folder):
    with sqlite3.connect(folder / database.FILE_NAME) as connection:
        return {row for (row,) in connection.execute("SELECT row FROM chunks")}


def _keyword_rows(folder):
    with sqlite3.connect(folder / database.FILE_NAME) as connection:
        number = database.state(connection).keywords
    index = keyword_index.Writer(keyword_index.folder_of(folder, number))
    try:
        return index.rows()
    finally:
        index.close()


async def test_rows_that_only_the_keyword_index_has_are_ignored(writer, search, folder):
    """A crash between the commits of the keyword index and the database leaves such rows."""
    writer.replace(files(2))
    index = keyword_index.Writer(keyword_index.folder_of(folder, 0))
    index.add(((row, files(1)[0].chunks[0]) for row in range(11, 900)), {})
    index.commit()
    index.close()

    await search.count(EVERYTHING)
    assert len(await search.hybrid(replace(QUERY, limit=10))) == 10
    writer.replace([file("c.py", "shared")])
    assert len(await search.hybrid(QUERY)) == 11
    assert _keyword_rows(folder) == _rows(folder)


def test_an_interrupted_replace_leaves_nothing(writer, monkeypatch):
    writer.replace(files(2))
    before = ids(writer)
    with monkeypatch.context() as patch:
        patch.setattr(database, "save_state", _interrupt)
        with pytest.raises(_Interrupted):
            writer.replace(files(2, version=1))

    assert ids(writer) == before
    writer.replace(files(2, version=1))
    assert ids(writer) == {chunk.id for of in files(2, version=1) for chunk in of.chunks}


class _Interrupted(BaseException):
    pass


def _interrupt(*_):
    raise _Interrupted


def test_repeating_a_replace_writes_nothing(writer, folder):
    writer.replace(files(3))
    before = _version(folder)
    writer.replace(files(3))

    assert _version(folder) == before


def _version(folder):
    with sqlite3.connect(folder / database.FILE_NAME) as connection:
        return database.state(connection).version


def test_a_writer_can_recreate_an_index_whose_creation_was_interrupted(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(keyword_index, "create", _interrupt)
        with pytest.raises(_Interrupted):
            opened_writer(folder)

    writer = opened_writer(folder)
    writer.replace(files(1))
    assert len(ids(writer)) == 5


@pytest.mark.slow
async def test_a_full_disk_is_a_transient_error_and_damages_nothing(writer, folder, search):
    writer.replace(files(2))

    assert _exit_code(_write_on_a_full_disk, folder) == 0
    assert len(await search.hybrid(QUERY)) == 10
    writer.replace(files(3))
    assert len(await search.hybrid(QUERY)) == 15


def _write_on_a_full_disk(folder):
    writer = opened_writer(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    with pytest.raises(Unavailable):
        writer.replace(files(200, version=1, chunks=20))


# Writers


@pytest.mark.slow
async def test_writers_in_two_processes_wait_for_each_other(writer, folder, search):
    other = multiprocessing.get_context("spawn").Process(target=_write_files, args=(folder,))
    other.start()
    while await search.count(EVERYTHING) == 0:
        await asyncio.sleep(0.01)
    for number in range(20):
        writer.replace([file(f"here{number}.py", "shared")])
    other.join(60)

    assert other.exitcode == 0
    assert len(set(await paths(search))) == await search.count(EVERYTHING) == 40


def _write_files(folder):
    writer = opened_writer(folder)
    for number in range(20):
        writer.replace([file(f"there{number}.py", "shared")])


def test_a_reopened_store_has_what_was_written(writer, folder):
    writer.replace(files(3))
    before = ids(writer)

    assert ids(opened_writer(folder)) == before


async def test_maintenance_deletes_removed_rows_from_the_keyword_index(writer, folder, search):
    writer.replace(files(20))
    writer.replace([gone(f"f{number}.py") for number in range(15)])
    assert len(_keyword_rows(folder)) == 100
    writer.maintain()

    assert _keyword_rows(folder) == _rows(folder)
    assert len(await search.hybrid(QUERY)) == 25


def test_maintenance_with_nothing_to_do_writes_nothing(writer, folder):
    writer.replace(files(3))
    writer.maintain()
    before = _version(folder)
    writer.maintain()

    assert _version(folder) == before


def test_many_deletions_are_folded_without_maintenance(writer, folder, monkeypatch):
    monkeypatch.setattr(store, "MAX_UNFOLDED", 20)
    for version in range(8):
        writer.replace(files(4, version=version))

    assert len(_keyword_rows(folder)) <= 20 + 20 + 20 + 20


@pytest.mark.slow
def test_maintenance_frees_the_space_of_replaced_chunks(writer, folder):
    writer.replace(files(40))
    writer.maintain()
    size = _size(folder)
    for version in range(1, 15):
        writer.replace(files(40, version=version))
        writer.maintain()

    assert _size(folder) < 3 * size


def _size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_pages_hold_texts_of_usual_size_without_much_unused_space(writer, folder):
    texts = [f"shared {'x' * 2_200} {number}" for number in range(1_000)]
    writer.replace([file("f.py", *texts)])
    writer.maintain()

    assert (folder / database.FILE_NAME).stat().st_size < 1.5 * sum(map(len, texts))


def test_files_without_chunks_are_deleted(writer, folder):
    writer.replace(files(4))
    writer.replace([gone("f0.py"), gone("f1.py")])
    writer.remove_repository(APP)

    with sqlite3.connect(folder / database.FILE_NAME) as connection:
        assert connection.execute("SELECT count(*) FROM files").fetchone() == (0,)


# Searching


async def test_summaries_are_searched_and_count_double(writer, search):
    said = "shared words of a summary"
    writer.replace([file("none.py", "x"), file("said.py", "y", summary=said)])
    (hit,) = await search.hybrid(replace(QUERY, vector=None))

    assert hit.chunk.summary == said
    body = file("body.py", said)
    writer.replace([body, file("pad.py", "z", summary="other words than those")])
    scores = {h.chunk.path: h.keyword_score for h in await search.hybrid(QUERY) if h.keyword_score}
    assert scores["said.py"] > words.SUMMARY_WEIGHT * 0.5 * scores["body.py"]


async def test_files_are_returned_complete_and_in_order(writer, search):
    lines = [f"shared {line}" for line in range(12)]
    writer.replace([file("a.py", *lines), file("b.py", "shared", refs=(DEV,))])
    writer.replace([file("a.py", "changed", *lines[1:])])
    places = [(APP, "a.py"), (APP, "b.py"), (APP, "none.py"), ("acme/none", "a.py")]
    held = await search.files(places, MAIN)

    assert [chunk.start_line for chunk in held[places[0]]] == list(range(1, 13))
    assert held[places[0]][0].content == "changed"
    assert [held[place] for place in places[1:]] == [(), (), ()]
    assert len((await search.files(places, DEV))[places[1]]) == 1


async def test_readers_cache_a_bounded_number_of_chunks(writer, search, monkeypatch):
    monkeypatch.setattr(chunk_cache, "MAX_CHUNKS", 8)
    names = [letter * 4 for letter in "abcdefghijklmnopqrst"]
    writer.replace([file(f"{word}.py", f"{word} first", f"{word} second") for word in names])

    for word in (*names, *names):
        hits = await search.hybrid(replace(QUERY, text=word, vector=None))
        assert sorted(hit.chunk.content for hit in hits) == [f"{word} first", f"{word} second"]
        assert len(search._opened.cache._chunks) <= 8


async def test_candidates_have_their_vectors_if_requested(writer, search):
    made = file("a.py", "shared", "else")
    zero = file("zero.py", "shared")
    writer.replace([made, replace(zero, vectors=np.zeros((1, DIM), np.float32))])
    found = await search.hybrid(replace(QUERY, with_vectors=True))
    vectors = {hit.chunk.id: hit.vector for hit in found}

    for chunk, vector in zip(made.chunks, made.vectors, strict=True):
        assert vectors[chunk.id] == pytest.approx(vector, rel=1e-3)
    assert vectors[zero.chunks[0].id] is None
    assert {hit.vector for hit in await search.hybrid(QUERY)} == {None}


@pytest.fixture(scope="module")
def large_index(tmp_path_factory):
    """2,000 chunks in 1,000 files of 50 folders, two languages and 4 names."""
    folder = tmp_path_factory.mktemp("large") / "index"
    with closing(opened_writer(folder)) as writer:
        writer.replace(
            [
                file(
                    f"src/d{number % 50}/f{number}.{('py', 'rb')[number % 2]}",
                    *("shared " * (number % 7 + 1) + f"pad{number} {line}" for line in range(2)),
                    language=("python", "ruby")[number % 2],
                    symbol=f"Class{number % 4}.run",
                    symbols=("run",),
                )
                for number in range(1_000)
            ]
        )
    return folder


@pytest.fixture
async def large(large_index, folder):
    """A searcher of a copy."""
    shutil.copytree(large_index, folder)
    opened = LocalChunkSearch(folder, dim=DIM, identity="test")
    yield opened
    await opened.close()


FILTERS = {
    "none": Filters(),
    "a third": Filters(paths=("src/d1*/*",)),
    "one folder": Filters(paths=("src/d7/*",)),
    "one file": Filters(paths=("src/**/f777.rb",)),
    "most": Filters(paths=("src/*/f[0-9]*", "**/*.py")),
    "no file": Filters(paths=("nowhere/**",)),
    "a language": Filters(languages=("ruby",)),
    "a language and a folder": Filters(languages=("ruby",), paths=("**/d7/*",)),
    "a language without that folder": Filters(languages=("python",), paths=("**/d7/*",)),
    "a name": Filters(symbols=("Class2.run",)),
    "a name and a file": Filters(symbols=("Class*",), paths=("src/d3/f3.rb", "src/d4/f4.py")),
    "every name": Filters(symbols=("run",)),
    "all but one folder": Filters(not_paths=("src/d7/*",)),
    "one folder, not another": Filters(paths=("src/d1*/*",), not_paths=("**/d11/**",)),
    "all but a language": Filters(not_languages=("ruby",)),
    "nothing is left": Filters(languages=("ruby",), not_languages=("ruby",)),
}


SLOW_GLOBS = tuple(f"**/*{'*a?' * 30}{number}" for number in range(100))


async def test_a_search_ends_with_its_call(large):
    for filters in (Filters(paths=SLOW_GLOBS), Filters(symbols=SLOW_GLOBS), Filters()):
        asked = HybridQuery("shared", QUERY.vector, filters, 5, visible=EVERYTHING)
        with deadline.calling(0), pytest.raises(TimedOut):
            await large.hybrid(asked)


async def test_the_best_chunks_that_a_filter_admits_are_found_however_few_there_are(large):
    everything = await large.hybrid(
        HybridQuery("shared", QUERY.vector, Filters(), 2_000, visible=EVERYTHING)
    )
    admitted = {
        name: [hit for hit in everything if _admits(filters, hit.chunk)]
        for name, filters in FILTERS.items()
    }
    for (name, filters), limit in itertools.product(FILTERS.items(), (5, 100)):
        inside = admitted[name]
        found = await large.hybrid(
            HybridQuery("shared", QUERY.vector, filters, limit, visible=EVERYTHING)
        )

        for side in ("keyword_score", "similarity"):
            best = sorted((getattr(hit, side) for hit in inside), reverse=True)[:limit]
            got = [getattr(hit, side) for hit in found if getattr(hit, side) is not None]
            assert sorted(got, reverse=True) == pytest.approx(best, rel=1e-3), (name, limit)
        assert all(_admits(filters, hit.chunk) for hit in found), (name, limit)


def _admits(filters, chunk):
    names = "\n".join((chunk.symbol, *chunk.symbols))
    return (
        (not filters.languages or chunk.language in filters.languages)
        and (not filters.paths or any(globs.matches_path(g)(chunk.path) for g in filters.paths))
        and (not filters.symbols or any(globs.matches_a_name(g)(names) for g in filters.symbols))
        and not globs.is_excluded(chunk, filters)
    )


async def test_globs_match_files_that_were_added_after_their_first_use(large, folder):
    query = HybridQuery("shared", None, Filters(paths=("**/d7/*.txt",)), 10, visible=EVERYTHING)
    assert await large.hybrid(query) == []
    with closing(opened_writer(folder)) as writer:
        writer.replace([file("src/d7/new.txt", "shared")])

    assert await paths(large, query) == ["src/d7/new.txt"]


async def test_the_nearest_vectors_are_those_of_an_exact_comparison(writer, search):
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((2_000, DIM)).astype(np.float32)
    of = file("a.py", *(f"line {number}" for number in range(2_000)))
    writer.replace([replace(of, vectors=vectors)])
    for query in rng.standard_normal((10, DIM)).astype(np.float32):
        cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        found = await search.hybrid(HybridQuery("", query, Filters(), 50, visible=EVERYTHING))
        got = sorted((hit.similarity for hit in found), reverse=True)
        assert got == pytest.approx(np.sort(cosines)[::-1][:50], abs=2e-3)


async def test_a_query_vector_of_another_embedder_is_refused(writer, search):
    writer.replace(files(1))

    with pytest.raises(SchemaMismatch, match="8 dimensions"):
        await search.hybrid(
            HybridQuery("", np.ones(DIM + 1, np.float32), Filters(), 5, visible=EVERYTHING)
        )


# Damage


@pytest.fixture
def broken(writer, folder):
    """Return a function that damages the keyword index in the given way."""
    writer.replace(files(30))
    writer.close()

    def damage(way):
        at = keyword_index.folder_of(folder, 0)
        terms = next(at.glob("*.term"))
        if way == "folder":
            shutil.rmtree(at)
        elif way == "version":
            shutil.rmtree(at)
            make_private(at)
            Index(SchemaBuilder().build(), path=str(at))
            return
        elif way == "meta":
            (at / "meta.json").write_text("{")
        else:
            terms.unlink()
        if way == "empty":
            terms.write_bytes(b"")

    return damage


@pytest.mark.parametrize("way", ["folder", "meta", "segment", "empty", "version"])
@pytest.mark.parametrize("by", ["opening", "maintaining", "replacing"])
async def test_a_damaged_keyword_index_is_rebuilt(broken, folder, search, way, by):
    writer = opened_writer(folder)
    broken(way)
    if by == "opening":
        writer = opened_writer(folder)
    elif by == "maintaining":
        writer.maintain()
    else:
        writer.replace(files(31)[30:])
        writer.maintain()  # a write alone does not read every segment

    assert len(await contents(search)) == len(_rows(folder)) >= 150
    assert _keyword_rows(folder) == _rows(folder)
    assert len(list(folder.glob("keywords-*"))) == 1


async def test_a_rebuilt_keyword_index_has_the_overlap_of_a_chunk(writer, folder, search):
    writer.replace([file("a.py", "return it", overlap="shared lines\n")])
    writer.close()
    shutil.rmtree(keyword_index.folder_of(folder, 0))
    opened_writer(folder).close()

    assert await contents(search, "lines") == ["return it"]


def test_a_chunk_is_rewritten_if_only_its_overlap_changed(writer, folder):
    writer.replace([file("a.py", "return it", overlap="former\n")])
    before, same = _rows(folder), ids(writer)
    writer.replace([file("a.py", "return it", overlap="current\n")])

    assert ids(writer) == same
    assert not _rows(folder) & before


@pytest.mark.parametrize("way", ["segment", "version"])
async def test_a_reader_of_a_damaged_keyword_index_names_the_remedy(broken, folder, search, way):
    broken(way)
    with pytest.raises(Unavailable, match="rebuilds it"):
        await search.hybrid(QUERY)

    opened_writer(folder)
    assert len(await search.hybrid(QUERY)) == 150


@pytest.mark.slow
async def test_a_reader_stays_current_while_the_keyword_index_is_rebuilt(writer, folder, search):
    writer.replace(files(30))
    over = threading.Event()

    def remake():
        for _ in range(5):
            writer._repairing(_Damages(1))
        over.set()

    making = asyncio.create_task(asyncio.to_thread(remake))
    while not over.is_set():
        assert len(await search.hybrid(QUERY)) == 150
    await making
    assert [path.name for path in folder.glob("keywords-*")] == ["keywords-5"]


class _Damages:
    """Raises Damaged the given number of times."""

    def __init__(self, times):
        self.times = times

    def __call__(self):
        if self.times:
            self.times -= 1
            raise Damaged("reason")


async def test_a_damaged_database_is_reported_with_the_remedy(writer, folder):
    writer.replace(files(30))
    writer.close()
    (folder / database.FILE_NAME).write_bytes(b"nonsense" * 4_096)
    search = LocalChunkSearch(folder, dim=DIM, identity="test")

    with pytest.raises(Corrupt, match="doctor --repair"):
        await search.hybrid(QUERY)
    with pytest.raises(Corrupt, match="doctor --repair"):
        opened_writer(folder)


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (sqlite3.OperationalError("database is locked"), Unavailable),
        (sqlite3.OperationalError("disk I/O error"), Unavailable),
        (sqlite3.OperationalError("database or disk is full"), Unavailable),
        (sqlite3.OperationalError("attempt to write a readonly database"), Unavailable),
        (sqlite3.OperationalError("unable to open database file"), Unavailable),
        (sqlite3.OperationalError("no such table: chunks"), Corrupt),
        (sqlite3.DatabaseError("database disk image is malformed"), Corrupt),
        (sqlite3.DatabaseError("file is not a database"), Corrupt),
        (sqlite3.IntegrityError("UNIQUE constraint failed"), Corrupt),
        (Damaged("reason"), Unavailable),
        (OSError("reason"), Unavailable),
        (ValueError("reason"), Corrupt),
        (KeyError("reason"), Corrupt),
    ],
    ids=repr,
)
def test_errors_of_the_engines_are_translated(error, becomes, tmp_path):
    with pytest.raises(becomes) as raised, translated(tmp_path):
        raise error

    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    ("message", "becomes"),
    [
        ("Failed to acquire Lockfile: LockBusy", OSError),
        ("IO error: No space left on device (os error 28)", OSError),
        ("Data corrupted: meta.json", Damaged),
        ("Failed to open file for read: FileDoesNotExist", Damaged),
    ],
)
def test_errors_of_the_keyword_index_mean_damage_unless_they_are_transient(message, becomes):
    with pytest.raises(becomes), damage_reported():
        raise ValueError(message)


def test_our_own_errors_are_not_translated(tmp_path):
    with pytest.raises(NotIndexed), translated(tmp_path):
        raise NotIndexed("reason")


# Folders of other embedders and schemas


@pytest.mark.parametrize("opening", [LocalChunkStore, LocalChunkSearch], ids=["writer", "reader"])
@pytest.mark.parametrize(
    ("dim", "identity"), [(DIM, "other-model"), (DIM + 1, "test")], ids=["model", "dimensions"]
)
def test_a_folder_of_another_embedder_is_refused_with_the_remedy(
    writer, folder, opening, dim, identity
):
    writer.replace(files(1))

    with pytest.raises(SchemaMismatch, match="set CODELODE_EMBEDDER back"):
        opening(folder, dim=dim, identity=identity)


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_folder_of_another_schema_is_refused(folder, version):
    folder.mkdir()
    identity = {"schema": version, "embedder": "test", "dim": DIM}
    (folder / "identity.json").write_text(json.dumps(identity))

    with pytest.raises(
        SchemaMismatch, match=f"schema {version}.* remove {folder}, .*doctor --repair"
    ):
        opened_writer(folder)


async def test_a_reader_refuses_the_folder_that_another_embedder_filled_later(folder, search):
    LocalChunkStore(folder, dim=DIM, identity="other-model").replace(files(1))

    with pytest.raises(SchemaMismatch):
        await search.hybrid(QUERY)


async def test_an_emptied_index_is_taken_over_by_the_next_embedder_that_writes(
    writer, folder, search
):
    writer.replace(files(1))
    assert await search.count(EVERYTHING) == 5
    writer.replace([gone("f0.py")])
    query = replace(QUERY, vector=np.ones(DIM + 1, np.float32))
    reader = LocalChunkSearch(folder, dim=DIM + 1, identity="other-model")
    assert await reader.hybrid(query) == []
    assert signature.space(folder) is None

    other = LocalChunkStore(folder, dim=DIM + 1, identity="other-model")
    other.replace([wider(file("a.py", "shared"))])

    assert await paths(reader, query) == ["a.py"]
    assert signature.space(folder) == ("other-model", DIM + 1)
    with pytest.raises(SchemaMismatch):
        writer.replace([file("b.py", "shared")])
    with pytest.raises(SchemaMismatch):
        await search.hybrid(QUERY)
    other.close()
    await reader.close()


async def test_a_writer_takes_back_an_empty_index_that_another_model_claimed(
    writer, folder, search
):
    LocalChunkStore(folder, dim=DIM, identity="other-model").close()
    writer.replace([file("a.py", "shared")])

    assert await paths(search) == ["a.py"]
    with pytest.raises(SchemaMismatch):
        LocalChunkStore(folder, dim=DIM, identity="other-model")


def test_a_writer_can_sign_an_empty_index_after_another_died_signing_it(
    writer, folder, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(database, "_TABLES", "SELECT nonsense;")
        with pytest.raises(Corrupt):
            LocalChunkStore(folder, dim=DIM, identity="other-model")

    writer.replace([file("a.py", "shared")])
    assert len(ids(writer)) == 1


def test_a_damaged_signature_is_reported_with_the_remedy(writer, folder):
    (folder / "identity.json").write_text("{")

    with pytest.raises(Corrupt, match="doctor --repair"):
        opened_writer(folder)
