"""A keyword index on a disk that has become read-only: writes say so, searches go on.

The database is left out: its engine maps a file that all of its processes write to, and the kernel
ends a process (SIGBUS) that does so on such a disk. A cluster starts it again (`end_to_end`).
"""

from __future__ import annotations

import pytest

from codelode.access import EVERYTHING
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.errors import Unavailable
from codelode.model import Filters, HybridQuery, RefName
from tests.disks import read_only

DIM = 4


@pytest.fixture
async def sides(tmp_path):
    store = LocalChunkStore(tmp_path / "index", dim=DIM, identity="test")
    search = LocalChunkSearch(tmp_path / "index", dim=DIM, identity="test")
    yield store, search
    await search.close()
    store.close()


async def found(search):
    filters = Filters(ref=RefName("main"))
    hits = await search.hybrid(HybridQuery("shared", None, filters, 100, visible=EVERYTHING))
    return sorted(hit.chunk.path for hit in hits)


async def test_a_write_to_a_read_only_disk_fails_and_is_complete_when_repeated(
    sides, tmp_path, chunk_of, file_of
):
    store, search = sides
    store.replace([file_of(chunk_of("a.py"))])
    assert await found(search) == ["a.py"]
    keywords = set(tmp_path.glob("index/keywords-*"))
    with read_only(tmp_path / "index" / "keywords-0"):
        for _ in range(2):
            with pytest.raises(Unavailable, match="does not answer"):
                store.replace([file_of(chunk_of("b.py"))])
        assert await found(search) == ["a.py"]
    store.replace([file_of(chunk_of("b.py"))])

    assert await found(search) == ["a.py", "b.py"]
    assert set(tmp_path.glob("index/keywords-*")) == keywords  # not taken for damaged


async def test_a_reader_that_was_behind_catches_up_without_a_write(
    sides, tmp_path, chunk_of, file_of
):
    store, search = sides
    store.replace([file_of(chunk_of("a.py"))])
    assert await found(search) == ["a.py"]
    store.replace([file_of(chunk_of("b.py"))])
    with read_only(tmp_path / "index" / "keywords-0"):
        assert await found(search) == ["a.py"]

    assert await found(search) == ["a.py", "b.py"]
