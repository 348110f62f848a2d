"""Chunks as objects of the collection, and back.

What filters and searches look at is a property each. What is only shown is one property, `facts`,
beside the content: each property of a hit takes time to read.

An object's id is a UUIDv5 of the chunk's id and of everything stored of it, so objects never
change: a chunk whose header, vector or refs changed is another object, which comes before the old
one goes. Writing over an object in place hides it from searches while its vector is exchanged,
and cannot be repeated after a server died of it (`journal`). The last digit is the chunk's category
instead, so that a search can tell of ids alone which are worth reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid5

import numpy as np
from pydantic_core import from_json

from codelode.backends import words
from codelode.backends.weaviate.inserting import Made
from codelode.backends.weaviate.schema import VECTOR
from codelode.errors import SchemaMismatch
from codelode.model import Category, Chunk, ChunkId, Kind, RefName, Vector
from codelode.names import Names, names_of

#: What a chunk is made of again.
SHOWN = ["facts", "content"]

#: Chunks kept, 4 kB each; then the older half goes.
MOST_KEPT = 32_768

#: Paths whose properties are remembered: the chunks of a file come one after another.
PATHS_KEPT = 64

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_but_content = itemgetter(*(at for at, name in enumerate(Chunk._fields) if name != "content"))
_SPACE = re.compile(r"\s")
_NAMESPACE = UUID("6f1f6d53-8a52-5a0e-9c39-0d5f2b6a3b57")
_BUCKET_DIGITS = 4
_CATEGORIES = {category.value: category for category in Category}
_LAST_DIGIT = 0xF

#: The categories by the last digit of an id: another order is another schema.
BY_DIGIT = (
    Category.SOURCE,
    Category.TEST,
    Category.VENDORED,
    Category.GENERATED,
    Category.DOCS,
    Category.CONFIGURATION,
)
_KINDS = {kind.value: kind for kind in Kind}


class Shown(NamedTuple):
    """A chunk as it is read again, and what its names come down to."""

    chunk: Chunk
    names: Names


class Given(NamedTuple):
    """A chunk to write, under the refs it will have."""

    id: UUID
    chunk: Chunk
    vector: Vector
    refs: Collection[RefName]
    facts: str

    @classmethod
    def of(cls, chunk: Chunk, vector: Vector, refs: Collection[RefName]) -> Given:
        """With the object's id: equal exactly when the same is stored."""
        facts = _facts(chunk, refs)
        made = blake2b(facts.encode(), digest_size=16)
        made.update(text(chunk.content).encode())
        made.update(np.ascontiguousarray(vector, np.float32).tobytes())
        id = uuid5(_NAMESPACE, f"{chunk.id} {made.hexdigest()}")
        id = UUID(int=id.int & ~_LAST_DIGIT | BY_DIGIT.index(chunk.category))
        return cls(id, chunk, vector, refs, facts)

    @property
    def file(self) -> str:
        """The name of its file."""
        return file_name(self.chunk.repository, self.chunk.path)


def category_of(id: bytes) -> Category:
    """Of the chunk that an object is, by the object's id. SchemaMismatch: it is none of ours."""
    digit = id[-1] & _LAST_DIGIT
    if digit >= len(BY_DIGIT):
        raise SchemaMismatch(f"the index in Weaviate holds {id.hex()}, an object of another schema")
    return BY_DIGIT[digit]


def pack(given: Given) -> Made:
    """The object; a zero vector is none."""
    chunk = given.chunk
    properties = {
        **_of_path(chunk.path),
        "repository": text(chunk.repository),
        "bucket": chunk.id[:_BUCKET_DIGITS],
        "language": text(chunk.language),
        "kind": chunk.kind.value,
        "category": chunk.category.value,
        "block_type": text(chunk.block_type),
        "names": [visible(text(name)) for name in names(chunk)],
        "refs": sorted(map(text, given.refs)),
        "name_terms": words.name_terms(chunk),
        "terms": words.content_terms(chunk),
        "summary_terms": words.summary_terms(chunk),
        "content": text(chunk.content),
        "facts": given.facts,
    }
    return Made(given.id, properties, _vector(given.vector))


