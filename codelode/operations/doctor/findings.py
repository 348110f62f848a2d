"""The findings of an examination, and their wording."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from codelode.counts import counted
from codelode.display import quoted
from codelode.model import RefName, RepositoryName, RunId

NOBODY = RepositoryName("")
NO_REF = RefName("")


class Trouble(StrEnum):
    """The kinds of differences, worst first."""

    LOST = "lost"  # indexed files with missing or additional chunks in the index
    REMOVED = "removed"  # data of a repository that is not registered
    STRAY = "stray"  # chunks of files that the ledger has not indexed at the ref
    ENTRIES = "entries"  # graph, symbol, or reference entries of files that are not at the ref
    MIRROR = "mirror"  # a mirror of a repository that is not registered
    HANDOVER = "handover"  # stage outputs of a run that is over
    INDEX = "index"  # an unpublished index that no process builds or reads


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of difference at one repository or ref."""

    trouble: Trouble
    repository: RepositoryName = NOBODY
    ref: RefName = NO_REF
    names: tuple[str, ...] = ()  # of files, tables, folders, or runs
    is_repaired: bool = False

    def __str__(self) -> str:
        """Return `acme/app main: 3 files: chunks are missing or too many, for example src/a.py`."""
        count, first = len(self.names), quoted(self.names[0]) if self.names else ""
        files = counted(count, "file")
        such = f", for example {first}"
        said = {
            Trouble.LOST: f"{files}: chunks are missing or too many{such}",
            Trouble.REMOVED: f"is not registered, but is in {' and '.join(self.names)}",
            Trouble.STRAY: f"{files}: in the index, but not indexed according to the ledger{such}",
            Trouble.ENTRIES: f"{files}: in graph or symbol table, but not in the ledger{such}",
            Trouble.MIRROR: f"mirror of a repository that is not registered: {first}",
            Trouble.HANDOVER: f"stage outputs of {counted(count, 'run')} that ended{such}",
            Trouble.INDEX: f"an index that was replaced or abandoned: {first}",
        }[self.trouble]
        place = " ".join(part for part in (self.repository, quoted(self.ref)) if part)
        return f"{place}: {said}" if place else said


@dataclass(slots=True)
class Report:
    """The findings in the order of the checks."""

    findings: list[Finding] = field(default_factory=list)
    busy: list[RepositoryName] = field(default_factory=list)  # skipped, because they have a run
    runs: list[RunId] = field(default_factory=list)  # started to index lost files again

    @property
    def is_healthy(self) -> bool:
        """Return whether nothing is wrong, or everything was repaired."""
        return all(finding.is_repaired for finding in self.findings)
