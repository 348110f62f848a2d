"""Builds a shadow index from what is indexed, and swaps it with the published one.

In: the ledger (which content each path of each ref has), the mirrors, the derivation cache, the
summaries of the published index where the cache has lost them, and an embedder. Out: an index as if
everything had been indexed with that embedder from the beginning. Searches are answered by the old
index, with the old embedder, until the moment of the swap.

It is a program of its own (`python -m workers.reindex`, which `codelode reindex` starts) rather
than a job, because it runs for hours: a broker would deliver such a message again and again. It
reads the ledger rather than the old index, so that an index of an older schema can be left; but
summaries that only such a one has are given up on demand alone (`--skip-missing`). It goes over the
ledger until little has changed since the last time, then once more while no worker writes
(`codelode.backends.redis.index_swap`), and publishes in one step (a Weaviate alias, or the embedded
store's pointer file).

The settings that name the embedder are stored with the index that was built for it, and go before
those of a process: so query embedder and index change at the same moment in every process, and
nobody has to be restarted. Whoever still holds the old index is told by it that it was superseded.
"""

from __future__ import annotations

from workers.reindex.build import Build, Missing, finish
from workers.reindex.content import Contents
from workers.reindex.stored_summaries import StoredSummaries

__all__ = ["Build", "Contents", "Missing", "StoredSummaries", "finish"]
