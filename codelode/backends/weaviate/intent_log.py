"""What is being written at this moment, so that what a dying server wrote half can be taken back.

A Weaviate that is killed keeps what it acknowledged (`bulk.write` sees to it). Of a request that it
was working on it keeps parts: objects whose words or vectors are in no index (of 264 objects, 15
were found by vector), which it then takes for complete, because storing an object again that is
there already does nothing. So the ids of a request's objects are noted first, in a collection of
their own, and struck out when it is acknowledged. Who comes later to the same files removes noted
objects one by one, which needs no index, and writes them anew. Losing acknowledged writes takes a
power failure; then the repositories have to be indexed again.

Objects never change in place for the same reason: each noted object is either new or on its way
out, and can be removed without asking which.

Writers share no file, but the files of a note may come back to several of them, in any order and at
once. So each removes what was noted of its own files only, ticks these off, and from then on the
note says nothing of them: what was written again under the same ids stays. The note goes with its
last file, before its ticks. That takes no lock, which who died holding it would keep, and no clock.
Notes do not expire: a file comes back, or its repository is removed.
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
class Note:
    """Objects that were being written or removed, by the file they belong to."""

    id: UUID
    objects: Mapping[str, tuple[UUID, ...]]

    def tick(self, file: str) -> UUID:
        """What is stored under this id says that the file is cleared up."""
        return uuid5(self.id, file)


class IntentLog:
    """The notes of one tenant of one collection."""

    def __init__(self, client: WeaviateClient, place: TenantIndex, *, collection: str) -> None:
        notes = client.collections.use(name(place))
        self._notes: Any = notes.with_consistency_level(ConsistencyLevel.QUORUM)
        self._of = f"{collection}/{place.tenant}"

    def notes(self, writes: Callable[[str], bool]) -> list[Note]:
        """Those with files of which `writes` is true.

        There is one for each thread that writes now, and one for each that died and whose files
        have not all come back.
        """
        where = Filter.by_property("of").equal(self._of)
        found = self._notes.query.fetch_objects(filters=where, limit=batch.PAGE).objects
        notes = (_note(one.uuid, json.loads(one.properties["what"])) for one in found)
        return [note for note in notes if any(map(writes, note.objects))]

    def left(self, note: Note, writes: Callable[[str], bool]) -> list[str]:
        """The note's files of which `writes` is true and that nobody has ticked off.

        None of a note that was struck out since it was read: its ticks go after it, so it is looked
        for after them.
        """
        has = self._notes.data.exists
        left = [file for file in note.objects if writes(file) and not has(note.tick(file))]
        return left if left and has(note.id) else []

    def tick_off(self, note: Note, files: Sequence[str]) -> None:
        """Of these files nothing noted is stored any more; with the last ones the note goes.

        The ticks of one who dies while they go stay for good, and mean nothing.
        """
        made = [DataObject({"of": str(note.id)}, uuid=note.tick(file)) for file in files]
        if made and self._notes.data.insert_many(made).errors:
            raise Unavailable("Weaviate did not store what was cleared up; try again")
        ticks = [note.tick(file) for file in note.objects]
        if self._are_there(ticks):
            for id in (note.id, *ticks):
                self._notes.data.delete_by_id(id)

    @contextmanager
    def noting(self, objects: Mapping[str, Sequence[UUID]]) -> Iterator[None]:
        """Note the objects of each file, and strike them out unless the block raises."""
        if not objects:
            yield
            return
        id = uuid4()
        what = json.dumps({file: list(map(str, ids)) for file, ids in objects.items()})
        self._notes.data.insert({"of": self._of, "what": what}, uuid=id)
        yield
        self._notes.data.delete_by_id(id)

    def _are_there(self, ids: Sequence[UUID]) -> bool:
        """Never true too early; who does not see what another writes now leaves it to the next."""
        return all(len(self._among(some)) == len(some) for some in batch.batches(ids, batch.IDS))

    def _among(self, ids: Sequence[UUID]) -> Sequence[Any]:
        where = Filter.by_id().contains_any(ids)
        found: Sequence[Any] = self._notes.query.fetch_objects(
            filters=where, limit=len(ids), return_properties=[]
        ).objects
        return found


def name(place: TenantIndex) -> str:
    """The name of the collection of notes."""
    return f"{place.alias}_journal"


def definition(place: TenantIndex) -> dict[str, Any]:
    """The collection of notes, as arguments of the library's `create`."""
    kept = Property(
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
        "properties": [of, kept],
        "vector_config": Configure.Vectors.self_provided(
            vector_index_config=Configure.VectorIndex.none()
        ),
        "replication_config": Configure.replication(factor=place.replicas),
    }


def _note(id: UUID, what: Mapping[str, Sequence[str]]) -> Note:
    return Note(id, {file: tuple(map(UUID, ids)) for file, ids in what.items()})
