"""Chunks as rows of the tables, and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from codelode.model import (
    Category,
    Chunk,
    ChunkId,
    FileKey,
    Kind,
    RefName,
    RepositoryName,
    Vector,
    Vectors,
)
from codelode.names import names_of

_CATEGORIES = {category.value: category for category in Category}
_KINDS = {kind.value: kind for kind in Kind}


def insert(
    connection: sqlite3.Connection,
    *,
    numbers: Sequence[int],
    files: Sequence[int],
    chunks: Sequence[Chunk],
    vectors: Vectors,
    digests: Sequence[bytes],
) -> None:
    """Store the chunks; of each argument one item a chunk."""
    small, half = _blobs(quantised(vectors)), _blobs(vectors.astype("<f2"))
    connection.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        starmap(_columns, zip(numbers, files, chunks, small, strict=True)),
    )
    connection.executemany(
        f"INSERT INTO texts VALUES ({', '.join('?' * 16)})",
        starmap(_texts, zip(numbers, digests, chunks, half, strict=True)),
    )


def _columns(row: int, file: int, of: Chunk, vector: bytes) -> tuple[object, ...]:
    """What readers hold of every chunk."""
    names, language = _names(of), text(of.language)
    return row, file, refs_text(of.refs), language, of.category, _kind(of), names, vector


def _texts(row: int, digest: bytes, of: Chunk, vector: bytes) -> tuple[object, ...]:
    """What is read of those that a search finds."""
    return (
        row,
        bytes.fromhex(of.id),
        digest,
        text(of.symbol),
        "".join(f"{text(name)}\n" for name in of.symbols),
        text(of.header),
        of.start_line,
        of.end_line,
        *map(text, names_of(of.symbol, of.symbols)),
        text(of.summary),
        vector,
        text(of.overlap),
        text(of.file_summary),
        text(of.content),
    )


def delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    parameters = [(row,) for row in numbers]
    connection.executemany("DELETE FROM chunks WHERE row = ?", parameters)
    connection.executemany("DELETE FROM texts WHERE row = ?", parameters)


class Text(NamedTuple):
    """What is shown of a row, as stored."""

    row: int
    id: bytes
    symbol: str
    symbols: str  # one a line
    header: str
    start_line: int
    end_line: int
    spelling: str  # this and the next two are `Names`
    defined: str
    terms: str
    summary: str
    vector: bytes  # 16 bits a number
    overlap: str
    file_summary: str
    content: str


#: Lists go to SQLite as one JSON value, so that the statement is the same whatever their length.
_TEXTS = (
    "SELECT row, id, symbol, symbols, header, start_line, end_line, spelling, defined, terms, "
    "summary, vector, overlap, file_summary, content "
    "FROM texts WHERE row IN (SELECT value FROM json_each(?))"
)

_ROWS_OF_FILES = (
    "SELECT row, refs FROM json_each(?) CROSS JOIN files CROSS JOIN chunks USING (file) "
    "WHERE repository = json_extract(value, '$[0]') AND files.path = json_extract(value, '$[1]')"
)

_IDS = (
    "SELECT id, refs FROM files JOIN chunks USING (file) JOIN texts USING (row) "
    "WHERE repository = ?"
)

_PLACES = (
    "SELECT row, repository, path, refs, language, category, kind FROM chunks "
    "JOIN files USING (file) WHERE row IN (SELECT value FROM json_each(?))"
)


def of_files(connection: sqlite3.Connection, places: Sequence[FileKey], ref: RefName) -> list[int]:
    """The rows of the files at the ref, ascending."""
    found = connection.execute(_ROWS_OF_FILES, (json.dumps(places),))
    return sorted(row for row, refs in found if ref in refs_from(refs))


def ids(connection: sqlite3.Connection, repository: RepositoryName, ref: RefName) -> list[ChunkId]:
    """The ids of the repository's chunks at the ref."""
    found = connection.execute(_IDS, (text(repository),))
    return [ChunkId(id.hex()) for id, refs in found if ref in refs_from(refs)]


def texts(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[Text]:
    """The shown part of those of the rows that are stored."""
    return list(map(Text._make, connection.execute(_TEXTS, (json.dumps(numbers),))))


def chunks(connection: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
    """Those of the rows that are stored, whole."""
    shown = {text.row: text for text in texts(connection, numbers)}
    for row, *place in connection.execute(_PLACES, (json.dumps(numbers),)):
        yield row, chunk(shown[row], *place)


def chunk(
    text: Text, repository: str, path: str, refs: str, language: str, category: str, kind: str
) -> Chunk:
    """The chunk of a row, from what is shown of it and where it stands, all as stored."""
    name, _, block_type = kind.partition(" ")
    # By position: with names it takes half as long again, 200 times a search.
    return Chunk(
        ChunkId(text.id.hex()),
        RepositoryName(repository),
        path,
        refs_from(refs),
        language,
        _CATEGORIES[category],
        _KINDS[name],
        text.symbol,
        tuple(text.symbols.split("\n")[:-1]),
        text.header,
        text.start_line,
        text.end_line,
        text.content,
        text.summary,
        block_type,
        text.overlap,
        text.file_summary,
    )


def has_kind(pattern: str) -> Callable[[str], bool]:
    """Whether a stored kind is `block`, or with a space in front (` resource`) its block type."""
    if pattern.startswith(" "):
        return lambda stored: stored.partition(" ")[2] == pattern[1:]
    return lambda stored: stored.partition(" ")[0] == pattern


def digest(chunk: Chunk, vector: Vector) -> bytes:
    """64 bits of everything that is stored of the chunk, refs apart: equal means nothing to do."""
    stored = (
        chunk.language,
        chunk.category.value,
        _kind(chunk),
        chunk.symbol,
        chunk.symbols,
        chunk.header,
        chunk.start_line,
        chunk.end_line,
        chunk.summary,
        chunk.overlap,
        chunk.file_summary,
        chunk.content,
    )
    made = blake2b(repr(stored).encode("utf-8", "surrogatepass"), digest_size=8)
    made.update(vector.tobytes())
    return made.digest()


def quantised(vectors: Vectors) -> npt.NDArray[np.int8]:
    """Each row scaled to the whole range of 8 bits; the scale cancels in a cosine."""
    if not vectors.size:
        return np.zeros(vectors.shape, np.int8)
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    return np.rint(vectors * (127 / np.where(largest > 0, largest, 1))).astype(np.int8)


def refs_text(refs: Iterable[RefName]) -> str:
    return json.dumps([text(ref) for ref in sorted(refs)], ensure_ascii=False)


@lru_cache(maxsize=4_096)
def refs_from(stored: str) -> tuple[RefName, ...]:
    return tuple(map(RefName, json.loads(stored)))


def text(value: str) -> str:
    """Lone surrogates, which UTF-8 cannot carry, become `?`."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _kind(chunk: Chunk) -> str:
    """`function`, and for blocks with their type: `block resource`."""
    return text(f"{chunk.kind.value} {chunk.block_type}".rstrip())


def _names(chunk: Chunk) -> str:
    """Every name the chunk defines, one a line, for the symbol filter."""
    return "\n".join(text(name) for name in dict.fromkeys((chunk.symbol, *chunk.symbols)) if name)


def _blobs(matrix: npt.NDArray[Any]) -> list[bytes]:
    return [row.tobytes() for row in matrix]
