"""An embedder that makes vectors for one index.

The index knows the identity and dimensions of its embedder, so a process that only searches need
not ask the model's server for them: a gateway starts while that server is unreachable, and ranks by
keywords until it is back. After each call, the embedder's model is compared with the index's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from codelode.backends.engine import VectorSpace
from codelode.backends.remedies import EMBEDDER
from codelode.errors import SchemaMismatch
from codelode.ports import Checked, Embedder
from codelode.vectors import Vector, Vectors

#: Pause before a server that had the wrong model is asked again, seconds.
RETRY_S = 10.0


class BoundEmbedder:
    """Implements the port Embedder with the embedder that `make` returns, for the index of `space`.

    Raises SchemaMismatch instead of returning vectors of another model. A server may answer wrongly
    for a while, and embedders cache what it said, so after `RETRY_S` a new embedder is made. Safe
    to share between threads.
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
        self._refusal = ""  # why vectors of this embedder are refused; empty: they are not
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

    def check(self) -> None:
        """See `ports.Checked`."""
        embedder = self._current()
        if isinstance(embedder, Checked):
            embedder.check()

    def _current(self) -> Embedder:
        with self._lock:
            if self._refusal:
                if self._clock() < self._retry_at:
                    raise SchemaMismatch(self._refusal)
                self._embedder, self._refusal = self._make(), ""
            return self._embedder

    def _check(self, embedder: Embedder) -> None:
        """Raise SchemaMismatch unless the embedder, which has just embedded, is the index's."""
        found = VectorSpace(embedder.identity, embedder.dim)
        if found == self._space:
            return
        refusal = f"the index was written with {self._space}, this is {found}: {EMBEDDER}"
        with self._lock:
            if embedder is self._embedder:
                self._refusal, self._retry_at = refusal, self._clock() + RETRY_S
        raise SchemaMismatch(refusal)
