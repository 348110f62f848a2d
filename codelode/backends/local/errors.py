"""Translate the engines' errors: transient failures (a busy file, a full disk), and damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codelode.backends.remedies import AFRESH
from codelode.errors import CodelodeError, Corrupt, Unavailable

#: Parts of SQLite's messages that mean that the file is damaged; all others are transient.
_DATABASE_DAMAGE = ("malformed", "not a database", "no such table", "no such column", "corrupt")

#: Parts of the keyword index's messages that mean a transient failure; all others mean damage.
_TRANSIENT = (
    "LockBusy",
    "No space left",
    "Disk quota",
    "File too large",
    "Permission denied",
    "Operation not permitted",
    "Too many open files",
    "Read-only",
    "Input/output error",
    "writer was killed",
)


class Damaged(Exception):
    """The keyword index cannot be used; a writer can rebuild it from the database."""


@contextmanager
def damage_reported() -> Iterator[None]:
    """Raise Damaged if the keyword index reports damaged files, OSError for transient failures.

    The engine raises ValueError for everything, and panics with an exception that is not a subclass
    of Exception.
    """
    try:
        yield
    except ValueError as exc:
        if any(part in str(exc) for part in _TRANSIENT):
            raise OSError(str(exc)) from exc
        raise Damaged(str(exc)) from exc
    except BaseException as exc:
        if type(exc).__name__ != "PanicException":
            raise
        raise Damaged(str(exc)) from exc


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Raise the engines' exceptions as errors of `codelode.errors`."""
    try:
        yield
    except CodelodeError:
        raise
    except sqlite3.Error as exc:
        raise _of_database(folder, exc) from exc
    except Damaged as exc:
        raise Unavailable(
            f"the keyword index at {folder} is damaged ({exc}); the next write or maintenance by "
            "a store worker rebuilds it"
        ) from exc
    except (OSError, RuntimeError) as exc:
        raise Unavailable(f"the chunk index at {folder} does not answer: {exc}") from exc
    except (ValueError, LookupError) as exc:
        raise _corrupt(folder, exc) from exc


def _of_database(folder: Path, exc: sqlite3.Error) -> CodelodeError:
    is_damaged = any(part in str(exc) for part in _DATABASE_DAMAGE)
    if is_damaged or not isinstance(exc, sqlite3.OperationalError | sqlite3.InterfaceError):
        return _corrupt(folder, exc)
    return Unavailable(f"the chunk index at {folder} does not answer: {exc}")


def _corrupt(folder: Path, exc: Exception) -> Corrupt:
    return Corrupt(f"the chunk index at {folder} is damaged ({exc}): remove it, and {AFRESH}")
