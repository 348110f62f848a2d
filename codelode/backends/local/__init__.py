"""The embedded chunk store: SQLite, a keyword index, and vectors, in a folder.

One process writes at a time, any number read. SQLite is the source of truth; the keyword index is
derived from it and rebuilt when it is lost or damaged, and each reader holds the vectors in memory.
"""

from codelode.backends.local.search import LocalChunkSearch
from codelode.backends.local.shadow import LocalShadowIndex
from codelode.backends.local.store import LocalChunkStore

__all__ = ["LocalChunkSearch", "LocalChunkStore", "LocalShadowIndex"]
