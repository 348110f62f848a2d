"""Embed stage: the chunks of many parsed files → one vector each, in one call of the model.

In: parsed files with their paths. Out: per file an array of shape (chunks, dim). Raises what the
embedder raises.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codelode.model import ParsedFile, RepositoryName, Vectors, embedding_text, locate
from codelode.ports import Embedder


def embed(files: Sequence[tuple[str, ParsedFile]], *, embedder: Embedder) -> tuple[Vectors, ...]:
    """Vectors of each (path, parsed file), in the order of `locate`."""
    texts = [
        [
            embedding_text(chunk)
            for chunk in locate(parsed, repository=RepositoryName(""), path=path, refs=())
        ]
        for path, parsed in files
    ]
    vectors = embedder.embed_documents([text for group in texts for text in group])
    ends = np.cumsum([len(group) for group in texts])
    return tuple(np.split(vectors, ends[:-1])) if texts else ()
