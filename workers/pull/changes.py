"""Compare a commit with the index, and return a manifest of the files to process.

There are three ways with the same result. From most to least expensive: all files, if nothing is
indexed yet; a comparison of all files with the ledger's records, if the indexed commit is gone
after a forced push, if a rule or the operator's patterns changed, or if the last run did not end;
otherwise the diff of two commits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from codelode.counts import counted
from codelode.errors import InvalidQuery
from codelode.languages import QUERIES_FOLDER
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    ALL_FILES,
    BlobId,
    FilePatterns,
    FileRecord,
    FileState,
    Revision,
    SourceFile,
)
from workers.pull import ignore, tree
from workers.pull.objects import Objects

Read = Callable[[str], bytes | None]


def plan(
    mirror: Path,
    wanted: Revision,
    *,
    indexed: Revision | None,
    known: Callable[[], Iterable[FileRecord]],
    max_file_bytes: int,
    max_paths: int = tree.MAX_PATHS,
    known_paths: int = 0,
    patterns: FilePatterns = ALL_FILES,
    full: bool = False,
    reindex: bool = False,
) -> FileManifest:
    """Return the files of `wanted` to index or remove, and those left out with their reasons.

    `known` gives the ledger's records of the ref; it is called at most once, and not for a
    diff. `full` compares with them even if a diff were enough (the last run did not end, or had
    other `patterns`); `reindex` processes every file, unchanged ones too. A file that was indexed
    and is left out now is in both parts of the manifest, because its chunks must be removed.
    `known_paths`: number of files of the indexed commit. Raises NotFound if the mirror does not
    have `wanted`, Rejected if that has more than `max_paths` files, InvalidQuery if the patterns
    include none of its files: a typing error must not empty the index.
    """
    if wanted == indexed and not full and not reindex:
        return FileManifest(wanted, ())
    rules = partial(ignore.Rules, max_file_bytes=max_file_bytes, operators=patterns)
    with Objects(mirror) as objects:
        if indexed is not None and not full and not reindex and objects.has_commit(indexed):
            changes = tree.difference(mirror, indexed, wanted, max_paths=max_paths)
            tree.require_few(known_paths + _growth(changes), max_paths)
            reindex = any(map(_changes_queries, changes))
            if not reindex and not any(map(_changes_rules, changes)):
                read = _reader(wanted, objects, max_file_bytes)
                return _from_difference(wanted, changes, rules(read))
        listed = tree.listing(mirror, wanted, max_paths=max_paths)
        files = {file.path: file for file in listed}
        records = {record.path: record for record in known()}
        reindex = reindex or _have_other_queries(files, records)
        chosen = rules(_listed_reader(files, objects, max_file_bytes))
        _require_some(files, chosen)
        return _from_listing(wanted, files, chosen, records, reindex=reindex)


def _growth(changes: Iterable[tree.Change]) -> int:
    """Return how many more files the newer commit has."""
    return sum((change.new is not None) - (change.old is not None) for change in changes)


def _require_some(paths: Collection[str], rules: ignore.Rules) -> None:
    if paths and not any(map(rules.is_included, paths)):
        given = ", ".join(rules.operators.include)
        raise InvalidQuery(
            "include",
            f"{given} matches none of the {counted(len(paths), 'file')}, so the index was not "
            "changed; the patterns stay stored until you give others, or --no-patterns for all "
            "files",
        )


@dataclass(slots=True)
class _Draft:
    """A manifest under construction."""

    items: list[WorkItem] = field(default_factory=list)
    skipped: list[FileRecord] = field(default_factory=list)

    def index(self, file: SourceFile) -> None:
        self.items.append(WorkItem(file.path, file.blob, file.size_bytes))

    def remove(self, path: str) -> None:
        self.items.append(WorkItem(path, BlobId("")))

    def skip(self, file: SourceFile, reason: str) -> None:
        self.skipped.append(FileRecord(file.path, file.blob, FileState.SKIPPED, reason))

    def manifest(self, revision: Revision) -> FileManifest:
        return FileManifest(revision, tuple(self.items), tuple(self.skipped))


def _from_difference(
    wanted: Revision, changes: Iterable[tree.Change], rules: ignore.Rules
) -> FileManifest:
    draft = _Draft()
    for change in changes:
        if change.new is None:
            draft.remove(change.path)
        elif reason := rules.reason(change.new):
            draft.skip(change.new, reason)
            if change.old is not None and not rules.reason(change.old):
                draft.remove(change.path)
        else:
            draft.index(change.new)
    return draft.manifest(wanted)


def _from_listing(
    wanted: Revision,
    files: Mapping[str, SourceFile],
    rules: ignore.Rules,
    records: Mapping[str, FileRecord],
    *,
    reindex: bool,
) -> FileManifest:
    draft = _Draft()
    for path, file in files.items():
        record = records.get(path)
        if reason := rules.reason(file):
            draft.skip(file, reason)
            if record is not None and record.state is not FileState.SKIPPED:
                draft.remove(path)
        elif reindex or not _is_settled(record, file):
            draft.index(file)
    for path in records:
        if path not in files:
            draft.remove(path)
    return draft.manifest(wanted)


def _is_settled(record: FileRecord | None, file: SourceFile) -> bool:
    """Return whether this content has been processed, successfully or not."""
    if record is None or record.blob != file.blob:
        return False
    if record.is_due or record.state is FileState.PENDING:
        return False
    return not (record.state is FileState.SKIPPED and record.reason in ignore.REASONS)


def _changes_rules(change: tree.Change) -> bool:
    """Return whether a change of this file may change which other files are left out."""
    name = change.path.rpartition("/")[2]
    comes_or_goes = change.old is None or change.new is None
    return name == ignore.IGNORE_FILE or (comes_or_goes and name in ignore.FILLING_FILES)


def _changes_queries(change: tree.Change) -> bool:
    """Return whether a change of this file may change how other files are parsed."""
    return change.path.startswith(QUERIES_FOLDER)


def _have_other_queries(files: Mapping[str, SourceFile], records: Mapping[str, FileRecord]) -> bool:
    """Return whether the records were made with other queries than the repository's."""
    wanted = {(path, file.blob) for path, file in files.items() if path.startswith(QUERIES_FOLDER)}
    used = {(path, one.blob) for path, one in records.items() if path.startswith(QUERIES_FOLDER)}
    return wanted != used


def _reader(revision: Revision, objects: Objects, max_bytes: int) -> Read:
    """Return a reader of the commit's files: None for a path that does not exist.

    Of a file larger than `max_bytes`, it returns one byte more than that.
    """
    return lambda path: objects.read(f"{revision}:{path}", max_bytes=max_bytes + 1)


def _listed_reader(files: Mapping[str, SourceFile], objects: Objects, max_bytes: int) -> Read:
    """Return a reader as `_reader` does, which asks git only for files that exist."""

    def read(path: str) -> bytes | None:
        file = files.get(path)
        return None if file is None else objects.read(file.blob, max_bytes=max_bytes + 1)

    return read
