"""What is stored in Weaviate of one organisation, for comparing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from weaviate import WeaviateClient
from weaviate.classes.aggregate import GroupByAggregate
from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn

from codelode.backends.weaviate import batch, versions
from codelode.backends.weaviate.batch import Objects
from codelode.backends.weaviate.codec import placed, visible
from codelode.backends.weaviate.connection import Address, connect
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.filters import among, holds
from codelode.backends.weaviate.schema import TenantIndex
from codelode.model import RefName, RepositoryName

#: More repositories than there are; without a limit the server answers with 100.
_REPOSITORIES = 10_000_000

#: Paths in one condition.
_PATHS = 200


class WeaviateInventory:
    """Implements the port Inventory. Raises Superseded when another collection was published."""

    def __init__(self, address: Address, place: TenantIndex) -> None:
        self._address = address
        self._place = place
        self._client: WeaviateClient | None = None
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
            for where in _conditions(repository, paths) if objects is not None else ():
                for found in batch.every(objects, where, ["facts"]):
                    at = placed(found.properties)
                    counts[at.path].update(at.refs)
        wanted = counts.keys() if paths is None else counts.keys() & set(paths)
        return {path: counts[path] for path in wanted}

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _objects(self) -> Objects | Any:
        """The organisation's part of the published collection; None: there is none yet."""
        if self._client is None:
            self._client = connect(self._address)
        if self._collection is None:
            self._collection = versions.target(self._client, self._place)
        name = self._collection
        if name is None or not versions.has_tenant(self._client, name, self._place):
            return None
        versions.require_current(self._client, self._place, name)
        return self._client.collections.use(name).with_tenant(self._place.tenant)


def _conditions(
    repository: RepositoryName, paths: Collection[str] | None
) -> Iterator[FilterReturn]:
    whole = holds("repository", repository)
    if paths is None:
        yield whole
        return
    for some in batch.batches(sorted(paths), _PATHS):
        yield Filter.all_of([whole, among("path", map(visible, some))])
