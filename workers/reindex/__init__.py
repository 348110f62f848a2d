"""Build a shadow index of all indexed files, and swap it with the published one.

In: the ledger (the blob of each path of each ref), the mirrors, the derived-value cache, the
summaries of the published index that the cache has lost, and an embedder. Out: the same index as if
everything had been indexed with that embedder from the beginning. Until the swap, the old index
answers searches, with the old embedder.

It is a separate program (`python -m workers.reindex`, which `codelode reindex` starts) and not a
job, because it runs for hours: a broker would deliver such a message again and again. It reads the
ledger and not the old index, so that an index of an older schema can be replaced; summaries that
only such an index has are lost, which `--skip-missing` must allow. It reads the whole ledger again
and again until a pass finds few changes, then once more while no worker writes
(`codelode.backends.redis.index_swap`), and publishes in one step (a Weaviate alias, or the embedded
store's pointer file).

The settings that name the embedder are stored with its index, and override the settings of a
process. So query embedder and index change at the same moment in every process, without a restart.
A process that still uses the old index gets the error Superseded.
"""

from __future__ import annotations

from workers.reindex.build import Build, Missing, finish
from workers.reindex.content import Contents
from workers.reindex.stored_summaries import StoredSummaries

__all__ = ["Build", "Contents", "Missing", "StoredSummaries", "finish"]
