"""Write parsed files and their vectors into chunk index, graph and symbol table (store stage).

In: files with their paths, of any runs. Out: file records for the ledger. Raises what the stores
raise. Idempotent: repeating a call leaves the same index.
"""

from __future__ import annotations

from workers.store.removal import remove_ref
from workers.store.write import TABLES_VERSION, StoredFile, file_chunks, refs_of, write

__all__ = ["TABLES_VERSION", "StoredFile", "file_chunks", "refs_of", "remove_ref", "write"]
