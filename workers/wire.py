"""How parsed files and vectors look on their way between stages: JSON and half floats, deflated.

Half precision costs no rank here (a cosine moves by less than 0.001) and halves what Redis holds.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from codelode.model import ParsedFile, Summaries, Vectors
from workers.parse import PARSER_VERSION, OwnQueries, own_queries

_PARSED = TypeAdapter(ParsedFile)
_SUMMARIES = TypeAdapter(Summaries)

#: Parsed files that a process remembers: about as many as are in flight.
LOADED = 256


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
    """Names all that a dumped parsed file depends on besides its content and its path."""
    return f"{PARSER_VERSION} {PARSED_SHAPE} {own_queries.digest(queries)}".rstrip()


def dump_parsed(parsed: ParsedFile) -> bytes:
    return zlib.compress(_PARSED.dump_json(parsed), 1)


@lru_cache(maxsize=LOADED)
def load_parsed(data: bytes) -> ParsedFile:
    """Remembered: a file whose content is known from before is read where it is sent off and, in
    the same process, where it is stored."""
    return _PARSED.validate_json(zlib.decompress(data))


def dump_vectors(vectors: Vectors) -> bytes:
    return vectors.astype(np.float16).tobytes()


def load_vectors(data: bytes, *, dim: int) -> Vectors:
    """(chunks, dim), unit length again after the rounding."""
    vectors = np.frombuffer(data, np.float16).astype(np.float32).reshape(-1, dim)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit


def dump_summaries(summaries: Summaries) -> bytes:
    return zlib.compress(_SUMMARIES.dump_json(summaries), 1)


def load_summaries(data: bytes) -> Summaries:
    return _SUMMARIES.validate_json(zlib.decompress(data))
