"""Store chunks as rows of the tables, and read them."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from codelode.file_text import in_file_order
from codelode.model import (
    Category,
    Chunk,
    ChunkId,
    FileKey,
    Kind,
    RefName,
    RepositoryName,
)
from codelode.names import names_of
from codelode.vectors import Vector, Vectors

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
    """Store the chunks; every argument has one item per chunk."""
    small, half = _blobs(quantised(vectors)), _blobs(vectors.astype("<f2"))
    connection.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        starmap(_columns, zip(numbers, files, chunks, small, strict=True)),
    )
    connection.executemany(
        f"INSERT INTO texts VALUES ({', '.join('?' * 18)})",
        starmap(_texts, zip(numbers, digests, chunks, half, strict=True)),
    )


def _columns(row: int, file: int, of: Chunk, vector: bytes) -> tuple[object, ...]:
    """Return the row with the columns that readers hold of every chunk."""
    names, language = _names(of), text(of.language)
    return row, file, refs_text(of.refs), language, of.category, _kind(of), names, vector


def _texts(row: int, digest: bytes, of: Chunk, vector: bytes) -> tuple[object, ...]:
    """Return the row with the texts that are read for the results of a search."""
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
        text(of.definitions),
        of.part,
        text(of.content),
    )


def delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    parameters = [(row,) for row in numbers]
    connection.executemany("DELETE FROM chunks WHERE row = ?", parameters)
    connection.executemany("DELETE FROM texts WHERE row = ?", parameters)


class Text(NamedTuple):
    """The displayed part of a row, as stored."""

    row: int
    id: bytes
    symbol: str
    symbols: str  # one per line
    header: str
    start_line: int
    end_line: int
    spelling: str  # this and the next two are `Names`
    defined: str
    terms: str
    summary: str
    vector: bytes  # 16 bits per number
    overlap: str
    file_summary: str
    definitions: str
    part: int
    content: str


#: Lists are passed to SQLite as one JSON value, so that a statement does not depend on the length.
_TEXTS = (
    "SELECT row, id, symbol, symbols, header, start_line, end_line, spelling, defined, terms, "
    "summary, vector, overlap, file_summary, definitions, part, content "
    "FROM texts WHERE row IN (SELECT value FROM json_each(?))"
)

_ROWS_OF_FILES = (
    "SELECT row, refs FROM json_each(?) CROSS JOIN files CROSS JOIN chunks USING (file) "
    "WHERE repository = json_extract(value, '$[0]') AND files.path = json_extract(value, '$[1]')"
)

#: Reads `chunks` through its index alone, which takes two thirds of the time of reading its rows.
_PIECES_OF_FILES = (
    "SELECT row, part, start_line, end_line, CAST(content AS BLOB) FROM json_each(?) "
    "CROSS JOIN files CROSS JOIN chunks USING (file) CROSS JOIN texts USING (row) "
    "WHERE repository = json_extract(value, '$[0]') AND files.path = json_extract(value, '$[1]')"
)

_PIECES = (
    "SELECT row, part, start_line, end_line, CAST(content AS BLOB) "
    "FROM json_each(?) CROSS JOIN texts ON row = value"
)

_ROWS_BESIDE = (
    "SELECT row, file, refs FROM chunks WHERE file IN "
    "(SELECT file FROM chunks WHERE row IN (SELECT value FROM json_each(?)))"
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
    """Return the rows of the files at the ref, ascending."""
    found = connection.execute(_ROWS_OF_FILES, (json.dumps(places),))
    return sorted(row for row, refs in found if ref in refs_from(refs))


#: The text of a chunk and its place in its file: row, part, first and last line, and content. Not a
#: class, because a search reads thousands.
Piece: TypeAlias = tuple[int, int, int, int, bytes]


def pieces_of_files(connection: sqlite3.Connection, places: Sequence[FileKey]) -> list[Piece]:
    """Return the pieces of the files at all refs; unknown files have none."""
    return connection.execute(_PIECES_OF_FILES, (json.dumps(places),)).fetchall()


def pieces(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[Piece]:
    """Return the pieces of the rows; unknown rows are left out."""
    return connection.execute(_PIECES, (json.dumps(numbers),)).fetchall()


def by_first(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Sequence[Chunk]]:
    """Return the chunks of the file, in file order, of each row that is the first of its file.

    Other rows are left out. All refs of a first chunk have the same text, because its id depends
    on the text.
    """
    of_file: defaultdict[int, list[int]] = defaultdict(list)
    refs: dict[int, tuple[RefName, ...]] = {}
    for row, file, stored in connection.execute(_ROWS_BESIDE, (json.dumps(numbers),)):
        of_file[file].append(row)
        refs[row] = refs_from(stored)
    asked: set[int] = set(numbers)
    found: dict[int, Sequence[Chunk]] = {}
    for rows in of_file.values():
        held = dict(chunks(connection, rows))
        for row in asked.intersection(rows):
            beside = [held[one] for one in rows if refs[row][0] in refs[one]]
            beside.sort(key=in_file_order)
            if beside[0].id == held[row].id:
                found[row] = beside
    return found


def ids(connection: sqlite3.Connection, repository: RepositoryName, ref: RefName) -> list[ChunkId]:
    """Return the ids of the repository's chunks at the ref."""
    found = connection.execute(_IDS, (text(repository),))
    return [ChunkId(id.hex()) for id, refs in found if ref in refs_from(refs)]


