"""Translate the client library's exceptions to `codelode.errors`; no other module does.

The message of a query error has only the server's text; the kind of failure is in the gRPC status
of the exception that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from grpc import RpcError, StatusCode
from weaviate import exceptions

from codelode.backends.remedies import AFRESH
from codelode.errors import (
    Busy,
    CodelodeError,
    Corrupt,
    InvalidSettings,
    Rejected,
    SchemaMismatch,
    TimedOut,
    Unavailable,
)

GONE = "Weaviate does not answer; is it running?"
_SLOW = "Weaviate did not answer in time"
KEY_REFUSED = "Weaviate refused CODELODE_WEAVIATE_API_KEY"
_PERMISSION = "the user of CODELODE_WEAVIATE_API_KEY lacks a permission in Weaviate"
_REFUSED = "Weaviate refused a request"
_MISUSED = "the Weaviate client was misused"
_FOREIGN = "what answers at CODELODE_WEAVIATE_URL is not the Weaviate server expected"
LOST = f"the chunk index was removed from Weaviate: {AFRESH}"

_Row = tuple[type[CodelodeError], str]

#: The error and message for each exception of the library. Looked up along the exception's base
#: classes, so a class of a later version takes its parent's row.
TRANSLATIONS: dict[type[Exception], _Row] = {
    exceptions.WeaviateConnectionError: (Unavailable, GONE),
    exceptions.WeaviateStartUpError: (Unavailable, GONE),
    exceptions.WeaviateGRPCUnavailableError: (Unavailable, "Weaviate's gRPC port does not answer"),
    exceptions.WeaviateRetryError: (Unavailable, GONE),
    exceptions.WeaviateClosedClientError: (Unavailable, "the connection to Weaviate was closed"),
    exceptions.WeaviateTimeoutError: (TimedOut, _SLOW),
    exceptions.WeaviateBatchStreamError: (Unavailable, GONE),
    exceptions.WeaviateBatchFailedToReestablishStreamError: (Unavailable, GONE),
    exceptions.AuthenticationFailedError: (InvalidSettings, KEY_REFUSED),
    exceptions.MissingScopeError: (InvalidSettings, KEY_REFUSED),
    exceptions.InsufficientPermissionsError: (InvalidSettings, _PERMISSION),
    exceptions.WeaviateUnsupportedFeatureError: (InvalidSettings, "this Weaviate is too old"),
    exceptions.WeaviateProtobufIncompatibility: (InvalidSettings, "protobuf and gRPC do not fit"),
    exceptions.WeaviateQueryError: (Unavailable, "Weaviate failed to answer"),
    exceptions.WeaviateInsertManyAllFailedError: (Unavailable, "Weaviate stored nothing"),
    exceptions.UnexpectedStatusCodeError: (Corrupt, _REFUSED),
    exceptions.ObjectAlreadyExistsError: (Corrupt, _REFUSED),
    exceptions.SchemaValidationError: (Corrupt, _REFUSED),
    exceptions.ResponseCannotBeDecodedError: (Corrupt, _FOREIGN),
    exceptions.EmptyResponseError: (Corrupt, _FOREIGN),
    exceptions.BackupFailedError: (Unavailable, "Weaviate's backup failed"),
    exceptions.BackupCanceledError: (Unavailable, "Weaviate's backup was cancelled"),
    exceptions.ExportFailedError: (Unavailable, "Weaviate's export failed"),
    exceptions.ExportCanceledError: (Unavailable, "Weaviate's export was cancelled"),
    exceptions.AdditionalPropertiesError: (Corrupt, _MISUSED),
    exceptions.InvalidDataModelError: (Corrupt, _MISUSED),
    exceptions.WeaviateInvalidInputError: (Corrupt, _MISUSED),
    exceptions.WeaviateAddInvalidPropertyError: (Corrupt, _MISUSED),
    exceptions.WeaviateBatchValidationError: (Corrupt, _MISUSED),
    exceptions.WeaviateInsertInvalidPropertyError: (Corrupt, _MISUSED),
    exceptions.WeaviateAgentsNotInstalledError: (Corrupt, _MISUSED),
    exceptions.WeaviateEmbeddedInvalidVersionError: (Corrupt, _MISUSED),
    exceptions.WeaviateBaseError: (Corrupt, "Weaviate failed"),
    httpx.TimeoutException: (TimedOut, _SLOW),
    httpx.TransportError: (Unavailable, GONE),
    httpx.HTTPError: (Unavailable, GONE),
}

_STATUSES: dict[int, _Row] = {  # HTTP
    401: (InvalidSettings, KEY_REFUSED),
    403: (InvalidSettings, _PERMISSION),
    408: (TimedOut, _SLOW),
    429: (Busy, "Weaviate is at its limit of requests"),
}

_CODES: dict[StatusCode, _Row] = {
    StatusCode.UNAUTHENTICATED: (InvalidSettings, KEY_REFUSED),
    StatusCode.PERMISSION_DENIED: (InvalidSettings, _PERMISSION),
    StatusCode.UNAVAILABLE: (Unavailable, GONE),
    StatusCode.DEADLINE_EXCEEDED: (TimedOut, _SLOW),
    StatusCode.RESOURCE_EXHAUSTED: (Busy, "Weaviate is at a limit"),
    StatusCode.INVALID_ARGUMENT: (Corrupt, _REFUSED),
    StatusCode.UNIMPLEMENTED: (Corrupt, _FOREIGN),
}

#: Parts of the server's text, for failures whose status is not specific. The first match decides.
_TEXTS: tuple[tuple[str, type[CodelodeError], str], ...] = (
    ("could not find class", Corrupt, LOST),
    ("class not found", Corrupt, LOST),
    ("not found in schema", Corrupt, LOST),
    ("tenant not found", Corrupt, LOST),
    ("vector lengths don't match", SchemaMismatch, "the index has other dimensions"),
    ("vector with length", SchemaMismatch, "the index has other dimensions"),
    ("no such prop", SchemaMismatch, "the index has another schema"),
)

#: Length above which details lose their middle, characters: the server begins with the subject and
#: ends, after names of files, with the reason.
_DETAIL_CHARS = 300


@contextmanager
def translated() -> Iterator[None]:
    """Raise the library's exceptions as errors of `codelode.errors`."""
    try:
        yield
    except tuple(TRANSLATIONS) as exc:
        raise translate(exc) from exc


