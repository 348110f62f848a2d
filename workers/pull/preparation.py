"""Resolve a run to its ref, its revision, and the files that need work.

The files are found by a diff with the indexed commit if the last run of the ref completed, with the
same patterns, parser and embedder. Otherwise each file of the tree is compared with its record in
the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
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
    Revision,
    Run,
)
from codelode.repository_rules import RepositoryRules
from workers.pull import tree
from workers.pull.changes import plan
from workers.pull.mirror import Mirrors

#: What `update` returns for a source that is on no branch.
NOT_CHECKED_OUT = RefName("")


class BeingRemoved(Unavailable):
    """The repository or the ref is still being removed; the run waits until that has ended."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The resolved ref of a run, and its manifest."""

    ref: RefName
    manifest: FileManifest
    gone: tuple[RefName, ...] = ()  # other indexed refs that have left the source


def update(
    run: Run, *, ledger: Ledger, mirrors: Mirrors, is_wanted: Callable[[], bool] = lambda: True
) -> RefName:
    """Update the mirror of the run's repository; return the branch that its source is on, if any.

    A run that only writes new groups uses the existing mirror, if there is one: its source may be
    gone, and thousands of repositories may be regrouped. A run of DEFAULT_REF updates the mirror
    nevertheless, because its detached source may have a branch now.
    Raises what `Mirrors.sync` raises; NotFound if the repository was removed, BeingRemoved while it
    is being removed.
    """
    repository = _registered(run, ledger)
    if repository.name in ledger.being_removed():
        raise BeingRemoved(f"{run.repository} is still being removed")
    is_of_groups = run.reprocess == (Reprocess.GROUPS,) and run.ref != DEFAULT_REF
    if is_of_groups and mirrors.git_dir(repository.name).is_dir():
        return NOT_CHECKED_OUT
    return mirrors.sync(repository, is_wanted=is_wanted)


def _registered(run: Run, ledger: Ledger) -> Repository:
    repository = ledger.get(run.repository)
    if repository is None:
        raise NotFound(f"repository {run.repository} was removed")
    return repository


def prepare(
    run: Run,
    *,
    ledger: Ledger,
    mirrors: Mirrors,
    fingerprint: str,
    max_file_bytes: int,
    max_paths: int = tree.MAX_PATHS,
    checked_out: RefName = NOT_CHECKED_OUT,
    rules: RepositoryRules | None = None,
) -> Prepared:
    """Find changed files in the updated mirror; files to reprocess count as changed.

    `checked_out` is the result of `update`. `rules` are those of the connection that the repository
    belongs to, if any. With them, its default ref follows the default branch of its source, unless
    that is a checkout, in which the user often changes branches. Raises what `Mirrors.resolve` and
    `plan` raise, NotFound if the repository was removed.
    """
    repository = _registered(run, ledger)
    follows = rules is not None and not checked_out
    ref, revision = _resolve(repository, run, mirrors, follows=follows)
    require_staying(ledger, repository.name, ref)
    then = _with_default(repository, run, ref, follows=follows)
    replaces = _replaced(repository, then, rules)
    abandoned = _abandoned(repository, then, ledger)
    statuses = {status.ref: status for status in ledger.refs(repository.name)}
    status, gone = statuses.get(ref), mirrors.gone(repository.name, statuses)
    is_marked = status is None or then.default_ref == repository.default_ref
    patterns = repository.patterns
    manifest = plan(
        mirrors.git_dir(repository.name),
        revision,
        indexed=status.indexed if status else None,
        known=partial(_records, ledger, repository.name, ref, reprocess=run.reprocess),
        max_file_bytes=max_file_bytes,
        max_paths=max_paths,
        known_paths=status.paths if status else 0,
        patterns=patterns,
        full=bool(run.reprocess) or not _is_settled(status, patterns),
        reindex=not is_marked
        or status is None
        or status.fingerprint != fingerprint
        or Reprocess.GROUPS in run.reprocess,
    )
    manifest = replace(
        manifest,
        patterns=patterns.digest,
        # The stored chunks belong to another index, or are not marked with the default ref.
        is_rebuild=not is_marked or not _is_same_index(status, fingerprint),
        makes_default=then != repository,
        is_pinned=then.is_pinned,
        follows_default=then.follows_default,
        replaces=replaces,
        committed_at=mirrors.committed_at(repository.name, revision),
        notices=(
            *_notices(repository, then, run, ref, mirrors=mirrors, checked_out=checked_out),
            *((f"{replaces} is removed from the index",) if replaces not in (None, *gone) else ()),
            *(_departure(one, then) for one in gone),
        ),
    )
    leaving = tuple(one for one in gone if one != then.default_ref)
    return Prepared(ref, _with_removals(manifest, abandoned), leaving)


