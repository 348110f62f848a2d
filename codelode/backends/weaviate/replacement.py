"""Plan which objects a replacement of files writes and deletes, before anything is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from codelode.backends.chunk_stores import by_first
from codelode.backends.weaviate.codec import NewObject, StoredChunk, grams_text, text
from codelode.file_text import file_text
from codelode.model import ChunkId, FileChunks, RefName

Refs = frozenset[RefName]


@dataclass(frozen=True, slots=True)
class Change:
    """The writes and deletions of one `replace` call."""

    added: list[NewObject] = field(default_factory=list)
    #: Stored objects that lose refs; each is rewritten as another object under the refs given here.
    reduced: dict[UUID, Refs] = field(default_factory=dict)
    deleted: list[UUID] = field(default_factory=list)  # includes the reduced ones


def plan(files: Sequence[FileChunks], stored: Mapping[UUID, StoredChunk]) -> Change:
    """Return the change that turns `stored`, the objects of these files at all refs, into them.

    A new object of a stored chunk takes over the refs of the stored one.
    """
    wanted = {new.id: new for new in _wanted(files, stored.values())}
    change = Change(added=[new for id, new in wanted.items() if id not in stored])
    rewritten = frozenset(new.chunk.id for new in wanted.values())
    refs = {(text(file.repository), text(file.path)): _stored_refs(file.refs) for file in files}
    for id, before in stored.items():
        if id in wanted:
            continue
        remaining = before.refs - refs[before.repository, before.path]
        if before.chunk in rewritten or remaining != before.refs:
            change.deleted.append(id)
            if remaining and before.chunk not in rewritten:
                change.reduced[id] = remaining
    return change


def _stored_refs(refs: Iterable[RefName]) -> Refs:
    return frozenset(RefName(text(ref)) for ref in refs)


def _wanted(files: Sequence[FileChunks], stored: Iterable[StoredChunk]) -> Iterable[NewObject]:
    refs_before: defaultdict[ChunkId, set[RefName]] = defaultdict(set)
    for before in stored:
        refs_before[before.chunk].update(before.refs)
    texts = {id: file_text(chunks) for id, chunks in by_first(files).items()}
    for file in files:
        for chunk, vector in zip(file.chunks, file.vectors, strict=True):
            refs = _stored_refs(file.refs) | refs_before[chunk.id]
            has_grams = chunk.id in texts
            grams = partial(grams_text, texts[chunk.id]) if has_grams else str
            yield NewObject.of(chunk, vector, refs, grams, groups=file.groups)
