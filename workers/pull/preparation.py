"""Resolve a run to its ref, its revision, and the files that need work.

The files are found by a diff with the indexed commit if the last run of the ref completed, with the
same patterns, parser and embedder. Otherwise each file of the tree is compared with its record in
the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

from codelode.errors import NotFound, Unavailable
from codelode.ledger import FileManifest, Ledger, WorkItem
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    FilePatterns,
    FileRecord,
    FileState,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    Reprocess,
    Run,
)
from workers.pull.changes import plan
from workers.pull.mirror import Mirrors


class BeingRemoved(Unavailable):
    """The repository is still being removed; the run waits until that has ended."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The resolved ref of a run, and its manifest."""

    ref: RefName
    manifest: FileManifest


def prepare(
    run: Run,
    *,
    ledger: Ledger,
    mirrors: Mirrors,
    fingerprint: str,
    max_file_bytes: int,
) -> Prepared:
    """Update the mirror and find changed files; files to reprocess count as changed.

    Raises what `Mirrors.sync` and `Mirrors.resolve` raise; NotFound if the repository was removed,
    BeingRemoved while it is being removed.
    """
    repository = ledger.get(run.repository)
    if repository is None:
        raise NotFound(f"repository {run.repository} was removed")
    if repository.name in ledger.being_removed():
        raise BeingRemoved(f"{run.repository} is still being removed")
    mirrors.sync(repository)
    ref, revision = mirrors.resolve(repository.name, run.ref)
    abandoned = _settle_default(repository, run.ref, ref, ledger=ledger)
    status = _status(ledger, repository.name, ref)
    patterns = repository.patterns
    manifest = plan(
        mirrors.git_dir(repository.name),
        revision,
        indexed=status.indexed if status else None,
        known=partial(_records, ledger, repository.name, ref, reprocess=run.reprocess),
        max_file_bytes=max_file_bytes,
        patterns=patterns,
        full=bool(run.reprocess) or not _is_settled(status, patterns),
        reindex=bool(abandoned) or status is None or status.fingerprint != fingerprint,
    )
    manifest = replace(
        manifest,
        patterns=patterns.digest,
        # Stored chunks belong to another index, or are not marked with the default ref.
        is_rebuild=bool(abandoned) or not _is_same_index(status, fingerprint),
    )
    return Prepared(ref, _with_removals(manifest, abandoned))


def _settle_default(
    repository: Repository, asked: RefName, ref: RefName, *, ledger: Ledger
) -> frozenset[str]:
    """Make `ref` the default if it is the first one, or the source's default branch has changed.

    Returns the indexed paths of the previous default ref, which searches without a ref must no
    longer find.
    """
    if repository.default_ref and (asked != DEFAULT_REF or ref == repository.default_ref):
        return frozenset()
    ledger.register(replace(repository, default_ref=ref))
    if not repository.default_ref:
        return frozenset()
    abandoned = ledger.all(repository.name, repository.default_ref)
    return frozenset(
        record.path for record in abandoned if record.chunks or record.state is FileState.INDEXED
    )


def _status(ledger: Ledger, name: RepositoryName, ref: RefName) -> RefStatus | None:
    return next((status for status in ledger.refs(name) if status.ref == ref), None)


def _is_settled(status: RefStatus | None, patterns: FilePatterns) -> bool:
    """Return whether the last run of the ref completed with the same patterns."""
    return status is not None and status.is_clean and status.patterns == patterns.digest


def _is_same_index(status: RefStatus | None, fingerprint: str) -> bool:
    """Compare the ends of both fingerprints: the store, and the embedder of its contents."""
    return status is None or _index(status.fingerprint) == _index(fingerprint)


def _index(fingerprint: str) -> str:
    return fingerprint.rpartition(", store ")[2]


def _records(
    ledger: Ledger, name: RepositoryName, ref: RefName, *, reprocess: Collection[Reprocess]
) -> Iterator[FileRecord]:
    """Return the ledger's records of the ref; those to reprocess are marked as pending."""
    for record in ledger.all(name, ref):
        is_redone = (Reprocess.FAILED in reprocess and record.state is FileState.FAILED) or (
            Reprocess.SUMMARIES in reprocess and _lacks_summaries(record)
        )
        yield replace(record, state=FileState.PENDING) if is_redone else record


def _lacks_summaries(record: FileRecord) -> bool:
    """Return whether summaries are missing, or none were made for lack of a language model."""
    has_none = record.chunks > 0 and not record.summaries
    return record.state is FileState.INDEXED and (record.summaries_missing > 0 or has_none)


def _with_removals(manifest: FileManifest, paths: frozenset[str]) -> FileManifest:
    gone = sorted(paths - {item.path for item in manifest.items})
    return replace(
        manifest, items=manifest.items + tuple(WorkItem(path, BlobId("")) for path in gone)
    )