def texts(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[Text]:
    """Return the displayed part of the rows; unknown rows are left out."""
    return list(map(Text._make, connection.execute(_TEXTS, (json.dumps(numbers),))))


def chunks(connection: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
    """Yield the chunks of the rows; unknown rows are left out."""
    shown = {text.row: text for text in texts(connection, numbers)}
    for row, *place in connection.execute(_PLACES, (json.dumps(numbers),)):
        yield row, chunk(shown[row], *place)


def chunk(
    text: Text, repository: str, path: str, refs: str, language: str, category: str, kind: str
) -> Chunk:
    """Build the chunk of a row from its displayed part and its columns, all as stored."""
    name, _, block_type = kind.partition(" ")
    # By position: keyword arguments take half as long again, for 200 chunks in each search.
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
        text.definitions,
        text.part,
    )


def has_kind(pattern: str) -> Callable[[str], bool]:
    """Return a test for a stored kind (`block`) or, with a space, a block type (` resource`)."""
    if pattern.startswith(" "):
        return lambda stored: stored.partition(" ")[2] == pattern[1:]
    return lambda stored: stored.partition(" ")[0] == pattern


def digest(chunk: Chunk, vector: Vector) -> bytes:
    """Return a 64-bit hash of everything that is stored of the chunk except its refs."""
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
        chunk.definitions,
        chunk.part,
        chunk.content,
    )
    made = blake2b(repr(stored).encode("utf-8", "surrogatepass"), digest_size=8)
    made.update(vector.tobytes())
    return made.digest()


def quantised(vectors: Vectors) -> npt.NDArray[np.int8]:
    """Scale each row to the whole range of 8 bits; the scale cancels out in a cosine."""
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
    """Replace lone surrogates, which UTF-8 cannot encode, by `?`."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _kind(chunk: Chunk) -> str:
    """Return the stored kind: `function`, and with a block type `block resource`."""
    return text(f"{chunk.kind.value} {chunk.block_type}".rstrip())


def _names(chunk: Chunk) -> str:
    """Return every name that the chunk defines, one per line, for the symbol filter."""
    return "\n".join(text(name) for name in dict.fromkeys((chunk.symbol, *chunk.symbols)) if name)


def _blobs(matrix: npt.NDArray[Any]) -> list[bytes]:
    return [row.tobytes() for row in matrix]
