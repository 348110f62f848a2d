"""Remove what is stored of a ref; other refs keep what they share with it.

The file records of the ref say what the index holds, so they are deleted last, by the caller. A
removal that was interrupted begins again and finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from codelode.ledger import Ledger
from codelode.model import DEFAULT_REF, FileChunks, RefName, RepositoryName
from codelode.ports import ChunkStore, DependencyGraph, ReferenceIndex, SymbolTable

#: Files that are removed at once, while the index cannot be swapped.
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

    `writing` opens the chunk store for a batch. DEFAULT_REF as a ref is the commit of a detached
    source; its chunks are the default ref's by now, because the runs of that ref took them over.
    """
    for paths in _batches(record.path for record in ledger.all(name, ref)):
        with writing() as store:
            if ref != DEFAULT_REF:
                store.replace([FileChunks(name, path, (ref,)) for path in paths])
            # These tables do not know refs: a file that another ref has keeps its entries.
            gone = sorted(set(paths) - _elsewhere(name, paths, ledger))
            graph.replace(name, dict.fromkeys(gone, ()))
            symbols.replace(name, dict.fromkeys(gone, ()))
            references.replace(name, dict.fromkeys(gone, ()))


def _elsewhere(name: RepositoryName, paths: Sequence[str], ledger: Ledger) -> set[str]:
    """Return the paths that are files of a ref that stays."""
    refs = [status.ref for status in ledger.refs(name)]
    return {path for ref in refs for path in ledger.exists(name, ref, paths)}


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    while some := list(islice(paths, FILES_AT_ONCE)):
        yield some
