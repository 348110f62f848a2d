"""Store stage: parsed files and their vectors → chunk index, graph, symbol table.

In: located files of any runs. Out: file records for the ledger. Raises what the stores raise;
repeating a call leaves the same index.
"""

from __future__ import annotations

from workers.store.write import StoredFile, place, refs_of, write

__all__ = ["StoredFile", "place", "refs_of", "write"]
