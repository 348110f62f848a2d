"""Translate a failed gRPC call into an error of `codelode.errors`."""

from __future__ import annotations

import grpc

from codelode import errors
from codelode.environment import DEFAULT_SERVER

#: Parts of the details that gRPC itself reports when the connection fails.
_NO_CONNECTION = (
    "failed to connect",
    "DNS resolution failed",
    "Socket closed",
    "Connection reset",
    "recvmsg:",
    "keepalive",
)

#: The details that gRPC itself reports when the client's deadline expires; those of the gateway
#: differ.
_OWN_DEADLINE = "Deadline Exceeded"

#: A part of the details with which gRPC itself refuses a message that is too large.
_TOO_LARGE = "SERVER: Received message larger than max"

#: The same for headers of a call that are too large; only the token can be that long.
_TOO_LARGE_HEADERS = "received metadata size exceeds"


def error(exc: grpc.RpcError, *, address: str, timeout_s: float) -> errors.CodelodeError:
    """Return the error for a failed call."""
    code, details = exc.code(), exc.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NO_CONNECTION):
        return _no_connection(details, address)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and details == _OWN_DEADLINE:
        return errors.TimedOut(f"the gateway at {address} did not answer within {timeout_s:g} s")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.NotFound(
            f"{address} answers, but not like a codelode gateway of this version ({details})"
        )
    if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE):
        return _invalid(exc, details)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in details:
        return errors.InvalidQuery(
            "request", f"is too large; give fewer or shorter values ({details})"
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE_HEADERS in details:
        return errors.Unauthenticated(f"the token is larger than the gateway accepts ({details})")
    kind = _KINDS.get(code, errors.Corrupt)
    return kind(details or f"the gateway at {address} answered {code.name} without a reason")


def _no_connection(details: str, address: str) -> errors.CodelodeError:
    """Return the error for a failed connection, according to the details that gRPC reports."""
    for part, kind, remedy in _TLS_FAILURES:
        if part in details:
            return kind(f"{address}: {remedy}")
    if _HTTP in details:
        return errors.InvalidSettings(
            f"{address} is an HTTP port; commands and clients need the gRPC port, such as "
            f"{DEFAULT_SERVER}, which `codelode up` prints"
        )
    if "handshake" in details:
        return errors.Unavailable(f"no TLS connection to {address} ({details})")
    if details.startswith(_NO_CONNECTION[0]) and any(part in details for part in _HUNG_UP):
        return errors.Unavailable(f"the server at {address} closed the connection; {_why(address)}")
    return errors.Unavailable(f"no gateway at {address}; start one with `codelode up`")


def _why(address: str) -> str:
    """Return why a server probably closed a connection at once."""
    if not address.startswith("grpcs://"):
        return f"if it is a gateway with TLS, its address is grpcs://{address}"
    return (
        "if it asks for a client certificate, set CODELODE_TLS_CLIENT_CERTIFICATE and "
        "CODELODE_TLS_CLIENT_KEY to one that is valid and signed by an authority which it trusts"
    )


#: A part of the details if the port speaks HTTP/1, as that of the REST API does.
_HTTP = "http1.x server"

#: Parts of the details if the server closed the connection without an answer.
_HUNG_UP = ("Socket closed", "Connection reset", "recvmsg:")

#: Parts of the details when TLS fails, each with the error to raise and its message.
_TLS_FAILURES: tuple[tuple[str, type[errors.CodelodeError], str], ...] = (
    (
        "WRONG_VERSION_NUMBER",
        errors.InvalidSettings,
        "the server does not use TLS: write the address without grpcs://, or give the gateway a "
        "certificate",
    ),
    (
        "Hostname Verification Check failed",
        errors.InvalidSettings,
        "the server's certificate is for another name: use a name that is in it",
    ),
    (
        "certificate has expired",
        errors.Unavailable,
        "the server's certificate has expired, or the clock of this machine is wrong",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        errors.InvalidSettings,
        "the server's certificate is not signed by an authority that this client trusts: set "
        "CODELODE_TLS_CA to a PEM file with the certificate of its authority",
    ),
)

_KINDS: dict[grpc.StatusCode, type[errors.CodelodeError]] = {
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.PERMISSION_DENIED: errors.Denied,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.Busy,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.TimedOut,
    grpc.StatusCode.ABORTED: errors.Unavailable,
    grpc.StatusCode.CANCELLED: errors.Unavailable,
    # All others, including FAILED_PRECONDITION and INTERNAL, need an operator: Corrupt.
}


def _invalid(exc: grpc.RpcError, details: str) -> errors.InvalidQuery:
    """Return the error for the first field violation of the status, or for its plain message."""
    from google.rpc import error_details_pb2  # type: ignore[import-untyped,unused-ignore]
    from grpc_status import rpc_status

    status = rpc_status.from_call(exc)
    for detail in status.details if status is not None else ():
        bad = error_details_pb2.BadRequest()
        if detail.Unpack(bad) and bad.field_violations:
            first = bad.field_violations[0]
            return errors.InvalidQuery(first.field, first.description)
    return errors.InvalidQuery("request", details)
