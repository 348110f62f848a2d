"""The errors, grouped by what the caller can do about them.

    CodelodeError
    ├── InvalidQuery, InvalidSettings   the caller must change the request or a setting
    ├── NotFound                        the named thing does not exist
    │   └── NotIndexed
    ├── Denied                          this caller may not do it
    │   └── Unauthenticated
    ├── Unavailable                     try again
    │   ├── TimedOut
    │   └── Busy                        try again later: a limit is reached
    ├── Rejected                        this file or commit cannot be indexed: recorded, not retried
    └── Corrupt                         an operator must act
        └── SchemaMismatch
            └── Superseded              another index was published: open that one

The gateway turns branches into gRPC codes (`gateway/api/rpc/status.py`) and HTTP statuses
(`gateway/api/rest/problems.py`); workers retry `Unavailable` with back-off, record `Rejected` in
the file's record, and fail the run on all others. A message names the thing and the remedy. Each
backend translates the errors of its client library.
"""

from __future__ import annotations


class CodelodeError(Exception):
    """The root of all errors; never raised itself."""


class InvalidQuery(CodelodeError):
    """A field of a request is invalid. `field` is its name in the proto, e.g. `filters.kinds`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSettings(CodelodeError):
    """An environment variable or a command line option is invalid."""


class NotFound(CodelodeError):
    """The named thing does not exist."""


class NotIndexed(NotFound):
    """The repository or ref exists, but is not indexed yet."""


class Denied(CodelodeError):
    """The caller may not do this."""


class Unauthenticated(Denied):
    """The caller did not identify itself."""


class Unavailable(CodelodeError):
    """A server or network did not answer; the same call may work later."""


class TimedOut(Unavailable):
    """The answer did not come within the deadline."""


class Busy(Unavailable):
    """A limit on concurrent work is reached. `retry_s`: when to try again, seconds; 0: unknown."""

    def __init__(self, message: str, *, retry_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class Rejected(CodelodeError):
    """The file or commit cannot be indexed, so it is not retried. The message is the reason."""


class Corrupt(CodelodeError):
    """Stored state contradicts itself; an operator must act."""


class SchemaMismatch(Corrupt):
    """The index was written by another schema or embedder."""


class Superseded(SchemaMismatch):
    """Another index was published in place of this one; open that one and repeat the call."""
