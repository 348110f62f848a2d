"""Remove what is stored of a ref; other refs keep what they share with it.

The file records of the ref list what the index has of it, so the caller deletes them last. A
removal that was interrupted begins again and finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice

from codelode.ledger import Ledger
from codelode.model import DEFAULT_REF, FileChunks, RefName, RepositoryName
from codelode.ports import ChunkStore, DependencyGraph, ReferenceIndex, SymbolTable

#: Number of files that are removed in one batch, during which the index cannot be swapped.
FILES_AT_ONCE = 500


def remove_ref(
    name: RepositoryName,
    ref: RefName,
    *,
    ledger: Ledger,
    writing: Callable[[], AbstractContextManager[ChunkStore]],
    graph: DependencyGraph,
    symbols: SymbolTable,
    references: ReferenceIndex,
) -> None:
    """Remove the chunks of the ref, and the edges, symbols, and references of its files.

    `writing` opens the chunk store for a batch. DEFAULT_REF as a ref stands for the commit of a
    source whose HEAD was detached. Nothing is removed for it, because its entries now belong to the
    branch that is the default ref.
    """
    if ref == DEFAULT_REF:
        return
    for paths in _batches(record.path for record in ledger.all(name, ref)):
        with writing() as store:
            store.replace([FileChunks(name, path, (ref,)) for path in paths])
    for table in (graph, symbols, references):
        table.remove_ref(name, ref)


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    while some := list(islice(paths, FILES_AT_ONCE)):
        yield some
