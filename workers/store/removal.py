"""Remove what is stored of a ref; other refs keep what they share with it.

The file records of the ref say what the index holds, so they are deleted last, by the caller. A
removal that was interrupted begins again and finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice

from codelode.ledger import Ledger
from codelode.model import DEFAULT_REF, FileChunks, RefName, RepositoryName
from codelode.ports import ChunkStore, DependencyGraph, ReferenceIndex, SymbolTable

#: Files that are removed in one batch, during which the index cannot be swapped.
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
    source whose HEAD was detached. Nothing is removed for it, because the runs of the branch that
    is now the default ref have taken over what it stored.
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
