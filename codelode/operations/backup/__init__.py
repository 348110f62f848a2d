"""A whole cluster in a folder, and back: chunk index, ledger, graph, symbol table; also mirrors.

    backup.json     what it is, with the size and digest of every other file; written last
    redis.dump      our keys (`codelode.backends.redis.dump`)
    index/          the embedded index; empty for Weaviate, whose server keeps its own backup
    mirrors/        when they were asked for; without, the next run of a repository clones it again

The cluster may run while it is saved. Index and keys are of one moment, at which no worker writes
(`codelode.backends.redis.index_swap`): a ledger that is ahead of its index would never notice
what is missing. The embedded index costs the workers no time, its copy is that of a transaction;
Weaviate's backup and the keys do: their writes wait. What has a run under way is saved half done,
and the run begins again after the restoration. Restoring takes a cluster without workers.

Raises InvalidSettings, NotIndexed, SchemaMismatch and Corrupt, each with the remedy.
"""

from codelode.operations.backup.manifest import Manifest, read
from codelode.operations.backup.restoring import restore
from codelode.operations.backup.saving import save

__all__ = ["Manifest", "read", "restore", "save"]
