"""Convert the values of the job ledger to what Redis stores, and back.

`ledger.lua` lists the keys and their values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

from codelode import estimates
from codelode.access import Label
from codelode.covers import Grouped
from codelode.ledger import Advance, FileManifest, WorkItem
from codelode.model import (
    BlobId,
    FilePatterns,
    FileRecord,
    FileState,
    HealthStatus,
    LanguageHealth,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    Reprocess,
    Revision,
    Run,
    RunId,
    RunKind,
    RunState,
)

#: Defaults of a record's values; records of older releases lack the last ones.
_NO_RECORD = ("", "", "", "", "", 0, 0, 0, 0, 0)

T = TypeVar("T")


def parse_advance(reply: Sequence[Any]) -> Advance:
    """Parse the reply of the scripts that advance a run."""
    flat, is_over, following = reply
    return Advance(
        items=tuple(parse_item(row) for row in rows(flat, 4)),
        is_over=bool(is_over),
        next_run=RunId(following.decode()) if following else None,
    )


def parse_item(row: Sequence[bytes]) -> WorkItem:
    path, blob, size, stage = (value.decode() for value in row)
    return WorkItem(path, BlobId(blob), int(size), stage)


def flat_records(records: Iterable[FileRecord]) -> list[str]:
    """Return the path and the stored value of each record, one after the other."""
    return [part for record in records for part in (record.path, _dump(record))]


def _dump(record: FileRecord) -> str:
    return json.dumps(
        [
            record.blob,
            record.state,
            record.reason,
            record.language,
            record.health or "",
            record.chunks,
            record.summaries,
            record.summaries_missing,
            1,  # the record is in the counts of health
            int(record.is_due),
        ]
    )


def parse_record(path: str, value: bytes) -> FileRecord:
    stored: list[Any] = json.loads(value)
    stored += _NO_RECORD[len(stored) :]
    blob, state, reason, language, health, chunks, made, missing, _, is_due = stored
    return FileRecord(
        path=path,
        blob=blob,
        state=FileState(state),
        reason=reason,
        language=language,
        health=HealthStatus(health) if health else None,
        chunks=chunks,
        summaries=made,
        summaries_missing=missing,
        is_due=bool(is_due),
    )


def parse_repository(
    name: RepositoryName,
    value: bytes,
    include: bytes | None = None,
    exclude: bytes | None = None,
    label: bytes | None = None,
) -> Repository:
    url, default_ref, *how = json.loads(value)
    patterns = FilePatterns(_patterns(include), _patterns(exclude))
    return Repository(
        name,
        url,
        default_ref,
        patterns,
        is_pinned=how in ([1], [2]),
        follows_default=how == [2],
        label=parse_label(label),
    )


def pinned(made: Repository | FileManifest) -> int:
    """Return how the default ref was chosen: 0, or 1 if it is pinned, or 2 if it also follows."""
    return made.is_pinned + made.follows_default


@lru_cache(maxsize=1 << 16)  # parsing 10,000 takes 20 ms, and gateways ask twice a second
def parse_url(value: bytes) -> str:
    return str(json.loads(value)[0])


def parse_label(value: bytes | None) -> Label | None:
    return Label(value.decode()) if value else None


def _patterns(value: bytes | None) -> tuple[str, ...]:
    return tuple(json.loads(value)) if value else ()


def parse_refs(
    name: RepositoryName, head: Sequence[Any], counts: Iterator[Mapping[bytes, bytes]]
) -> tuple[RefStatus, ...]:
    """Build the statuses of the refs of a repository from the replies of both round trips."""
    known, refs = head
    default = parse_repository(name, known).default_ref if known else ""
    statuses = [
        _ref_status(RefName(ref.decode()), value, next(counts)) for ref, value in refs.items()
    ]
    return tuple(sorted(statuses, key=lambda status: (status.ref != default, status.ref)))


def _ref_status(ref: RefName, value: bytes, counts: Mapping[bytes, bytes]) -> RefStatus:
    revision, fingerprint, is_clean, indexed_ms, *more = json.loads(value)
    return RefStatus(
        ref=ref,
        indexed=Revision(revision) if revision else None,
        fingerprint=fingerprint,
        is_clean=bool(is_clean),
        files=int(counts.get(b"indexed", 0)),
        skipped=int(counts.get(b"skipped", 0)),
        failed=int(counts.get(b"failed", 0)),
        pending=int(counts.get(b"pending", 0)),
        chunks=int(counts.get(b"chunks", 0)),
        indexed_at=indexed_ms / 1000,
        summaries_missing=int(counts.get(b"summaries_missing", 0)),
        health=_health(counts),
        patterns=more[0] if more else "",
        committed_at=float(more[1]) if len(more) > 1 else 0.0,
    )


def parse_groups(stored: bytes) -> Grouped:
    """Parse groups; if they are suspended, `?` and the former ones follow."""
    written, mark, former = stored.decode().partition("?")
    # Many repositories share a group, and each of these texts.
    groups, before = (tuple(map(intern, some.split())) for some in (written, former))
    return Grouped(groups, before if mark else None)


def _health(counts: Mapping[bytes, bytes]) -> tuple[LanguageHealth, ...]:
    """Parse the counts named `health STATUS LANGUAGE`."""
    found: dict[str, dict[str, int]] = {}
    for name, count in counts.items():
        what, _, rest = name.decode().partition(" ")
        status, _, language = rest.partition(" ")
        if what == "health" and int(count) > 0:
            found.setdefault(language, {})[status] = int(count)
    return tuple(LanguageHealth(language, **found[language]) for language in sorted(found))


def parse_run(fields: Mapping[bytes, bytes]) -> Run:
    text = {name.decode(): value.decode() for name, value in fields.items()}
    return Run(
        id=RunId(text["id"]),
        repository=RepositoryName(text["repository"]),
        ref=RefName(text["ref"]),
        state=RunState(text["state"]),
        revision=Revision(text["revision"]) if text.get("revision") else None,
        resolved=RefName(text.get("resolved", "")),
        total=int(text.get("total", 0)),
        done=int(text.get("done", 0)),
        failed=int(text.get("failed", 0)),
        skipped=int(text.get("skipped", 0)),
        error=text.get("error", ""),
        waits_for=text.get("waits_for", ""),
        summaries=int(text.get("summaries", 0)),
        summaries_missing=int(text.get("summaries_missing", 0)),
        reprocess=tuple(sorted({Reprocess(word) for word in text.get("redo", "").split()})),
        notices=tuple(json.loads(text.get("notices", "[]"))),
        started_at=float(text["started_ms"]) / 1000,
        finished_at=float(text.get("finished_ms", 0)) / 1000,
        kind=RunKind(text.get("kind", RunKind.INDEX)),
        estimate=estimates.load(text.get("estimate", "")),
        is_bulk=bool(text.get("is_bulk")),
    )


def rows(flat: Sequence[T], width: int) -> Iterator[Sequence[T]]:
    """Yield the rows of a flat reply."""
    for start in range(0, len(flat), width):
        yield flat[start : start + width]
