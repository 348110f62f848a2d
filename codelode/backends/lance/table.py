"""What writer and readers of the Lance table agree on: its rows, its place and its identity.

The identity (schema version, embedder, dimensions) is a small file beside the table rather than
metadata inside it, so that a mismatch is found when a side is constructed, before any engine
starts, and by a reader that comes before the first writer.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import lancedb
import numpy as np
import pyarrow as pa

from codelode.backends import words
from codelode.errors import CodelodeError, Corrupt, SchemaMismatch, Unavailable
from codelode.model import Category, Chunk, Kind, RefName, Vector, Vectors

#: Grows with every change of the columns or of how their text is made.
SCHEMA_VERSION = 1

TABLE = "chunks"
_IDENTITY_FILE = "identity.json"

TEXTS = pa.list_(pa.string())
_CHUNK_FIELDS = tuple(field.name for field in fields(Chunk))
_LENGTH = struct.Struct("<I")
_CATEGORIES = {category.value: category for category in Category}
_KINDS = {kind.value: kind for kind in Kind}


def schema(dim: int) -> pa.Schema:
    """What searches and filters look at, and the whole chunk in one value.

    Reading 200 rows costs 2 to 4 ms for each column, so what is only shown is no column.
    """
    text = pa.string()
    return pa.schema(
        {
            "id": text,
            "repository": text,
            "path": text,
            "refs": TEXTS,
            "language": text,
            "category": text,
            "kind": text,
            "names": text,  # every name the chunk defines, one a line, for the symbol filter
            "name_terms": text,
            "terms": text,
            "vector": pa.list_(pa.float32(), dim),  # null: found by keywords only
            "packed": pa.binary(),
            "digest": pa.int64(),  # of all the above but refs; equal: nothing to write
        }
    )


def table_path(folder: Path) -> Path:
    return folder / f"{TABLE}.lance"


def session(index_cache_bytes: int) -> lancedb.Session:
    """Caches with a bound; the library's own default is gigabytes."""
    return lancedb.Session(
        index_cache_size_bytes=index_cache_bytes, metadata_cache_size_bytes=32 << 20
    )


def digest(chunk: Chunk, vector: Vector) -> int:
    """64 bits of everything that is stored of the chunk, refs apart."""
    made = blake2b(pack(replace(chunk, refs=()), vector), digest_size=8)
    made.update(vector.tobytes())
    return int(struct.unpack("<q", made.digest())[0])


def rows(chunks: Sequence[Chunk], vectors: Vectors, digests: Sequence[int]) -> pa.Table:
    """The chunks as rows."""
    columns: dict[str, Any] = {
        column: [_text(getattr(chunk, column)) for chunk in chunks]
        for column in ("id", "repository", "path", "refs", "language", "category", "kind")
    }
    columns["names"] = [_names(chunk) for chunk in chunks]
    columns["name_terms"] = [" ".join(words.name_terms(chunk)) for chunk in chunks]
    columns["terms"] = [" ".join(words.content_terms(chunk)) for chunk in chunks]
    columns["vector"] = _vector_column(vectors)
    columns["packed"] = list(map(pack, chunks, vectors))
    columns["digest"] = digests
    return pa.table(columns, schema=schema(vectors.shape[1]))


def with_refs(rows: pa.Table, refs: Sequence[Sequence[RefName]]) -> pa.Table:
    """Rows of this table, stored under other refs."""
    dim = rows.schema.field("vector").type.list_size
    packed = [
        pack(replace(found.chunk, refs=tuple(of)), found.vector)
        for found, of in zip(
            (unpack(v, dim) for v in rows["packed"].to_pylist()), refs, strict=True
        )
    ]
    return _with(_with(rows, "refs", refs), "packed", packed)


def pack(chunk: Chunk, vector: Vector) -> bytes:
    """Vector in half precision, length of what follows, fields as JSON, content as it is."""
    values = {name: _text(getattr(chunk, name)) for name in _CHUNK_FIELDS if name != "content"}
    header = json.dumps(values).encode()
    content = chunk.content.encode("utf-8", "replace")
    return vector.astype("<f2").tobytes() + _LENGTH.pack(len(header)) + header + content


class Packed(NamedTuple):
    """What a `packed` value holds; the vector is zeros when there is none."""

    chunk: Chunk
    vector: Vector


def unpack(value: bytes, dim: int) -> Packed:
    start = 2 * dim + _LENGTH.size
    (length,) = _LENGTH.unpack_from(value, 2 * dim)
    values = json.loads(value[start : start + length].decode())
    values["refs"] = tuple(values["refs"])
    values["symbols"] = tuple(values["symbols"])
    values["category"] = _CATEGORIES[values["category"]]
    values["kind"] = _KINDS[values["kind"]]
    values["content"] = value[start + length :].decode()
    return Packed(Chunk(**values), np.frombuffer(value, "<f2", dim).astype(np.float32))


def _names(chunk: Chunk) -> str:
    return "\n".join(_text(name) for name in dict.fromkeys((chunk.symbol, *chunk.symbols)) if name)


def _vector_column(vectors: Vectors) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(vectors, np.float32).ravel())
    is_null = pa.array(~vectors.any(axis=1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1], mask=is_null)


def _with(rows: pa.Table, column: str, values: Sequence[Any]) -> pa.Table:
    position = rows.schema.get_field_index(column)
    field = rows.schema.field(position)
    return rows.set_column(position, field, pa.array(values, field.type))


def _text(value: Any) -> Any:
    """Lone surrogates, which UTF-8 cannot carry, become `?`; other values stay."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    return [_text(item) for item in value] if isinstance(value, tuple) else value


def sign(folder: Path, *, dim: int, identity: str) -> None:
    """Write the identity: the table is complete, readers may come."""
    draft = folder / f"{_IDENTITY_FILE}.draft"
    draft.write_text(json.dumps(_identity(dim, identity)), encoding="utf-8")
    draft.replace(folder / _IDENTITY_FILE)


def check(folder: Path, *, dim: int, identity: str) -> bool:
    """Whether there is an index; raises SchemaMismatch when it is not of this identity."""
    try:
        found = json.loads((folder / _IDENTITY_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except ValueError as exc:
        raise Corrupt(
            f"{folder / _IDENTITY_FILE} is damaged: remove {folder} and index again"
        ) from exc
    wanted = _identity(dim, identity)
    if found != wanted:
        raise SchemaMismatch(
            f"{folder} was written with {_phrase(found)}, this is {_phrase(wanted)}: "
            f"remove {folder} and index again, or set CODELODE_EMBEDDER back"
        )
    return True


def _identity(dim: int, identity: str) -> dict[str, object]:
    return {"schema": SCHEMA_VERSION, "embedder": identity, "dim": dim}


def _phrase(identity: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in identity.items())


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Raise the library's errors as ours: what the disk may answer differently next time, and bugs.

    The library raises OSError and RuntimeError for input, output and conflicting commits, and
    ValueError and KeyError for what cannot be there in a table of our schema.
    """
    try:
        yield
    except CodelodeError:
        raise
    except (OSError, RuntimeError) as exc:
        raise Unavailable(f"the chunk index at {folder} does not answer: {exc}") from exc
    except (ValueError, KeyError, pa.ArrowException) as exc:
        raise Corrupt(
            f"the chunk index at {folder} is damaged ({exc}): remove it and index again"
        ) from exc