def unpack(properties: Mapping[str, Any]) -> Shown:
    """The chunk of an object read with SHOWN."""
    facts = from_json(properties["facts"])
    id, repository, path, refs, language, category, kind, symbol, symbols, *others = facts
    header, start_line, end_line, summary, block_type, overlap, file_summary, *names = others
    chunk = Chunk(
        id=id,
        repository=repository,
        path=path,
        refs=tuple(refs),
        language=language,
        category=_CATEGORIES[category],
        kind=_KINDS[kind],
        symbol=symbol,
        symbols=tuple(symbols),
        header=header,
        start_line=start_line,
        end_line=end_line,
        content=properties["content"] or "",
        summary=summary,
        block_type=block_type,
        overlap=overlap,
        file_summary=file_summary,
    )
    return Shown(chunk, Names(*names))


class Read(Protocol):
    """An object that was read with SHOWN."""

    @property
    def id(self) -> bytes: ...

    @property
    def properties(self) -> Mapping[str, str]: ...


class ChunkCache:
    """Chunks of objects that were read with SHOWN: the last ones are kept, for an object never
    changes.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept: dict[bytes, Shown] = {}

    def known(self, ids: Iterable[bytes]) -> dict[bytes, Shown]:
        """Those of these ids that are kept."""
        kept = self._kept
        return {id: kept[id] for id in ids if id in kept}

    def of(self, read: Read) -> Shown:
        shown = self._kept.get(read.id)
        if shown is None:
            if len(self._kept) >= self._most:
                self._kept = dict(islice(self._kept.items(), self._most // 2, None))
            shown = self._kept[read.id] = unpack(read.properties)
        return shown


class Placed(NamedTuple):
    """Which chunk an object is, and where it stands."""

    chunk: ChunkId
    path: str
    refs: frozenset[RefName]


def placed(properties: Mapping[str, Any]) -> Placed:
    """The place of an object read with `facts`."""
    id, _, path, refs, *_ = json.loads(properties["facts"])
    return Placed(ChunkId(id), path, frozenset(refs))


def file_name(repository: str, path: str) -> str:
    """A file of the index, as messages and notes name it."""
    return f"{text(repository)}:{text(path)}"


def names(chunk: Chunk) -> Sequence[str]:
    """What the symbol filter looks at."""
    return tuple(dict.fromkeys(name for name in (chunk.symbol, *chunk.symbols) if name))


def folders(path: str) -> list[str]:
    """Every folder the path is in: `a/b/c.py` → `["a", "a/b"]`."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def basename(path: str) -> str:
    return path.rpartition("/")[2]


def extension(path: str) -> str:
    """`src/a.tar.gz` → `gz`; empty without a dot."""
    return basename(path).rpartition(".")[2] if "." in basename(path) else ""


def visible(value: str) -> str:
    """The value with white space made visible: the server trims it, and `*` stops at newlines."""
    return _SPACE.sub("␠", value)


def text(value: str) -> str:
    """Lone surrogates, which UTF-8 cannot carry, become `?`."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=PATHS_KEPT)
def _of_path(path: str) -> Mapping[str, Any]:
    """The properties that say where a file is."""
    shown = visible(text(path))
    return {
        "path": shown,
        "folders": folders(shown),
        "basename": basename(shown),
        "extension": extension(shown),
        "depth": shown.count("/"),
    }


def _facts(chunk: Chunk, refs: Iterable[RefName]) -> str:
    """In the order in which `unpack` takes them: the chunk but its content, then its names."""
    facts = _but_content(chunk._replace(refs=tuple(sorted(refs))))
    return text(_JSON.encode([*facts, *names_of(chunk.symbol, chunk.symbols)]))


def vector_of(object: Any, dim: int) -> Vector:
    """The vector of an object read with it; zeros when it has none."""
    found = object.vector.get(VECTOR)
    return np.zeros(dim, np.float32) if found is None else np.array(found, np.float32)


def _vector(vector: Vector) -> Mapping[str, Vector]:
    return {VECTOR: vector} if vector.any() else {}
