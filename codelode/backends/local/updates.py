"""Update the tables within a transaction. Each function takes the state and returns the next."""

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
    """Return all chunks of these files, at any ref."""
    known = _numbers(connection, ((file.repository, file.path) for file in files))
    if not known:
        return {}
    places = {number: place for place, number in known.items()}
    return {
        ChunkId(id.hex()): Stored(row, *places[file], frozenset(tables.refs_from(refs)), digest)
        for row, file, id, refs, digest in connection.execute(_STORED, (_json(places),))
    }


def apply(connection: sqlite3.Connection, state: State, change: Change) -> State:
    state = _insert(connection, state, change) if change.chunks else state
    return _delete(connection, _change_refs(connection, state, change.refs), change.deleted)


def remove_repository(
    connection: sqlite3.Connection, state: State, repository: RepositoryName
) -> State:
    found = connection.execute(_ROWS_OF, (tables.text(repository),))
    return _delete(connection, state, [row for (row,) in found])


def unfolded(connection: sqlite3.Connection, state: State) -> list[int]:
    """Return deleted rows that are still in the keyword index."""
    return [row for (row,) in connection.execute(_UNFOLDED, (state.folded,))]


def drop_changes(connection: sqlite3.Connection, state: State, first: int) -> State:
    """Drop the changes before `first` from the log."""
    connection.execute("DELETE FROM changes WHERE seq < ?", (first,))
    return replace(state, first_change=first)


def _numbers(connection: sqlite3.Connection, places: Iterable[FileKey]) -> dict[FileKey, int]:
    """Return the numbers of the files that are stored."""
    paths: dict[RepositoryName, dict[str, str]] = {}
    for repository, path in places:
        paths.setdefault(repository, {})[tables.text(path)] = path
    return {
        (repository, named[path]): number
        for repository, named in paths.items()
        for number, path in connection.execute(_FILES, (tables.text(repository), _json(named)))
    }


def _insert(connection: sqlite3.Connection, state: State, change: Change) -> State:
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
    """Return the numbers of the chunks' files; new files are stored."""
    places = dict.fromkeys((chunk.repository, chunk.path) for chunk in chunks)
    known = _numbers(connection, places)
    new = dict(zip((p for p in places if p not in known), count(state.next_file)))
    connection.executemany(
        "INSERT INTO files VALUES (?, ?, ?)",
        [(number, *map(tables.text, place)) for place, number in new.items()],
    )
    return replace(state, next_file=state.next_file + len(new)), known | new


def _change_refs(
    connection: sqlite3.Connection, state: State, changed: Mapping[int, Iterable[RefName]]
) -> State:
    connection.executemany(
        "UPDATE chunks SET refs = ? WHERE row = ?",
        [(tables.refs_text(refs), row) for row, refs in changed.items()],
    )
    return _log(connection, state, list(changed), is_gone=False)


def _delete(connection: sqlite3.Connection, state: State, rows: Sequence[int]) -> State:
    if not rows:
        return state
    files = [file for (file,) in connection.execute(_FILES_OF, (_json(rows),))]
    tables.delete(connection, rows)
    connection.execute(_DROP_EMPTY, (_json(files),))
    return _log(connection, state, rows, is_gone=True)


def _log(
    connection: sqlite3.Connection, state: State, changed: Sequence[int], *, is_gone: bool
) -> State:
    connection.executemany(
        "INSERT INTO changes VALUES (?, ?, ?)",
        [(seq, row, is_gone) for seq, row in enumerate(changed, state.last_change + 1)],
    )
    return replace(state, last_change=state.last_change + len(changed))


def _json(values: Iterable[int | str]) -> str:
    """Encode a list for `json_each`, so that a statement does not depend on its length."""
    return json.dumps(list(values))
