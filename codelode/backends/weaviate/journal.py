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
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from weaviate import WeaviateClient
from weaviate.classes.config import Configure, DataType, Property, Tokenization
from weaviate.classes.query import Filter

from codelode.backends.weaviate.index import Place

#: Notes are a matter of seconds; what was noted longer ago is nobody's work any more.
FORGOTTEN_S = 3_600.0

#: Notes read at once; there is one for each writing process, and one for each that died.
_MOST = 100


@dataclass(frozen=True, slots=True)
class Note:
    """Objects that were being written or removed, and the files they belong to."""

    id: UUID
    since: float
    files: frozenset[str]
    objects: tuple[UUID, ...]

    def is_for(self, writes: Callable[[str], bool]) -> bool:
        """Whether who is about to write such files has to clear it up."""
        return any(map(writes, self.files)) or time.time() - self.since > FORGOTTEN_S


class Journal:
    """The notes of one tenant of one collection."""

    def __init__(self, client: WeaviateClient, place: Place, *, collection: str) -> None:
        self._notes: Any = client.collections.use(name(place))
        self._of = f"{collection}/{place.tenant}"

    def notes(self, writes: Callable[[str], bool]) -> list[Note]:
        """Those for who is about to write files of which `writes` is true."""
        where = Filter.by_property("of").equal(self._of)
        found = self._notes.query.fetch_objects(filters=where, limit=_MOST).objects
        notes = (_note(one.uuid, json.loads(one.properties["what"])) for one in found)
        return [note for note in notes if note.is_for(writes)]

    @contextmanager
    def noting(self, objects: Sequence[UUID], *, files: Iterable[str]) -> Iterator[None]:
        """Note the objects, and strike them out unless the block raises."""
        if not objects:
            yield
            return
        id = uuid4()
        what = {"since": time.time(), "files": sorted(files), "objects": list(map(str, objects))}
        self._notes.data.insert({"of": self._of, "what": json.dumps(what)}, uuid=id)
        yield
        self.strike(id)

    def strike(self, id: UUID) -> None:
        self._notes.data.delete_by_id(id)


def name(place: Place) -> str:
    """The name of the collection of notes."""
    return f"{place.alias}_journal"


def definition(place: Place) -> dict[str, Any]:
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


def _note(id: UUID, what: dict[str, Any]) -> Note:
    return Note(id, what["since"], frozenset(what["files"]), tuple(map(UUID, what["objects"])))
