"""Map errors to gRPC statuses, with google.rpc details that a program can read.

Each branch of `codelode.errors` has a code. Any other exception is a defect: the caller gets
INTERNAL and the request id, under which the log has the traceback.
"""

from __future__ import annotations

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from codelode import errors

#: The first matching row decides, so subclasses come before their base classes.
CODES: tuple[tuple[type[errors.CodelodeError], grpc.StatusCode], ...] = (
    (errors.InvalidQuery, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.InvalidSettings, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.NotFound, grpc.StatusCode.NOT_FOUND),
    (errors.Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (errors.Denied, grpc.StatusCode.PERMISSION_DENIED),
    (errors.TimedOut, grpc.StatusCode.DEADLINE_EXCEEDED),
    (errors.Busy, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.Unavailable, grpc.StatusCode.UNAVAILABLE),
    (errors.Rejected, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.Corrupt, grpc.StatusCode.FAILED_PRECONDITION),
)


#: A status is sent in percent-encoded headers, which clients limit to 8 KiB in all, and a message
#: may quote the request.
MAX_MESSAGE_CHARS = 400


def code(error: BaseException) -> grpc.StatusCode:
    """Return the gRPC code of an error."""
    for kind, status in CODES:
        if isinstance(error, kind):
            return status
    return grpc.StatusCode.INTERNAL


def to_proto(error: BaseException, *, request_id: str) -> status_pb2.Status:
    """Return the rich status of an error: code, message, and the details of its kind."""
    if not isinstance(error, errors.CodelodeError):
        return status_pb2.Status(
            code=code_pb2.INTERNAL,
            message=f"internal error {request_id}: the server's log has the details",
        )
    return status_pb2.Status(
        code=code(error).value[0], message=str(error)[:MAX_MESSAGE_CHARS], details=_details(error)
    )


def _details(error: errors.CodelodeError) -> list[any_pb2.Any]:
    """Return BadRequest with the invalid field, or RetryInfo with the time to wait."""
    if isinstance(error, errors.InvalidQuery):
        return [_packed(_bad_request(error))]
    if isinstance(error, errors.Busy) and error.retry_s:
        delay = duration_pb2.Duration(nanos=int(1e9 * (error.retry_s % 1)))
        delay.seconds = int(error.retry_s)
        return [_packed(error_details_pb2.RetryInfo(retry_delay=delay))]
    return []


def _bad_request(error: errors.InvalidQuery) -> error_details_pb2.BadRequest:
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=error.field, description=error.message[:MAX_MESSAGE_CHARS]
    )
    return error_details_pb2.BadRequest(field_violations=[violation])


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
