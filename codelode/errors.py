"""The errors, branched by what the caller can do about them.

    CodelodeError
    ├── InvalidQuery, InvalidSettings   the asker must change something
    ├── NotFound                        there is nothing there
    │   └── NotIndexed
    ├── Denied                          not for this caller
    │   └── Unauthenticated
    ├── Unavailable                     try again
    │   ├── TimedOut
    │   └── Busy                        try again later: a limit is reached
    ├── Rejected                        this file will never work: recorded, not retried
    └── Corrupt                         an operator must act
        └── SchemaMismatch
            └── Superseded          another index was published: open that one

The gateway turns branches into gRPC codes (`gateway/api/rpc/status.py`); workers retry
`Unavailable` with back-off, record `Rejected` at the file, and fail the run on the rest. A message
names the thing and the remedy. Errors of client libraries are translated inside their backend.
"""

from __future__ import annotations


class CodelodeError(Exception):
    """The root; never raised itself."""


class InvalidQuery(CodelodeError):
    """A request's field must change. `field` is its name in the proto, e.g. `filters.kinds`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class InvalidSettings(CodelodeError):
    """An environment variable or option must change before anything starts."""


class NotFound(CodelodeError):
    """The named thing does not exist."""


class NotIndexed(NotFound):
    """The repository or ref exists but nothing of it is in the index yet."""


class Denied(CodelodeError):
    """This caller may not do that."""


class Unauthenticated(Denied):
    """The caller did not say who it is."""


class Unavailable(CodelodeError):
    """A server or network did not answer; the same call may work later."""


class TimedOut(Unavailable):
    """The answer did not come within the deadline."""


class Busy(Unavailable):
    """A limit on concurrent work is reached."""


class Rejected(CodelodeError):
    """This file cannot be indexed, however often it is tried. The message is the reason."""


class Corrupt(CodelodeError):
    """Stored state contradicts itself; an operator must act."""


class SchemaMismatch(Corrupt):
    """The index was written by another schema or embedder."""


class Superseded(SchemaMismatch):
    """Another index was published in the place of this one; who opens that one goes on."""