def translate(exc: Exception) -> CodelodeError:
    """Return the error for an exception of the client library."""
    detail = str(getattr(exc, "message", "") or exc)
    error, remedy = _by_text(detail) or _by_status(exc) or _by_kind(exc)
    return error(f"{remedy} ({_brief(' '.join(detail.split()))})")


def refusal(message: str, *, file: str) -> CodelodeError:
    """Return the error for an object that the server refused, naming its file."""
    row: _Row = (Unavailable, "Weaviate did not store it")
    if "invalid" in message.lower():
        row = (Rejected, "Weaviate cannot store it")
    error, remedy = _by_text(message) or row
    return error(f"{file}: {remedy} ({_brief(message)})")


def is_lost(exc: BaseException) -> bool:
    """Return whether the server says that the collection or the tenant is not there."""
    row = _by_text(str(exc))
    return row is not None and row[1] == LOST


def _brief(detail: str) -> str:
    half = _DETAIL_CHARS // 2
    return detail if len(detail) <= _DETAIL_CHARS else f"{detail[:half]} … {detail[-half:]}"


def _by_text(detail: str) -> _Row | None:
    lower = detail.lower()
    return next(((error, say) for text, error, say in _TEXTS if text in lower), None)


def _by_status(exc: BaseException | None) -> _Row | None:
    """Look up the HTTP or gRPC status of the exception or of one that caused it."""
    while exc is not None:
        if isinstance(exc, RpcError) and (row := _CODES.get(_code(exc))):
            return row
        status = getattr(exc, "status_code", 0)
        if row := _STATUSES.get(status):
            return row
        if 500 <= status < 600:
            return Unavailable, "Weaviate failed"
        exc = exc.__cause__ or exc.__context__
    return None


def _code(exc: RpcError) -> StatusCode:
    code = exc.code() if hasattr(exc, "code") else None
    return code if isinstance(code, StatusCode) else StatusCode.UNKNOWN


def _by_kind(exc: Exception) -> _Row:
    return next(TRANSLATIONS[base] for base in type(exc).__mro__ if base in TRANSLATIONS)
