"""Convert answers of the service layer to JSON.

Fields of answers keep their names, except those in INTERNAL, which are not sent. Bytes become text
in base 64.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from fastapi import Request, Response

from codelode.model import Run
from gateway.service.coverage import Coverage
from gateway.service.results import SearchAnswer

#: The fields of each answer that only the gateway and the workers use.
INTERNAL: Mapping[type, frozenset[str]] = {
    SearchAnswer: frozenset({"ranking", "facets", "ref"}),
    Coverage: frozenset({"url", "is_complete", "committed_at"}),
    Run: frozenset({"resolved", "reprocess", "is_bulk"}),
}

JSON = "application/json"


def plain(value: Any) -> Any:
    """Return the value in types that JSON has."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if is_dataclass(value):
        of: type = type(value)
        return {name: plain(getattr(value, name)) for name in _shown(of)}
    return value


def encoded(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))


def answered(value: Any, status: int = 200) -> Response:
    """Return the response with the value."""
    return Response(encoded(value), status, media_type=JSON)


def done() -> Response:
    """Return the response of a call without an answer."""
    return Response(status_code=204)


def read(value: Any, request: Request) -> Response:
    """Return the response to a GET: without the value if the caller has it already (ETag)."""
    body = encoded(value).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = (one.strip().removeprefix("W/") for one in _header(request, "if-none-match").split(","))
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON)


@lru_cache(maxsize=256)
def _shown(of: type) -> tuple[str, ...]:
    left_out = INTERNAL.get(of, frozenset())
    return tuple(field.name for field in fields(of) if field.name not in left_out)


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))
