"""Encode what stages and caches keep: deflated JSON, and half-precision floats for vectors.

Half precision halves the memory and affects no ranking: it changes a cosine by less than 0.001.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import astuple, fields
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import TypeAdapter

from codelode.errors import Rejected
from codelode.model import ParsedFile, RepositoryName, Summaries
from codelode.vectors import Vectors
from workers.parse import PARSER_VERSION, OwnQueries, imports, own_queries
from workers.parse.ecosystems.manifests import Facts

Names: TypeAlias = Sequence[str]
Pairs: TypeAlias = Sequence[tuple[str, str]]

_PARSED = TypeAdapter(ParsedFile)
_SUMMARIES = TypeAdapter(Summaries)

#: Maximum number of decoded parsed files that a process caches: about as many as are in flight.
LOADED = 256
#: Bytes of JSON beyond which a decoded parsed file is not cached. A usual file has 30 kB.
MAX_CACHED_BYTES = 1 << 20

#: Maximum size of the JSON of a parsed file, per byte that a file may have. Real files take at most
#: 6 bytes per byte of their own, but nested names and trees of imports can be made to multiply.
PARSED_BYTES_PER_BYTE = 20


def _without_prose(schema: Any) -> Any:
    """Remove the docstrings from a JSON schema: they do not affect what can be loaded."""
    if isinstance(schema, dict):
        return {k: _without_prose(v) for k, v in schema.items() if k != "description"}
    return [_without_prose(one) for one in schema] if isinstance(schema, list) else schema


#: Identifies the schema of a dumped parsed file; a dump of another schema cannot be loaded.
PARSED_SHAPE = hashlib.sha256(
    json.dumps(_without_prose(_PARSED.json_schema())).encode()
).hexdigest()[:8]


def parsed_by(queries: OwnQueries) -> str:
    """Return a version of everything that an encoded parsed file depends on besides the file."""
    return f"{PARSER_VERSION} {PARSED_SHAPE} {own_queries.digest(queries)}".rstrip()


def dump_parsed(parsed: ParsedFile, *, max_file_bytes: int) -> bytes:
    """Encode a parsed file. Raises Rejected if it is too large for the stages after parse.

    Their processes cannot be killed for one file. `max_file_bytes`: the largest size of a file.
    """
    text, most = _PARSED.dump_json(parsed), PARSED_BYTES_PER_BYTE * max_file_bytes
    if len(text) > most:
        raise Rejected(
            f"its names and imports take {len(text) / 1e6:,.0f} MB when they are written out, the "
            f"limit is {most / 1e6:,.0f} MB; raise CODELODE_MAX_FILE_BYTES if it is not generated"
        )
    return zlib.compress(text, 1)


def load_parsed(data: bytes) -> ParsedFile:
    """Decode a parsed file. Cached, because a process may need it both to route and to store it."""
    text = zlib.decompress(data)
    return _PARSED.validate_json(text) if len(text) > MAX_CACHED_BYTES else _loaded(text)


@lru_cache(maxsize=LOADED)
def _loaded(text: bytes) -> ParsedFile:
    return _PARSED.validate_json(text)


#: Identifies the fields of an encoded layout, and the rules by which manifests are read.
LAYOUT_SHAPE = " ".join([PARSER_VERSION, *(one.name for one in fields(Facts))])


def dump_layout(layout: imports.Layout, *, max_bytes: int) -> bytes:
    """Encode a layout without its name. Raises Rejected if it is larger than `max_bytes`."""
    facts = {path: astuple(found) for path, found in layout.facts.items()}
    text = json.dumps([sorted(layout.paths), facts], separators=(",", ":"))
    if len(text) > max_bytes:
        raise Rejected(
            f"the paths and manifests of the commit take {len(text) >> 20} MB, which is more than "
            f"{max_bytes >> 20} MB; raise CODELODE_MAX_PATHS if they are not generated"
        )
    return zlib.compress(text.encode(), 1)


def load_layout(data: bytes, *, name: RepositoryName) -> imports.Layout:
    """Decode the layout of a commit of the repository."""
    paths, facts = json.loads(zlib.decompress(data))
    return imports.Layout(paths, {path: _facts(*row) for path, row in facts.items()}, name=name)


def _facts(kind: str, name: str, pairs: Pairs, extends: Names, uses: Names) -> Facts:
    return Facts(
        kind, name, tuple((left, right) for left, right in pairs), tuple(extends), tuple(uses)
    )


def dump_vectors(vectors: Vectors) -> bytes:
    return vectors.astype(np.float16).tobytes()


class Origin(NamedTuple):
    """The origin of vectors: the identity of the embedder, and the index they were made for."""

    embedder: str
    made_for: str


def dump_vectors_of(origin: Origin, vectors: Vectors) -> bytes:
    """Encode vectors with their origin: a line of JSON, then the rows."""
    return json.dumps(origin).encode() + b"\n" + dump_vectors(vectors)


def split_vectors(data: bytes) -> tuple[Origin, bytes]:
    """Return the origin of encoded vectors, and the rows for `load_vectors`."""
    origin, _, rows = data.partition(b"\n")
    return Origin(*json.loads(origin)), rows


def load_vectors(data: bytes, *, dim: int) -> Vectors:
    """Decode to (chunks, dim), scaled to unit length again after the rounding."""
    vectors = np.frombuffer(data, np.float16).astype(np.float32).reshape(-1, dim)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit


def dump_summaries(summaries: Summaries) -> bytes:
    return zlib.compress(_SUMMARIES.dump_json(summaries), 1)


def load_summaries(data: bytes) -> Summaries:
    return _SUMMARIES.validate_json(zlib.decompress(data))
