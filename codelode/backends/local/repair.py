"""Making the keyword index hold what the database holds: after a crash, or from nothing."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import structlog

from codelode.backends.local import keyword_index, tables

#: Rows read and indexed between two reports.
_ROWS_PER_STEP = 5_000

_log = structlog.get_logger(__name__)


def folder_of(folder: Path, number: int) -> Path:
    """Where the keyword index with this number is; each one made anew gets the next."""
    return folder / f"keywords-{number}"


def start(folder: Path, number: int) -> Path:
    """An empty keyword index, in place of whatever an unfinished attempt left."""
    at = folder_of(folder, number)
    shutil.rmtree(at, ignore_errors=True)
    keyword_index.create(at)
    return at


def catch_up(index: keyword_index.Writer, connection: sqlite3.Connection) -> None:
    """Take rows out that the database does not have, and put those in that are missing."""
    held = index.rows()
    stored = {row for (row,) in connection.execute("SELECT row FROM chunks")}
    orphans, missing = held - stored, sorted(stored - held)
    _log.info("keyword_index_compared", orphans=len(orphans), missing=len(missing))
    index.delete(orphans)
    for start in range(0, len(missing), _ROWS_PER_STEP):
        index.add(tables.chunks(connection, missing[start : start + _ROWS_PER_STEP]))
        done = min(start + _ROWS_PER_STEP, len(missing))
        _log.info("keyword_index_filled", rows=done, of=len(missing))


def remove_others(folder: Path, number: int) -> None:
    """Delete the keyword indexes that another replaced."""
    for other in folder.glob("keywords-*"):
        if other != folder_of(folder, number):
            shutil.rmtree(other, ignore_errors=True)
