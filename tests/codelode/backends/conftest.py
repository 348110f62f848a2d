"""Files of chunks, and the store and search of a Weaviate index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from codelode.access import EVERYTHING
from codelode.backends.weaviate import TenantIndex, WeaviateChunkSearch, WeaviateChunkStore
from codelode.model import (
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

DIM = 4
MAIN = RefName("main")
EAST = np.array([1, 0, 0, 0], np.float32)


@dataclass(frozen=True)
class WeaviateSides:
    """The store and the search of one index; the search belongs to the test's event loop."""

    store: Any
    search: Any
    place: TenantIndex

    async def found(self, text="shared", vector=EAST, *, limit=100, **filters):
        narrowed = Filters(**{"ref": MAIN, **filters})
        return await self.search.hybrid(
            HybridQuery(text, vector, narrowed, limit, visible=EVERYTHING)
        )

    def ids(self, repository="acme/app"):
        return set(self.store.ids(RepositoryName(repository), MAIN))

    async def close(self):
        await self.search.close()
        self.store.close()


@pytest.fixture
def chunk_of():
    """`chunk_of(path, content, line=…)` returns a chunk at main."""

    def make(path="a.py", content="shared text", *, repository="acme/app", line=1, **fields):
        values = {
            "id": chunk_id(repository, path, line, content),
            "repository": RepositoryName(repository),
            "path": path,
            "refs": (MAIN,),
            "language": "python",
            "category": Category.SOURCE,
            "kind": Kind.BLOCK,
            "symbol": "",
            "symbols": (),
            "header": "",
            "start_line": line,
            "end_line": line,
            "content": content,
        }
        return Chunk(**{**values, **fields})

    return make


@pytest.fixture
def file_of():
    """`file_of(*chunks, vector=…)` returns the file of these chunks, at main."""

    def make(*chunks, vector=EAST):
        first = chunks[0]
        vectors = np.array([vector] * len(chunks), np.float32)
        return FileChunks(first.repository, first.path, (MAIN,), chunks, vectors)

    return make


@pytest.fixture
def own_place(weaviate_alias):
    """Return an index that no other test uses."""
    return TenantIndex(alias=f"{weaviate_alias}{uuid4().hex[:6]}")


@pytest.fixture
async def open_weaviate():
    """`open_weaviate(address, index)` returns store and search, closed after the test."""
    opened = []

    def make(address, place=None, *, identity="test", **options):
        place = place or TenantIndex(alias=f"Test{uuid4().hex[:8]}")
        opened.append(
            WeaviateSides(
                WeaviateChunkStore(address, place, dim=DIM, identity=identity, **options),
                WeaviateChunkSearch(address, place, dim=DIM, identity=identity),
                place,
            )
        )
        return opened[-1]

    yield make
    for sides in opened:
        await sides.close()
