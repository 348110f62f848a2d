"""Back up a whole cluster to a folder and restore it: chunk index, ledger, graph, symbol table,
mirrors.

    backup.json     the manifest, with the size and digest of every other file; written last
    redis.dump      the keys of the cluster (`codelode.backends.redis.dump`)
    index/          the embedded index; empty for Weaviate, whose server keeps its own backup
    mirrors/        only on request; without them the next run of a repository clones it again

The cluster may run while it is saved. Index and keys are of the same moment, at which no worker
writes (`codelode.backends.redis.index_swap`): a ledger that is ahead of its index would never
notice what is missing. The workers' writes wait during Weaviate's backup and the copy of the keys,
but not while the embedded index is copied, which is one transaction. A run that is under way is
saved half done and starts again after the restoration. Restore only while no workers run.

Raises InvalidSettings, NotIndexed, SchemaMismatch, and Corrupt, each with the remedy.
"""

from codelode.operations.backup.manifest import Manifest, read
from codelode.operations.backup.restoring import restore
from codelode.operations.backup.saving import save

__all__ = ["Manifest", "read", "restore", "save"]
