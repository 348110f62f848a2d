"""Map errors to HTTP statuses and problem details (RFC 9457).

The `detail` of a problem says what is wrong and names the remedy. Any exception outside
`codelode.errors` is a defect: the caller gets the request id, under which the log has the
traceback.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from codelode import errors

MEDIA_TYPE = "application/problem+json"
#: Maximum number of characters of a detail, which may quote the request.
MAX_DETAIL_CHARS = 2_000
#: The largest body of a request, more than all limits of the service layer allow.
MAX_BODY_BYTES = 1_000_000

DEFECT, CLIENT_GONE = 500, 499

#: Errors of the framework about a request.
UNDERSTOOD = (RequestValidationError, HTTPException)


class TooLarge(errors.InvalidQuery):
    """The body of the request is too large."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem details of an error. `field`: the invalid one, as in the request."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""
    field: str = ""
    retry_s: float = 0.0  # time after which to try again; 0: not given


#: The first matching row decides, so subclasses come before their base classes.
STATUSES: tuple[tuple[type[errors.CodelodeError], int, str], ...] = (
    (TooLarge, 413, "The request is too large"),
    (errors.InvalidQuery, 400, "The request is invalid"),
    (errors.InvalidSettings, 400, "A setting is invalid"),
    (errors.NotFound, 404, "Not found"),
    (errors.Unauthenticated, 401, "The caller is unknown"),
    (errors.Denied, 403, "The caller may not do this"),
    (errors.TimedOut, 504, "The answer took too long"),
    (errors.Busy, 429, "A limit is reached"),
    (errors.Unavailable, 503, "A server does not answer"),
    (errors.Rejected, 409, "The file or commit cannot be indexed"),
    (errors.Corrupt, 409, "The stored state contradicts itself"),
)


def status(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    return _row(error)[0]


def problem(error: BaseException, *, request_id: str = "") -> Problem:
    code, title = _row(error)
    is_ours = isinstance(error, errors.CodelodeError)
    # A face may have its own subclasses of the errors, which callers do not know.
    public = (one for one in type(error).__mro__ if one.__module__ == errors.__name__)
    detail = str(error) if is_ours else f"internal error {request_id}: the server's log has details"
    return Problem(
        type=f"urn:codelode:error:{next(public).__name__ if is_ours else 'Defect'}",
        title=title,
        status=code,
        detail=detail[:MAX_DETAIL_CHARS],
        request_id=request_id,
        field=error.field if isinstance(error, errors.InvalidQuery) else "",
        retry_s=error.retry_s if isinstance(error, errors.Busy) else 0.0,
    )


def encoded(told: Problem) -> str:
    """Return the problem as JSON, without the members that do not apply."""
    members = {name: getattr(told, name) for name in Problem.__dataclass_fields__}
    return json.dumps({name: value for name, value in members.items() if value})


def response(told: Problem) -> Response:
    headers = {}
    if told.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if told.retry_s:
        headers["Retry-After"] = str(math.ceil(told.retry_s))
    return Response(encoded(told), told.status, headers, MEDIA_TYPE)


def understood(error: RequestValidationError | HTTPException) -> errors.InvalidQuery:
    """Translate an error of the framework about the body or a parameter."""
    if isinstance(error, RequestValidationError):
        return _invalid(error.errors())
    if error.status_code == 413:
        return too_large(MAX_BODY_BYTES)
    return errors.InvalidQuery("body", "cannot be read; send JSON in UTF-8")


def too_large(most: int) -> TooLarge:
    return TooLarge("body", f"is larger than {most:,} bytes; ask for less at once")


#: Messages for the framework's types of errors.
_KINDS = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "missing": "is required and missing",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
}


def _invalid(found: Sequence[Any]) -> errors.InvalidQuery:
    """Return the first error; the others follow from it or are reported once it is corrected."""
    first = found[0]
    place, *path = first["loc"]
    field = ".".join(map(str, path))[:200]
    if first["type"] == "json_invalid":
        return errors.InvalidQuery(
            "body",
            f"is not valid JSON, from character {field} on: {first['ctx']['error']}; send an "
            'object such as {"query": "retry"}',
        )
    if first["type"] == "extra_forbidden":
        return errors.InvalidQuery(field, "is unknown; /api/docs lists the fields of the request")
    if place == "body" and not path:
        return errors.InvalidQuery(
            "body", "must be a JSON object, sent with `Content-Type: application/json`"
        )
    told = _KINDS.get(first["type"]) or first["msg"].replace("Input should be", "must be", 1)
    return errors.InvalidQuery(field, f"{told}; /api/docs describes it")


def _row(error: BaseException) -> tuple[int, str]:
    for kind, code, title in STATUSES:
        if isinstance(error, kind):
            return code, title
    return DEFECT, "The server has a defect"
