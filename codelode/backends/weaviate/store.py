"""The write side of the clustered chunk store.

A call of `replace` writes in two steps: first what arrives, then what leaves. When a process dies
in between, both are there; the repeated call finds the same objects leaving and takes them out.
Before each step its objects are noted (`journal`), for the case that the server dies of it.

A file has one writer at a time. Nothing else keeps writers apart, also not when they clear up. So
an index that is there stays its embedder's, with chunks or without: another writer may just be
bringing the first. But only who brings chunks makes one, for until then nobody knows that the
embedder is the one of the vectors to come.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from weaviate import WeaviateClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.query import Filter

from codelode.backends.replacing import require_distinct, require_vectors
from codelode.backends.weaviate import batch, versions
from codelode.backends.weaviate.batch import Objects
from codelode.backends.weaviate.codec import (
    SHOWN,
    Given,
    file_name,
    pack,
    placed,
    text,
    unpack,
    vector_of,
    visible,
)
from codelode.backends.weaviate.connection import Address, connect
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.filters import among, holds
from codelode.backends.weaviate.intent_log import IntentLog
from codelode.backends.weaviate.liveness import LivenessProbe
from codelode.backends.weaviate.replacement import Refs, Stored, plan
from codelode.backends.weaviate.schema import TenantIndex, Version
from codelode.model import ChunkId, FileChunks, RefName, RepositoryName

#: Paths in one condition.
PATHS = 200


@dataclass(frozen=True, slots=True)
class _Writing:
    """What a call writes with."""

    objects: Objects
    journal: IntentLog
    lifeline: LivenessProbe


class WeaviateChunkStore:
    """Implements the port ChunkStore. Threads and processes may write at once, to different files.

    Connects at the first call, so it may be made before a fork. With `beside` it writes to the
    collection of its own version whatever the alias points to: how a new index is built, with the
    `choice` of settings that name its embedder. Raises SchemaMismatch when the index was written by
    another schema or embedder, Superseded when such a one has taken its place since.
    """

    def __init__(
        self,
        address: Address,
        place: TenantIndex,
        *,
        dim: int,
        identity: str,
        beside: bool = False,
        choice: Mapping[str, object] | None = None,
    ) -> None:
        self._address = address
        self._place = place
        self._version = Version(identity, dim)
        self._is_beside = beside
        self._choice = choice
        self._lock = threading.Lock()
        self._pid = 0
        self._client: WeaviateClient | None = None
        self._collection = ""

    def replace(self, files: Sequence[FileChunks]) -> None:
        require_distinct(files)
        require_vectors(files, dim=self._version.dim)
        if not files or not (any(file.chunks for file in files) or self._is_there()):
            return
        names = frozenset(file_name(file.repository, file.path) for file in files)
        with translated(), self._writing() as writing:
            _clear_up(writing, names.__contains__)
            stored = _stored(writing.objects, files)
            change = plan(files, stored)
            reduced = _reduced(writing.objects, change.reduced, dim=self._version.dim)
            arriving = [*change.arriving, *reduced]
            with writing.journal.noting(_by_file((o.file, o.id) for o in arriving)):
                batch.write(writing.objects, map(pack, arriving), check=writing.lifeline.check)
            leaving = (
                (file_name(stored[id].repository, stored[id].path), id) for id in change.leaving
            )
            with writing.journal.noting(_by_file(leaving)):
                batch.delete(writing.objects, change.leaving)

    def remove_repository(self, repository: RepositoryName) -> None:
        if not self._is_there():
            return
        where = holds("repository", repository)
        with translated(), self._writing() as writing:
            _clear_up(writing, lambda file: file.startswith(file_name(repository, "")))
            found = [
                (file_name(repository, placed(object.properties).path), object.uuid)
                for object in batch.every(writing.objects, where, ["facts"])
            ]
            for some in batch.batches(found, batch.PAGE):
                with writing.journal.noting(_by_file(some)):
                    batch.delete(writing.objects, [id for _, id in some])

    def ids(self, repository: RepositoryName, ref: RefName) -> Iterator[ChunkId]:
        if not self._is_there():
            return
        where = Filter.all_of([holds("repository", repository), holds("refs", ref)])
        with translated(), self._writing() as writing:
            found = list(batch.every(writing.objects, where, ["facts"]))
        yield from {placed(object.properties).chunk: None for object in found}

    def maintain(self) -> None:
        """The server keeps its indexes by itself."""

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()

    @contextmanager
    def _writing(self) -> Iterator[_Writing]:
        """The index on a server that answers now: the library's queries would try for a minute."""
        with LivenessProbe(self._address) as lifeline:
            client = self._connected()
            objects = client.collections.use(self._collection).with_tenant(self._place.tenant)
            journal = IntentLog(client, self._place, collection=self._collection)
            quorum = objects.with_consistency_level(ConsistencyLevel.QUORUM)
            yield _Writing(quorum, journal, lifeline)

    def _is_there(self) -> bool:
        """Whether there is an index, of whatever embedder."""
        if self._collection or self._is_beside:
            return True
        with translated(), LivenessProbe(self._address), self._lock:
            client, _ = self._own_client()
            return versions.target(client, self._place) is not None

    def _connected(self) -> WeaviateClient:
        with self._lock:
            client, is_new = self._own_client()
            if self._collection and not self._is_beside:
                versions.require_current(client, self._place, self._collection)
            if is_new or not self._collection:
                self._collection = self._open(client)
            return client

    def _own_client(self) -> tuple[WeaviateClient, bool]:
        """The client of this process, and whether it has only now been connected."""
        is_new = self._client is None or self._pid != os.getpid()
        if is_new:
            self._client, self._pid = connect(self._address), os.getpid()
        return cast("WeaviateClient", self._client), is_new

    def _open(self, client: WeaviateClient) -> str:
        if self._is_beside:
            return versions.create(client, self._place, self._version, choice=self._choice)
        return versions.require(client, self._place, self._version)


def _clear_up(writing: _Writing, writes: Callable[[str], bool]) -> None:
    """Take back what a server that died left half done of such files, and of no others.

    The others may have been written again, or be so at this moment.
    """
    for note in writing.journal.notes(writes):
        files = writing.journal.left(note, writes)
        for file in files:
            batch.delete_singly(writing.objects, note.objects[file])
        writing.journal.tick_off(note, files)


def _by_file(objects: Iterable[tuple[str, UUID]]) -> Mapping[str, Sequence[UUID]]:
    found: defaultdict[str, list[UUID]] = defaultdict(list)
    for file, id in objects:
        found[file].append(id)
    return found


def _reduced(objects: Objects, refs: Mapping[UUID, Refs], *, dim: int) -> Iterator[Given]:
    """What stored objects become under fewer refs."""
    for found in batch.by_ids(objects, refs, SHOWN):
        chunk, vector = unpack(found.properties).chunk, vector_of(found, dim)
        yield Given.of(chunk, vector, refs[found.uuid])


def _stored(objects: Objects, files: Sequence[FileChunks]) -> Mapping[UUID, Stored]:
    """All objects of the files, at any ref."""
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for file in files:
        wanted[text(file.repository)].add(text(file.path))
    found = {}
    for repository, paths in wanted.items():
        for some in batch.batches(sorted(paths), PATHS):
            one_of = among("path", map(visible, some))
            where = Filter.all_of([holds("repository", repository), one_of])
            for object in batch.every(objects, where, ["facts"]):
                at = placed(object.properties)
                if at.path in paths:
                    found[object.uuid] = Stored(repository, *at)
    return found
