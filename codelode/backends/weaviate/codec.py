"""Encode chunks as objects of the collection, and decode them.

Every property that filters or searches use is stored on its own. What is only displayed is stored
as one JSON text, `facts`, next to the content, because each property of a hit takes time to read.

An object's id is a UUIDv5 of the chunk's id and of everything that is stored of the chunk, so
objects never change: a chunk with another header, vector, or refs is another object, which is
written before the old one is deleted. Overwriting an object in place hides it from searches while
its vector is replaced, and cannot be repeated if the server dies meanwhile (see `intent_log`). The
last digit of the id encodes the chunk's category, so that a search can decide by ids alone which
chunks are worth fetching.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid5

import numpy as np
from pydantic_core import from_json
from weaviate.classes.data import DataObject

from codelode import grams
from codelode.backends import words
from codelode.backends.weaviate.schema import VECTOR
from codelode.covers import Groups, prefixes
from codelode.errors import SchemaMismatch
from codelode.model import Category, Chunk, ChunkId, Kind, RefName
from codelode.names import Names, names_of
from codelode.vectors import Vector

#: The properties from which a chunk is decoded.
DISPLAYED = ["facts", "content"]

#: The term that marks the first chunk of a file, stored with its trigrams.
FIRST = "^"

#: Capacity of the chunk cache, at 4 kB each.
MAX_CHUNKS = 32_768

#: Capacity of the cache of path properties, which the chunks of a file share.
PATHS_CACHED = 64

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_but_content = itemgetter(*(at for at, name in enumerate(Chunk._fields) if name != "content"))
_SPACE = re.compile(r"\s")
_NAMESPACE = UUID("6f1f6d53-8a52-5a0e-9c39-0d5f2b6a3b57")
_BUCKET_DIGITS = 4
_CATEGORIES = {category.value: category for category in Category}
_LAST_DIGIT = 0xF

#: The category for each last digit of an id. A new order needs a new SCHEMA_VERSION.
CATEGORY_DIGITS = (
    Category.SOURCE,
    Category.TEST,
    Category.VENDORED,
    Category.GENERATED,
    Category.DOCS,
    Category.CONFIGURATION,
)
_KINDS = {kind.value: kind for kind in Kind}


class DecodedChunk(NamedTuple):
    """A chunk read from the index, and its normalised symbol names."""

    chunk: Chunk
    names: Names


class StoredChunk(NamedTuple):
    """The identity of a stored chunk: which chunk it is, its file, and its refs."""

    chunk: ChunkId
    repository: str
    path: str
    refs: frozenset[RefName]


class NewObject(NamedTuple):
    """A chunk to write, under the refs it will have, and the id of its object."""

    id: UUID
    chunk: Chunk
    vector: Vector
    refs: Collection[RefName]
    groups: Groups
    facts: str
    grams: Callable[[], str]

    @classmethod
    def of(
        cls,
        chunk: Chunk,
        vector: Vector,
        refs: Collection[RefName],
        grams: Callable[[], str] = str,
        *,
        groups: Groups = (),
    ) -> NewObject:
        """Derive the id: two objects have equal ids exactly if everything stored is equal.

        `grams` returns the trigrams of the file of a first chunk, which follow from its id.
        `groups`: see `Catalog.groups`.
        """
        facts = _facts(chunk, refs)
        made = blake2b(facts.encode(), digest_size=16)
        made.update(text(chunk.content).encode())
        made.update(np.ascontiguousarray(vector, np.float32).tobytes())
        made.update("".join(groups).encode())
        id = uuid5(_NAMESPACE, f"{chunk.id} {made.hexdigest()}")
        id = UUID(int=id.int & ~_LAST_DIGIT | CATEGORY_DIGITS.index(chunk.category))
        return cls(id, chunk, vector, refs, groups, facts, grams)

    @property
    def file(self) -> str:
        return file_name(self.chunk.repository, self.chunk.path)


def category_of(id: bytes) -> Category:
    """Return the category of the chunk with this object id. Raises SchemaMismatch."""
    digit = id[-1] & _LAST_DIGIT
    if digit >= len(CATEGORY_DIGITS):
        raise SchemaMismatch(f"the index in Weaviate holds {id.hex()}, an object of another schema")
    return CATEGORY_DIGITS[digit]


def encode(new: NewObject) -> DataObject[Any, Any]:
    """Return the object to insert. A zero vector is stored as no vector."""
    chunk = new.chunk
    properties = {
        **_path_properties(chunk.path),
        "repository": text(chunk.repository),
        "prefixes": [*prefixes(text(chunk.repository)), *new.groups],
        "bucket": chunk.id[:_BUCKET_DIGITS],
        "language": text(chunk.language),
        "kind": chunk.kind.value,
        "category": chunk.category.value,
        "block_type": text(chunk.block_type),
        "names": [mark_whitespace(text(name)) for name in names(chunk)],
        "refs": sorted(map(text, new.refs)),
        "name_terms": words.name_terms(chunk),
        "terms": words.content_terms(chunk),
        "summary_terms": words.summary_terms(chunk),
        "grams": new.grams(),
        "content": text(chunk.content),
        "facts": new.facts,
    }
    vector: Any = {VECTOR: new.vector} if new.vector.any() else {}
    return DataObject(properties=properties, uuid=new.id, vector=vector)


def decode(properties: Mapping[str, Any]) -> DecodedChunk:
    """Return the chunk of an object that was read with the properties DISPLAYED."""
    facts = from_json(properties["facts"])
    id, repository, path, refs, language, category, kind, symbol, symbols, *others = facts
    header, start_line, end_line, summary, block_type, overlap, *others = others
    file_summary, definitions, part, *names = others
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
        definitions=definitions,
        part=part,
    )
    return DecodedChunk(chunk, Names(*names))


def decode_identity(properties: Mapping[str, Any]) -> StoredChunk:
    """Return the identity of an object that was read with the property `facts`."""
    id, repository, path, refs, *_ = json.loads(properties["facts"])
    return StoredChunk(ChunkId(id), repository, path, frozenset(refs))


def groups_in(properties: Mapping[str, Any]) -> Groups:
    """Return the groups of an object that was read with the properties `facts` and `prefixes`."""
    repository = decode_identity(properties).repository
    return tuple((properties["prefixes"] or [])[len(prefixes(repository)) :])


def vector_of(object: Any, dim: int) -> Vector:
    """Return the vector of an object that was read with it; zeros if it has none."""
    found = object.vector.get(VECTOR)
    return np.zeros(dim, np.float32) if found is None else np.array(found, np.float32)


class ReadObject(Protocol):
    """An object that was read with the properties DISPLAYED."""

    @property
    def id(self) -> bytes: ...

    @property
    def properties(self) -> Mapping[str, str]: ...


class ChunkCache:
    """The chunks decoded last, by object id. They never go stale: an object never changes."""

    def __init__(self, capacity: int = MAX_CHUNKS) -> None:
        self._capacity = capacity
        self._chunks: dict[bytes, DecodedChunk] = {}

    def known(self, ids: Iterable[bytes]) -> dict[bytes, DecodedChunk]:
        """Return the cached chunks among these ids."""
        chunks = self._chunks
        return {id: chunks[id] for id in ids if id in chunks}

    def decoded(self, read: ReadObject) -> DecodedChunk:
        """Return the chunk of the object, from the cache or decoded into it."""
        chunk = self._chunks.get(read.id)
        if chunk is None:
            if len(self._chunks) >= self._capacity:  # drop the older half
                self._chunks = dict(islice(self._chunks.items(), self._capacity // 2, None))
            chunk = self._chunks[read.id] = decode(read.properties)
        return chunk


def grams_text(file: str) -> str:
    """Return the trigrams of the text of a file as terms, and the mark of a first chunk."""
    return " ".join([FIRST, *map(gram_term, sorted(grams.grams(file)))])


def gram_term(gram: str) -> str:
    """Return a trigram as letters, digits, `-`, and `_`: four characters if it is ASCII."""
    return urlsafe_b64encode(text(gram).encode()).decode().rstrip("=")


def file_name(repository: str, path: str) -> str:
    """Name a file as error messages and the intent log do."""
    return f"{text(repository)}:{text(path)}"


def names(chunk: Chunk) -> Sequence[str]:
    """Return the distinct names that the symbol filter compares."""
    return tuple(dict.fromkeys(name for name in (chunk.symbol, *chunk.symbols) if name))


def basename(path: str) -> str:
    return path.rpartition("/")[2]


def mark_whitespace(value: str) -> str:
    """Replace white space by `␠`: the server trims values, and its `*` stops at newlines."""
    return _SPACE.sub("␠", value)


def text(value: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by `?`."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=PATHS_CACHED)
def _path_properties(path: str) -> Mapping[str, Any]:
    """Return the properties that path filters use; `folders` has every ancestor of the file."""
    path = mark_whitespace(text(path))
    *parts, last = path.split("/")
    return {
        "path": path,
        "folders": ["/".join(parts[: end + 1]) for end in range(len(parts))],
        "basename": last,
        "extension": last.rpartition(".")[2] if "." in last else "",
        "depth": len(parts),
    }


def _facts(chunk: Chunk, refs: Iterable[RefName]) -> str:
    """Return the JSON that `decode` reads: the chunk without its content, then its names."""
    facts = _but_content(chunk._replace(refs=tuple(sorted(refs))))
    return text(_JSON.encode([*facts, *names_of(chunk.symbol, chunk.symbols)]))
