"""Record objects before they are written or deleted, to clean up after a server that dies.

A killed Weaviate keeps the writes that it has acknowledged (`batch.write` ensures that). Of the
request in progress it may keep objects that are missing from the keyword or vector index (of 264
objects, 15 were found by vector). Writing these again does not repair them, because storing an
object that exists already has no effect. So the ids of a request's objects are recorded first, in a
separate collection, and the record is deleted when the request is acknowledged. The next writer of
the same files deletes the recorded objects one by one, which needs no index, and writes them again.
Acknowledged writes are lost only in a power failure; then the repositories must be indexed again.

Objects never change in place for the same reason: each recorded object is either new or about to be
deleted, so deleting it is safe in both cases.

Two writers never share a file, but several writers may retry the files of one intent, in any order
and at the same time. So each writer deletes the recorded objects of its own files only and
marks these files as done; from then on the intent does not apply to them, and objects written
again under the same ids are kept. The intent is deleted with its last file, before its marks. This
needs no lock, which a dead writer would keep, and no clock. Intents do not expire: a file is
written again, or its repository is removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4, uuid5

from weaviate import WeaviateClient
from weaviate.classes.config import Configure, ConsistencyLevel, DataType, Property, Tokenization
from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter

from codelode.backends.weaviate import batch
from codelode.backends.weaviate.schema import TenantIndex
from codelode.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Intent:
    """Objects that were being written or deleted, by file."""

    id: UUID
    objects: Mapping[str, tuple[UUID, ...]]

    def mark(self, file: str) -> UUID:
        """Return the id of the mark that says that the file is cleaned up."""
        return uuid5(self.id, file)


class IntentLog:
    """The intents of one tenant of one collection."""

    def __init__(self, client: WeaviateClient, index: TenantIndex, *, collection: str) -> None:
        log = client.collections.use(collection_name(index))
        self._log: Any = log.with_consistency_level(ConsistencyLevel.QUORUM)
        self._of = f"{collection}/{index.tenant}"

    def intents(self, is_own: Callable[[str], bool]) -> list[Intent]:
        """Return the intents with files for which `is_own` is true.

        There is one for each thread that is writing, and one for each that died before all of its
        files were written again.
        """
        where = Filter.by_property("of").equal(self._of)
        found = self._log.query.fetch_objects(filters=where, limit=batch.PAGE).objects
        intents = (_intent(one.uuid, json.loads(one.properties["what"])) for one in found)
        return [intent for intent in intents if any(map(is_own, intent.objects))]

    def pending(self, intent: Intent, is_own: Callable[[str], bool]) -> list[str]:
        """Return the files for which `is_own` is true and that are not cleaned up yet.

        Returns none if the intent was deleted since it was read. Marks are deleted after their
        intent, so the intent is looked up after the marks.
        """
        exists = self._log.data.exists
        files = [f for f in intent.objects if is_own(f) and not exists(intent.mark(f))]
        return files if files and exists(intent.id) else []

    def mark_done(self, intent: Intent, files: Sequence[str]) -> None:
        """Record that no object of these files is left; the last ones delete the intent.

        If a writer dies while it deletes marks, the remaining ones stay and have no effect.
        """
        made = [DataObject({"of": str(intent.id)}, uuid=intent.mark(file)) for file in files]
        if made and batch.insert(self._log, made):
            raise Unavailable("Weaviate did not store what was cleaned up; try again")
        marks = [intent.mark(file) for file in intent.objects]
        if self._all_exist(marks):
            for id in (intent.id, *marks):
                self._log.data.delete_by_id(id)

    @contextmanager
    def recording(self, objects: Mapping[str, Sequence[UUID]]) -> Iterator[None]:
        """Record the objects of each file, and delete the record unless the block raises."""
        if not objects:
            yield
            return
        id = uuid4()
        what = json.dumps({file: list(map(str, ids)) for file, ids in objects.items()})
        self._log.data.insert({"of": self._of, "what": what}, uuid=id)
        yield
        self._log.data.delete_by_id(id)

    def _all_exist(self, ids: Sequence[UUID]) -> bool:
        """Return whether all ids are stored; may miss some that another writer is storing."""
        return all(len(self._existing(some)) == len(some) for some in batch.batches(ids, batch.IDS))

    def _existing(self, ids: Sequence[UUID]) -> Sequence[Any]:
        where = Filter.by_id().contains_any(ids)
        found: Sequence[Any] = self._log.query.fetch_objects(
            filters=where, limit=len(ids), return_properties=[]
        ).objects
        return found


def collection_name(index: TenantIndex) -> str:
    """Return the name of the collection that holds the intents."""
    return f"{index.alias}_journal"


def definition(index: TenantIndex) -> dict[str, Any]:
    """Return the collection of intents as arguments of the library's `create`."""
    what = Property(
        name="what", data_type=DataType.TEXT, index_filterable=False, index_searchable=False
    )
    of = Property(
        name="of",
        data_type=DataType.TEXT,
        tokenization=Tokenization.FIELD,
        index_filterable=True,
        index_searchable=False,
    )
    return {
        "description": "What codelode is writing now.",
        "properties": [of, what],
        "vector_config": Configure.Vectors.self_provided(
            vector_index_config=Configure.VectorIndex.none()
        ),
        "replication_config": Configure.replication(factor=index.replicas),
    }


def _intent(id: UUID, what: Mapping[str, Sequence[str]]) -> Intent:
    return Intent(id, {file: tuple(map(UUID, ids)) for file, ids in what.items()})
