"""Chunks for tests; by default, of a Python function."""

from __future__ import annotations

from codelode.model import (
    DEFAULT_REF,
    Category,
    Chunk,
    Kind,
    RefName,
    RepositoryName,
    chunk_id,
)


def chunk(path, content, *, repository="acme/http", start_line=1, category="source", **fields):
    """Return a chunk. `fields` are further fields of `Chunk`."""
    return Chunk(
        **{
            "id": chunk_id(repository, path, start_line, content),
            "repository": RepositoryName(repository),
            "path": path,
            "refs": (DEFAULT_REF, RefName("main")),
            "language": "python",
            "category": Category(category),
            "kind": Kind.FUNCTION,
            "symbol": "",
            "symbols": (),
            "header": "",
            "start_line": start_line,
            "end_line": start_line + content.count("\n"),
            "content": content,
            **fields,
        }
    )
