"""Cache the query vectors of another embedder.

Callers repeat queries with other filters, and a search embeds its query both for the semantic query
cache and for the index. The cache is in memory, because a request to a cache server takes longer
than the built-in embedder.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from codelode.bounded import put
from codelode.ports import Checked, Embedder, QuickEmbedder
from codelode.vectors import Vector, Vectors

#: How long a query's vector is kept, seconds.
LIFE_S = 3_600.0
#: Maximum number of cached queries: 4 MB at 256 dimensions.
ENTRIES = 4_096


class CachingEmbedder:
    """Implements Embedder, QuickEmbedder, and Checked over another embedder. Thread-safe."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        entries: int = ENTRIES,
        life_s: float = LIFE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._quick = embedder if isinstance(embedder, QuickEmbedder) else None
        self._entries = entries
        self._life_s = life_s
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Vector]] = OrderedDict()  # oldest first

    @property
    def identity(self) -> str:
        return self._embedder.identity

    @property
    def dim(self) -> int:
        return self._embedder.dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        known = self._remembered(text)
        return self._kept(text, self._embedder.embed_query(text)) if known is None else known

    def check(self) -> None:
        """See `ports.Checked`."""
        if isinstance(self._embedder, Checked):
            self._embedder.check()

    def embed_at_once(self, text: str) -> Vector | None:
        """See `ports.QuickEmbedder`."""
        known = self._remembered(text)
        if known is not None or self._quick is None:
            return known
        made = self._quick.embed_at_once(text)
        return None if made is None else self._kept(text, made)

    def _remembered(self, text: str) -> Vector | None:
        with self._lock:
            expires, known = self._known.get(text, (0.0, None))
        return known if self._clock() < expires else None

    def _kept(self, text: str, vector: Vector) -> Vector:
        vector.setflags(write=False)  # callers share it from now on
        with self._lock:
            put(self._known, text, (self._clock() + self._life_s, vector), most=self._entries)
        return vector
