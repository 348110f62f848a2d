"""Embed the chunks of many parsed files in one call of the model (embed stage).

In: parsed files with their paths and summaries. Out: per file an array of shape (chunks, dim).
Vectors are cached by the embedded text, so equal chunks of all repositories are embedded once.
Raises what the embedder raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from codelode.model import (
    NO_SUMMARIES,
    ParsedFile,
    RepositoryName,
    Summaries,
    embedding_text,
    locate,
)
from codelode.ports import DerivationKey, Derivations, Embedder
from codelode.vectors import Vectors
from workers import derivations

__all__ = ["embed", "known_vectors"]

#: Vectors are cached in half precision, which changes a cosine by less than 0.001. New ones are
#: rounded likewise, so that results do not depend on which of them come from the cache.
_KEPT = np.float16


def embed(
    files: Sequence[tuple[str, ParsedFile, Summaries]],
    *,
    embedder: Embedder,
    known: Derivations,
) -> tuple[Vectors, ...]:
    """Return the vectors of each (path, parsed file, summaries), in the order of `locate`."""
    texts = [_texts(*file) for file in files]
    vectors = _vectors([text for group in texts for text in group], embedder, known)
    ends = np.cumsum([len(group) for group in texts])
    return tuple(np.split(vectors, ends[:-1])) if texts else ()


def known_vectors(
    files: Sequence[tuple[str, ParsedFile]], *, embedder: Embedder, known: Derivations
) -> tuple[Vectors | None, ...]:
    """Look up the vectors of each (path, parsed file) without summaries; None if one is unknown."""
    identity, dim = embedder.identity, embedder.dim
    keys = [
        [
            derivations.of_vector(text, embedder=identity)
            for text in _texts(path, parsed, NO_SUMMARIES)
        ]
        for path, parsed in files
    ]
    rows = _stored(known, [key for group in keys for key in group], dim=dim)
    return tuple(
        np.array([rows[key] for key in group], np.float32).reshape(-1, dim)
        if all(key in rows for key in group)
        else None
        for group in keys
    )


def _texts(path: str, parsed: ParsedFile, summaries: Summaries) -> list[str]:
    chunks = locate(parsed, repository=RepositoryName(""), path=path, refs=(), summaries=summaries)
    return [embedding_text(chunk) for chunk in chunks]


def _vectors(texts: Sequence[str], embedder: Embedder, known: Derivations) -> Vectors:
    """Return one row per text: the cached vector if there is one, else a new one."""
    identity, dim = embedder.identity, embedder.dim
    keys = [derivations.of_vector(text, embedder=identity) for text in texts]
    rows = _stored(known, keys, dim=dim)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}
    made = embedder.embed_documents(list(missing.values()))
    kept = dict(zip(missing, made.astype(_KEPT), strict=True))
    known.put({key: row.tobytes() for key, row in kept.items()})
    rows |= {key: row.astype(np.float32) for key, row in kept.items()}
    out = np.zeros((len(texts), dim), np.float32)
    for row, key in enumerate(keys):
        out[row] = rows[key]
    return out


def _stored(
    known: Derivations, keys: Sequence[DerivationKey], *, dim: int
) -> dict[DerivationKey, Vectors]:
    values: Mapping[DerivationKey, bytes | None] = dict(zip(keys, known.get(keys), strict=True))
    width = dim * np.dtype(_KEPT).itemsize
    return {
        key: np.frombuffer(value, _KEPT).astype(np.float32)
        for key, value in values.items()
        if value is not None and len(value) == width
    }
