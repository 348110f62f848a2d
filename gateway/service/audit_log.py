"""Write the audit log: one JSON line for each call, in a file that is rotated by size.

A thread writes the file, so no call waits for the disk. If the file cannot be written, calls go on
and the log reports it. When the file can be written again, a line in it has the number of lost
records.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from codelode.access import Principal, Role
from codelode.errors import CodelodeError, InvalidSettings
from codelode.settings import Settings
from gateway.service.audit import CallFacts
from gateway.service.capabilities import CAPABILITIES, Kind
from gateway.throttle import Throttle

#: Maximum number of records that wait to be written, usually about 10 MB; more are lost, and
#: counted.
MAX_WAITING = 20_000
#: Maximum number of records in one write.
MAX_BATCH = 1_000
#: Shortest time between two log events about a file that cannot be written, seconds.
LOG_INTERVAL_S = 60.0
#: Longest wait for the last records when the gateway stops, seconds.
CLOSE_S = 5.0

_NEWLINE = ord("\n")

_log = structlog.get_logger("gateway")

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Call:
    """A finished call."""

    function: str  # the service function
    source: str  # address of the caller
    request_id: str
    principal: Principal | None  # None: the caller was not authenticated
    facts: CallFacts
    error: BaseException | None  # the error that ended the call


def opened(settings: Settings) -> AuditLog | None:
    """Return the audit log, or None if the settings name none. Raises InvalidSettings."""
    if not settings.audit_log:
        return None
    path = Path(settings.audit_log).expanduser()
    try:
        file = RotatedFile(path, settings.audit_log_mb * 1_000_000, settings.audit_log_files)
        file.write(b"")
    except OSError as exc:
        raise InvalidSettings(f"CODELODE_AUDIT_LOG={str(path)!r} cannot be written: {exc}") from exc
    return AuditLog(file, reads=settings.audit_reads, queries=settings.audit_queries)


class RotatedFile:
    """A file of lines with mode 0600, and older files `PATH.1` (the newest) to `PATH.<kept>`."""

    def __init__(self, path: Path, max_bytes: int, kept: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._file: int | None = None
        self._is_torn = False  # whether the last line is incomplete

    def write(self, lines: bytes) -> None:
        """Append whole lines. Raises OSError; the next call then starts a new line."""
        if self._size() and self._size() + len(lines) > self._max_bytes:
            self._rotate()
        remaining = b"\n" + lines if self._is_torn else lines
        while remaining:
            written = os.write(self._opened(), remaining)
            self._is_torn = remaining[written - 1] != _NEWLINE
            remaining = remaining[written:]

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _opened(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            os.fchmod(self._file, 0o600)
            size = os.fstat(self._file).st_size
            self._is_torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        return self._file

    def _size(self) -> int:
        return os.fstat(self._opened()).st_size

    def _rotate(self) -> None:
        self.close()
        for number in range(self._kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._older(number).replace(self._older(number + 1))
        self._path.replace(self._older(1))

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class AuditLog:
    """Records calls. `record` may be called in any thread and never waits."""

    def __init__(self, file: RotatedFile, *, reads: bool, queries: bool) -> None:
        self._file = file
        self._reads = reads
        self._queries = queries
        self._waiting: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self.lost = 0  # records lost since their number was last written
        self._counting = threading.Lock()
        self._is_failing = False
        self._logging = Throttle(LOG_INTERVAL_S)
        self._thread = threading.Thread(target=self._write_all, name="audit", daemon=True)
        self._thread.start()

    def record(self, call: Call) -> None:
        """Record a call. Reads of known callers are recorded only if `reads` is set."""
        if call.principal is not None and not self._reads and _is_read(call.function):
            return
        if self._waiting.qsize() >= MAX_WAITING:
            self._lose(1)
            return
        self._waiting.put(_record(call, with_query=self._queries))

    def close(self) -> None:
        """Write the waiting records, and close the file."""
        self._waiting.put(None)
        self._thread.join(CLOSE_S)

    def _write_all(self) -> None:
        is_open = True
        while is_open:
            batch = self._next()
            is_open = None not in batch
            self._write([one for one in batch if one is not None])
        self._file.close()

    def _next(self) -> list[Record | None]:
        batch = [self._waiting.get()]
        with suppress(queue.Empty):
            while len(batch) < MAX_BATCH:
                batch.append(self._waiting.get_nowait())
        return batch

    def _write(self, records: Sequence[Record]) -> None:
        lost = self.lost
        gap = [{"time": _now(), "lost_records": lost}] if lost else []
        lines = "".join(f"{json.dumps(one, ensure_ascii=True)}\n" for one in (*gap, *records))
        try:
            self._file.write(lines.encode())
        except OSError as exc:
            self._lose(len(records))
            self._report(exc)
            return
        self._lose(-lost)
        if self._is_failing:
            _log.info("audit_log_recovered", lost=lost)
            self._is_failing = False
            self._logging.reset()

    def _lose(self, count: int) -> None:
        with self._counting:
            self.lost += count

    def _report(self, error: OSError) -> None:
        self._is_failing = True
        if self._logging.passes():
            _log.error("audit_log_failed", error=str(error), lost=self.lost)


def _is_read(function: str) -> bool:
    """Return whether a call changes nothing and is not reserved for admins."""
    row = CAPABILITIES[function]
    return row.kind is not Kind.WRITE and row.role is not Role.ADMIN


def _record(call: Call, *, with_query: bool) -> Record:
    principal = call.principal
    record: dict[str, object] = {
        "time": _now(),
        "request": call.request_id,
        "principal": principal.name if principal else "",
        "role": principal.role.value if principal else "",
        "source": call.source,
        "call": call.function,
        "repositories": list(call.facts.repositories),
        "outcome": _outcome(call.error),
    }
    if call.facts.details:
        record["details"] = call.facts.details
    if with_query and call.facts.query:
        record["query"] = call.facts.query
    return record


def _outcome(error: BaseException | None) -> str:
    """Return `ok`, the name of our error, `cancelled`, or `defect`."""
    if error is None:
        return "ok"
    if isinstance(error, CodelodeError):
        return type(error).__name__
    return "defect" if isinstance(error, Exception) else "cancelled"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
