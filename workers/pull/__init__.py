"""Update the mirror of a repository and find the files that need work (pull stage).

`Mirrors.sync` brings a bare mirror up to date, `Mirrors.resolve` turns a ref into a commit,
`plan` compares that commit with what is indexed and returns a `FileManifest`, and `GitBlobs` reads
the files' contents for the jobs that follow. Nothing is ever checked out, so hooks, filters,
links and unsafe paths in a repository have no effect. Raises only `CodelodeError`s: `Unavailable`
if a retry may help, `NotFound`, `Denied` and `InvalidQuery` if not.
"""

from workers.pull.blobs import GitBlobs
from workers.pull.changes import plan
from workers.pull.ignore import VERSION as RULES_VERSION
from workers.pull.mirror import Mirrors
from workers.pull.preparation import (
    BeingRemoved,
    Prepared,
    prepare,
    require_staying,
    update,
)
from workers.pull.recent import recently_changed

__all__ = [
    "RULES_VERSION",
    "BeingRemoved",
    "GitBlobs",
    "Mirrors",
    "Prepared",
    "plan",
    "prepare",
    "recently_changed",
    "require_staying",
    "update",
]
