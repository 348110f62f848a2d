"""The write side of the clustered chunk store.

A call of `replace` writes in two steps: it adds the new objects, then deletes the old ones. When a
process dies in between, both are there; the repeated call plans the same deletions and makes them.
The objects of each step are recorded in the intent log first, in case the server dies.

A file has one writer at a time; there is no other lock between writers, not even during cleanup. An
existing index therefore stays bound to its embedder even while it is empty: another writer may be
adding the first chunks. Only a writer that has chunks creates an index, because before that the
embedder of the vectors is not certain.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from weaviate import WeaviateClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.query import Filter

from codelode.backends.chunk_stores import require_distinct, require_vectors
from codelode.backends.weaviate import batch, versions
from codelode.backends.weaviate.batch import Objects
from codelode.backends.weaviate.codec import (
    DISPLAYED,
    NewObject,
    StoredChunk,
    decode,
    decode_identity,
    encode,
    file_name,
    groups_in,
    text,
    vector_of,
)
from codelode.backends.weaviate.connection import Address, LazyClient
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.filters import equals, in_paths
from codelode.backends.weaviate.intent_log import IntentLog
from codelode.backends.weaviate.liveness import LivenessProbe
from codelode.backends.weaviate.replacement import Refs, plan
from codelode.backends.weaviate.schema import TenantIndex, Version
from codelode.model import ChunkId, FileChunks, RefName, RepositoryName


@dataclass(frozen=True, slots=True)
class _Writing:
    """The objects that a write call uses."""

    objects: Objects
    intents: IntentLog
    liveness: LivenessProbe


class WeaviateChunkStore:
    """Implements the port ChunkStore. Threads and processes may write at once, to different files.

    Connects at the first call, so it may be created before a fork. With `is_shadow` it writes to
    the collection of its own version wherever the alias points: a shadow index is built like this,
    with the `choice` of settings that select its embedder. Raises SchemaMismatch when the index was
    written with another schema or embedder, and Superseded when another index has replaced it.
    """

    def __init__(
        self,
        address: Address,
        index: TenantIndex,
        *,
        dim: int,
        identity: str,
        is_shadow: bool = False,
        choice: Mapping[str, object] | None = None,
    ) -> None:
        self._address = address
        self._index = index
        self._version = Version(identity, dim)
        self._is_shadow = is_shadow
        self._choice = choice
        self._lock = threading.Lock()
        self._client = LazyClient(address)
        self._opened_by: WeaviateClient | None = None
        self._collection = ""

    def replace(self, files: Sequence[FileChunks]) -> None:
        require_distinct(files)
        require_vectors(files, dim=self._version.dim)
        if not files or not (any(file.chunks for file in files) or self._exists()):
            return
        own = frozenset(file_name(file.repository, file.path) for file in files)
        with translated(), self._writing() as writing:
            _clean_up(writing, own.__contains__)
            stored = _stored(writing.objects, files)
            change = plan(files, stored)
            reduced = _reduced(writing.objects, change.reduced, dim=self._version.dim)
            added = [*change.added, *reduced]
            with writing.intents.recording(_by_file((new.file, new.id) for new in added)):
                batch.write(writing.objects, map(encode, added), check=writing.liveness.check)
            deleted = (
                (file_name(stored[id].repository, stored[id].path), id) for id in change.deleted
            )
            with writing.intents.recording(_by_file(deleted)):
                batch.delete(writing.objects, change.deleted)

    def remove_repository(self, repository: RepositoryName) -> None:
        if not self._exists():
            return
        where = equals("repository", repository)
        with translated(), self._writing() as writing:
            _clean_up(writing, lambda file: file.startswith(file_name(repository, "")))
            found = [
                (file_name(repository, decode_identity(object.properties).path), object.uuid)
                for object in batch.every(writing.objects, where, ["facts"])
            ]
            for some in batch.batches(found, batch.PAGE):
                with writing.intents.recording(_by_file(some)):
                    batch.delete(writing.objects, [id for _, id in some])

    def ids(self, repository: RepositoryName, ref: RefName) -> Iterator[ChunkId]:
        if not self._exists():
            return
        where = Filter.all_of([equals("repository", repository), equals("refs", ref)])
        with translated(), self._writing() as writing:
            found = list(batch.every(writing.objects, where, ["facts"]))
        yield from {decode_identity(object.properties).chunk: None for object in found}

    def maintain(self) -> None:
        """Do nothing: the server maintains its indexes."""

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _writing(self) -> Iterator[_Writing]:
        """Open the index after the server has answered: queries would be retried for a minute."""
        with LivenessProbe(self._address) as liveness:
            client = self._connected()
            objects = client.collections.use(self._collection).with_tenant(self._index.tenant)
            intents = IntentLog(client, self._index, collection=self._collection)
            quorum = objects.with_consistency_level(ConsistencyLevel.QUORUM)
            yield _Writing(quorum, intents, liveness)

    def _exists(self) -> bool:
        """Return whether there is an index, of any embedder."""
        if self._collection or self._is_shadow:
            return True
        with translated(), LivenessProbe(self._address), self._lock:
            return versions.target(self._client(), self._index) is not None

    def _connected(self) -> WeaviateClient:
        with self._lock:
            client = self._client()
            if self._collection and not self._is_shadow:
                versions.require_current(client, self._index, self._collection)
            if self._opened_by is not client:
                self._collection, self._opened_by = self._open(client), client
            return client

    def _open(self, client: WeaviateClient) -> str:
        if self._is_shadow:
            return versions.create(client, self._index, self._version, choice=self._choice)
        return versions.require(client, self._index, self._version)


def _clean_up(writing: _Writing, is_own: Callable[[str], bool]) -> None:
    """Delete objects of own files that a dead server may have stored incompletely.

    Leaves other files alone: another writer may have written them again.
    """
    for intent in writing.intents.intents(is_own):
        files = writing.intents.pending(intent, is_own)
        for file in files:
            batch.delete_singly(writing.objects, intent.objects[file])
        writing.intents.mark_done(intent, files)


def _by_file(objects: Iterable[tuple[str, UUID]]) -> Mapping[str, Sequence[UUID]]:
    found: defaultdict[str, list[UUID]] = defaultdict(list)
    for file, id in objects:
        found[file].append(id)
    return found


def _reduced(objects: Objects, refs: Mapping[UUID, Refs], *, dim: int) -> Iterator[NewObject]:
    """Yield the objects that replace stored ones which lose refs."""
    for found in batch.by_ids(objects, refs, [*DISPLAYED, "grams", "prefixes"]):
        chunk, vector = decode(found.properties).chunk, vector_of(found, dim)
        grams, groups = found.properties["grams"] or "", groups_in(found.properties)
        yield NewObject.of(chunk, vector, refs[found.uuid], partial(str, grams), groups=groups)


def _stored(objects: Objects, files: Sequence[FileChunks]) -> Mapping[UUID, StoredChunk]:
    """Return all objects of the files, at any ref."""
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for file in files:
        wanted[text(file.repository)].add(text(file.path))
    found = {}
    for repository, paths in wanted.items():
        for some in batch.batches(sorted(paths), batch.PATHS):
            for object in batch.every(objects, in_paths(repository, some), ["facts"]):
                stored = decode_identity(object.properties)
                # The server trims values, so its comparison is less strict.
                if stored.repository == repository and stored.path in paths:
                    found[object.uuid] = stored
    return found
