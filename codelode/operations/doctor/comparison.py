"""Compare the ledger's records of a repository with the stored chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codelode.model import DEFAULT_REF, FileRecord, FileState, RefName

#: The record of each file, by ref and path.
Records = Mapping[RefName, Mapping[str, FileRecord]]

RefPath = tuple[RefName, str]


@dataclass(frozen=True, slots=True)
class Differences:
    """Files that differ, as ref and path. A stray file stored under DEFAULT_REF has that ref."""

    lost: frozenset[RefPath]
    stray: frozenset[RefPath]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(path for _, path in self.lost | self.stray)


def compare(
    records: Records, held: Mapping[str, Mapping[RefName, int]], *, default_ref: RefName
) -> Differences:
    """Return the files whose chunks do not match their records.

    `held`: path → number of chunks at each ref. A PENDING file may be stored or not, in its old or
    new version. A FAILED file may have the number of chunks in its record.
    """
    named = {**{ref: ref for ref in records}, DEFAULT_REF: default_ref}
    return Differences(
        frozenset(_lost(records, held, named)), frozenset(_stray(records, held, named))
    )


def _lost(
    records: Records, held: Mapping[str, Mapping[RefName, int]], named: Mapping[RefName, RefName]
) -> Iterator[RefPath]:
    for label, ref in named.items():
        for path, record in records.get(ref, {}).items():
            stored = held.get(path, {}).get(label, 0)
            is_known = record.state is FileState.INDEXED and not record.is_due
            if is_known and record.chunks != stored:
                yield ref, path


def _stray(
    records: Records, held: Mapping[str, Mapping[RefName, int]], named: Mapping[RefName, RefName]
) -> Iterator[RefPath]:
    for path, chunks in held.items():
        for label, stored in chunks.items():
            record = records.get(named.get(label, RefName("")), {}).get(path)
            if record is None or not _may_hold(record, stored):
                yield label, path


def _may_hold(record: FileRecord, stored: int) -> bool:
    if record.state is FileState.FAILED:
        return record.chunks == stored
    return record.state is not FileState.SKIPPED
