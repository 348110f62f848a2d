"""What a transaction does to the tables. Each takes the state and returns the next one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from codelode.backends.local import tables
from codelode.backends.local.database import State
from codelode.backends.local.replacement import Change, Stored
from codelode.model import Chunk, ChunkId, FileChunks, FileKey, RefName, RepositoryName

_FILES = (
    "SELECT file, path FROM files WHERE repository = ? AND path IN (SELECT value FROM json_each(?))"
)
_STORED = (
    "SELECT row, file, id, refs, digest FROM chunks JOIN texts USING (row) "
    "WHERE file IN (SELECT value FROM json_each(?))"
)
_ROWS_OF = "SELECT row FROM files JOIN chunks USING (file) WHERE repository = ?"
_FILES_OF = "SELECT DISTINCT file FROM chunks WHERE row IN (SELECT value FROM json_each(?))"
_DROP_EMPTY = (
    "DELETE FROM files WHERE file IN (SELECT value FROM json_each(?)) "
    "AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.file = files.file)"
)
_UNFOLDED = "SELECT row FROM changes WHERE seq > ? AND is_gone"


def stored(connection: sqlite3.Connection, files: Sequence[FileChunks]) -> dict[ChunkId, Stored]:
    """All chunks of these files, at any ref."""
    known = _numbers(connection, ((file.repository, file.path) for file in files))
    if not known:
        return {}
    places = {number: place for place, number in known.items()}
    return {
        ChunkId(id.hex()): Stored(row, *places[file], frozenset(tables.refs_from(refs)), digest)
        for row, file, id, refs, digest in connection.execute(_STORED, (_json(places),))
    }


def apply(connection: sqlite3.Connection, state: State, change: Change) -> State:
    state = _bring_in(connection, state, change) if change.chunks else state
    return _take_out(connection, _move(connection, state, change.moved), change.leaving)


def remove_repository(
    connection: sqlite3.Connection, state: State, repository: RepositoryName
) -> State:
    found = connection.execute(_ROWS_OF, (tables.text(repository),))
    return _take_out(connection, state, [row for (row,) in found])


def unfolded(connection: sqlite3.Connection, state: State) -> list[int]:
    """Rows that left and are in the keyword index still."""
    return [row for (row,) in connection.execute(_UNFOLDED, (state.folded,))]


def drop_changes(connection: sqlite3.Connection, state: State, first: int) -> State:
    """Forget the changes before the first that is to stay."""
    connection.execute("DELETE FROM changes WHERE seq < ?", (first,))
    return replace(state, first_change=first)


def _numbers(connection: sqlite3.Connection, places: Iterable[FileKey]) -> dict[FileKey, int]:
    """The numbers of those of the files that are stored."""
    paths: dict[RepositoryName, dict[str, str]] = {}
    for repository, path in places:
        paths.setdefault(repository, {})[tables.text(path)] = path
    return {
        (repository, named[path]): number
        for repository, named in paths.items()
        for number, path in connection.execute(_FILES, (tables.text(repository), _json(named)))
    }


def _bring_in(connection: sqlite3.Connection, state: State, change: Change) -> State:
    state, numbers = _numbered(connection, state, change.chunks)
    after = state.next_row + len(change.chunks)
    tables.insert(
        connection,
        numbers=range(state.next_row, after),
        files=[numbers[chunk.repository, chunk.path] for chunk in change.chunks],
        chunks=change.chunks,
        vectors=np.stack(change.vectors),
        digests=change.digests,
    )
    return replace(state, next_row=after)


def _numbered(
    connection: sqlite3.Connection, state: State, chunks: Sequence[Chunk]
) -> tuple[State, dict[FileKey, int]]:
    """The numbers of the chunks' files; new ones are stored."""
    places = dict.fromkeys((chunk.repository, chunk.path) for chunk in chunks)
    known = _numbers(connection, places)
    new = dict(zip((p for p in places if p not in known), count(state.next_file)))
    connection.executemany(
        "INSERT INTO files VALUES (?, ?, ?)",
        [(number, *map(tables.text, place)) for place, number in new.items()],
    )
    return replace(state, next_file=state.next_file + len(new)), known | new


def _move(
    connection: sqlite3.Connection, state: State, moved: Mapping[int, Iterable[RefName]]
) -> State:
    connection.executemany(
        "UPDATE chunks SET refs = ? WHERE row = ?",
        [(tables.refs_text(refs), row) for row, refs in moved.items()],
    )
    return _log(connection, state, list(moved), is_gone=False)


def _take_out(connection: sqlite3.Connection, state: State, leaving: Sequence[int]) -> State:
    if not leaving:
        return state
    files = [file for (file,) in connection.execute(_FILES_OF, (_json(leaving),))]
    tables.delete(connection, leaving)
    connection.execute(_DROP_EMPTY, (_json(files),))
    return _log(connection, state, leaving, is_gone=True)


def _log(
    connection: sqlite3.Connection, state: State, changed: Sequence[int], *, is_gone: bool
) -> State:
    connection.executemany(
        "INSERT INTO changes VALUES (?, ?, ?)",
        [(seq, row, is_gone) for seq, row in enumerate(changed, state.last_change + 1)],
    )
    return replace(state, last_change=state.last_change + len(changed))


def _json(values: Iterable[int | str]) -> str:
    """For `json_each`: the statement is the same whatever the number of values."""
    return json.dumps(list(values))
