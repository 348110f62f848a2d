"""An embedder that makes vectors for one index.

The index knows the identity and dimensions of the embedder that made it, so whoever only searches
it need not ask the model's server for them: a gateway starts while that server is away, and ranks
by keywords until it is back. That the model is the right one is seen when it has embedded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from codelode.backends.engine import VectorSpace
from codelode.backends.remedies import EMBEDDER
from codelode.errors import SchemaMismatch
from codelode.ports import Embedder
from codelode.vectors import Vector, Vectors

#: How long a model that is another one is left alone before it is asked again what it is, seconds.
RETRY_S = 10.0


class BoundEmbedder:
    """Implements the port Embedder by the embedder that `make` makes, for the index of `space`.

    Raises SchemaMismatch in place of vectors of another model. A server may answer wrongly for a
    while, and embedders remember what they were told, so another one is made then after `RETRY_S`.
    Safe to share between threads.
    """

    def __init__(
        self,
        make: Callable[[], Embedder],
        space: VectorSpace,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity, self.dim = space
        self._make = make
        self._space = space
        self._clock = clock
        self._lock = threading.Lock()
        self._embedder = make()
        self._refusal = ""  # why no vectors of this embedder are taken; empty: they are
        self._retry_at = 0.0

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        embedder = self._current()
        vectors = embedder.embed_documents(texts)
        self._check(embedder)
        return vectors

    def embed_query(self, text: str) -> Vector:
        embedder = self._current()
        vector = embedder.embed_query(text)
        self._check(embedder)
        return vector

    def _current(self) -> Embedder:
        with self._lock:
            if self._refusal:
                if self._clock() < self._retry_at:
                    raise SchemaMismatch(self._refusal)
                self._embedder, self._refusal = self._make(), ""
            return self._embedder

    def _check(self, embedder: Embedder) -> None:
        """Raise SchemaMismatch unless the embedder, which has embedded, is that of the index."""
        found = VectorSpace(embedder.identity, embedder.dim)
        if found == self._space:
            return
        refusal = f"the index was written with {self._space}, this is {found}: {EMBEDDER}"
        with self._lock:
            if embedder is self._embedder:
                self._refusal, self._retry_at = refusal, self._clock() + RETRY_S
        raise SchemaMismatch(refusal)
