"""What replacing files means for the stored objects, decided before anything is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from codelode.backends.weaviate.codec import Given, text
from codelode.model import ChunkId, FileChunks, RefName

Refs = frozenset[RefName]


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of a stored object without reading it whole."""

    repository: str
    chunk: ChunkId
    path: str
    refs: Refs


@dataclass(frozen=True, slots=True)
class Change:
    """What one `replace` call writes."""

    arriving: list[Given] = field(default_factory=list)
    reduced: dict[UUID, Refs] = field(default_factory=dict)  # become others, under fewer refs
    leaving: list[UUID] = field(default_factory=list)  # the reduced among them


def plan(files: Sequence[FileChunks], stored: Mapping[UUID, Stored]) -> Change:
    """The change from `stored`, all objects of these files at any ref, to what the files say.

    Refs of a stored object of a chunk that is given now go over to what is made of it now.
    """
    wanted = {object.id: object for object in _wanted(files, stored.values())}
    change = Change(arriving=[object for id, object in wanted.items() if id not in stored])
    renewed = frozenset(object.chunk.id for object in wanted.values())
    refs = {(text(file.repository), text(file.path)): texts(file.refs) for file in files}
    for id, before in stored.items():
        if id in wanted:
            continue
        remaining = before.refs - refs[before.repository, before.path]
        if before.chunk in renewed or remaining != before.refs:
            change.leaving.append(id)
            if remaining and before.chunk not in renewed:
                change.reduced[id] = remaining
    return change


def texts(refs: Iterable[RefName]) -> Refs:
    """The refs as they are stored."""
    return frozenset(RefName(text(ref)) for ref in refs)


def _wanted(files: Sequence[FileChunks], stored: Iterable[Stored]) -> Iterable[Given]:
    refs_before: defaultdict[ChunkId, set[RefName]] = defaultdict(set)
    for before in stored:
        refs_before[before.chunk].update(before.refs)
    for file in files:
        for chunk, vector in zip(file.chunks, file.vectors, strict=True):
            refs = texts(file.refs) | refs_before[chunk.id]
            yield Given.of(chunk, vector, refs)