def require_staying(ledger: Ledger, name: RepositoryName, ref: RefName) -> None:
    """Raise BeingRemoved while the index still holds files of the ref from before its removal."""
    if (name, ref) in ledger.refs_being_removed():
        raise BeingRemoved(f"{ref} of {name} is still being removed")


def _resolve(
    repository: Repository, run: Run, mirrors: Mirrors, *, follows: bool
) -> tuple[RefName, Revision]:
    """Return the ref to index, and its commit.

    A run without a ref indexes the default ref, even if the source has another default branch now,
    unless the default ref follows that. If the source no longer has the default ref, its default
    branch replaces it.
    """
    is_fixed = repository.is_pinned and not (follows and repository.follows_default)
    if is_fixed and _asks_for_default(run):
        with suppress(NotFound):
            return mirrors.resolve(repository.name, repository.default_ref)
    return mirrors.resolve(repository.name, run.ref)


def _asks_for_default(run: Run) -> bool:
    return run.ref == DEFAULT_REF and Reprocess.DEFAULT not in run.reprocess


def _with_default(repository: Repository, run: Run, ref: RefName, *, follows: bool) -> Repository:
    """Return the repository with the default ref that it has after the run.

    The first run without a ref decides. Until then, the ref that was indexed first is the default,
    because searches without a ref would otherwise find nothing. The HEAD of a detached source is
    never pinned: a branch replaces it as soon as the source has one. A ref that was chosen with
    `codelode default` stays the default as long as the source has it.
    """
    if run.ref != DEFAULT_REF and Reprocess.DEFAULT not in run.reprocess:
        return repository if repository.default_ref else replace(repository, default_ref=ref)
    is_fixed = repository.is_pinned and not repository.follows_default
    stays_fixed = is_fixed and _asks_for_default(run) and ref == repository.default_ref
    is_pinned, is_chosen = ref != DEFAULT_REF, run.ref != DEFAULT_REF or stays_fixed
    follows_now = follows and is_pinned and not is_chosen
    return replace(repository, default_ref=ref, is_pinned=is_pinned, follows_default=follows_now)


def _replaced(
    before: Repository, then: Repository, rules: RepositoryRules | None
) -> RefName | None:
    """Return the default ref to remove because the source has another default branch.

    Returns None if there is none, or if a rule selects it.
    """
    is_other = before.default_ref != then.default_ref
    if rules is None or not (is_other and before.follows_default and then.follows_default):
        return None
    is_named = rules.names_ref(before.default_ref, is_tag=False)
    return None if is_named else before.default_ref


def _abandoned(before: Repository, then: Repository, ledger: Ledger) -> frozenset[str]:
    """Return the paths of a default ref that is replaced.

    Their chunks are marked with DEFAULT_REF, and searches without a ref must no longer find them.
    """
    if before.default_ref in ("", then.default_ref):
        return frozenset()
    records = ledger.all(before.name, before.default_ref)
    return frozenset(one.path for one in records if one.state is not FileState.SKIPPED)


def _notices(
    before: Repository,
    then: Repository,
    run: Run,
    ref: RefName,
    *,
    mirrors: Mirrors,
    checked_out: RefName,
) -> tuple[str, ...]:
    """Return notices about what may be unexpected about the ref that was indexed."""
    default, name = then.default_ref, before.name
    found = []
    if before.default_ref not in ("", default):
        found.append(f"the default ref is now {default}, no longer {before.default_ref}")
    if ref != default:
        found.append(
            f"{ref} is indexed; searches without --ref use the default ref {default} "
            f"(`codelode default {name} {ref}` changes that)"
        )
    if _asks_for_default(run) and checked_out not in ("", ref):
        found.append(
            f"{ref} is the default ref and is indexed, not {checked_out}, which is checked out: "
            f"`--ref {checked_out}` indexes it"
        )
    elif _asks_for_default(run) and (of_source := mirrors.default_ref(name)) != ref:
        found.append(
            f"the default branch of the source is {of_source}, but the default ref stays {ref} "
            f"until you run `codelode default {name} HEAD`"
        )
    return tuple(found)


def _departure(ref: RefName, then: Repository) -> str:
    """Return the notice about an indexed ref that has left the source."""
    if ref != then.default_ref:
        return f"{ref} has left the source and is removed from the index"
    return (
        f"the default ref {ref} has left the source and stays in the index; "
        f"`codelode default {then.name} HEAD` replaces it by the source's default branch"
    )


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
    """Return whether summaries are missing, or there was no language model to make them."""
    has_none = record.chunks > 0 and not record.summaries
    return record.state is FileState.INDEXED and (record.summaries_missing > 0 or has_none)


def _with_removals(manifest: FileManifest, paths: frozenset[str]) -> FileManifest:
    gone = sorted(paths - {item.path for item in manifest.items})
    return replace(
        manifest, items=manifest.items + tuple(WorkItem(path, BlobId("")) for path in gone)
    )
