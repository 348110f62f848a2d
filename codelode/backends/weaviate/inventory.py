"""Count what is stored in Weaviate for one organisation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from weaviate.classes.aggregate import GroupByAggregate
from weaviate.classes.query import Filter, FilterReturn

from codelode.backends.chunk_stores import chunk_vector
from codelode.backends.weaviate import batch, versions
from codelode.backends.weaviate.batch import Objects
from codelode.backends.weaviate.codec import decode, decode_identity
from codelode.backends.weaviate.connection import Address, LazyClient
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.filters import equals, in_paths, one_of
from codelode.backends.weaviate.schema import VECTOR, TenantIndex
from codelode.chunk_map import ChunkVector
from codelode.covers import Grouped
from codelode.model import RefName, RepositoryName

#: The first digits of chunk ids. Of 1,000,000 chunks, a request for such ids reads 4,000 vectors.
_PREFIXES = tuple(f"{number:02x}" for number in range(256))

#: A limit above any number of repositories; by default the server returns 100.
_REPOSITORIES = 10_000_000


class WeaviateInventory:
    """Implements the port Inventory. Raises Superseded when another collection was published."""

    def __init__(self, address: Address, index: TenantIndex) -> None:
        self._index = index
        self._client = LazyClient(address)
        self._collection: str | None = None

    def repositories(self) -> frozenset[RepositoryName]:
        with translated():
            objects = self._objects()
            if objects is None:
                return frozenset()
            by = GroupByAggregate(prop="repository", limit=_REPOSITORIES)
            groups = objects.aggregate.over_all(group_by=by).groups
            return frozenset(RepositoryName(str(one.grouped_by.value)) for one in groups)

    def counts(
        self, repository: RepositoryName, paths: Collection[str] | None = None
    ) -> Mapping[str, Mapping[RefName, int]]:
        counts: defaultdict[str, Counter[RefName]] = defaultdict(Counter)
        with translated():
            objects = self._objects()
            if objects is None:
                return {}
            for where in _conditions(repository, paths):
                for found in batch.every(objects, where, ["facts"]):
                    stored = decode_identity(found.properties)
                    counts[stored.path].update(stored.refs)
        wanted = counts.keys() if paths is None else counts.keys() & set(paths)
        return {path: counts[path] for path in wanted}

    def vectors(
        self, repositories: Sequence[RepositoryName], ref: RefName, *, most: int
    ) -> Iterator[ChunkVector]:
        with translated():
            objects = self._objects()
            if objects is None:
                return
            found: list[ChunkVector] = []
            for prefix in _PREFIXES:
                if len(found) >= most:
                    break
                found += _with_vectors(objects, repositories, ref, prefix)
        yield from sorted(found, key=lambda one: one.id)[:most]

    def has_others(self, repository: RepositoryName, grouped: Grouped) -> bool:
        stored = Filter.by_property("prefixes")
        wrong = [stored.contains_none([group]) for group in grouped.written]
        if gone := [*{*grouped.possible} - {*grouped.written}]:
            wrong.append(stored.contains_any(gone))
        with translated():
            objects = self._objects()
            if objects is None or not wrong:
                return False
            where = equals("repository", repository) & Filter.any_of(wrong)
            return bool(objects.query.fetch_objects(filters=where, limit=1).objects)

    def sizes(self) -> Mapping[str, int] | None:
        """Return None: Weaviate 1.3x counts the objects of a shard in its API, but no bytes."""
        return None

    def close(self) -> None:
        self._client.close()

    def _objects(self) -> Objects | None:
        """Return the organisation's part of the published collection; None: there is none yet."""
        client = self._client()
        if self._collection is None:
            self._collection = versions.target(client, self._index)
        name = self._collection
        if name is None or not versions.has_tenant(client, name, self._index):
            return None
        versions.require_current(client, self._index, name)
        return client.collections.use(name).with_tenant(self._index.tenant)


def _with_vectors(
    objects: Objects, repositories: Sequence[RepositoryName], ref: RefName, prefix: str
) -> Iterator[ChunkVector]:
    """Yield the chunks whose ids begin with the prefix."""
    inside = equals("refs", ref) & one_of("repository", repositories)
    for one in batch.every(objects, inside, ["facts"], prefix=prefix, with_vectors=True):
        if vector := one.vector.get(VECTOR):
            chunk = decode({**one.properties, "content": ""}).chunk
            yield chunk_vector(chunk, np.array(vector, np.float32))


def _conditions(
    repository: RepositoryName, paths: Collection[str] | None
) -> Iterator[FilterReturn]:
    if paths is None:
        yield equals("repository", repository)
        return
    for some in batch.batches(sorted(paths), batch.PATHS):
        yield in_paths(repository, some)
