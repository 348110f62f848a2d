"""The embedded chunk store: LanceDB in a folder, one writing process, any number of readers."""

from codelode.backends.lance.search import LanceChunkSearch
from codelode.backends.lance.store import LanceChunkStore

__all__ = ["LanceChunkSearch", "LanceChunkStore"]
