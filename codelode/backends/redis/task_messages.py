"""Check that a message in a queue is one that Celery sends for a task.

Every process that can reach the broker can put anything into its queues. A message whose headers
have other types than Celery writes makes Celery end the worker, or reconnect again and again; a
body may name further tasks to call, and a small one may decompress to a large one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

#: Maximum length of a body, characters. A path, its largest part, has a few thousand at most.
MAX_BODY_CHARS = 1 << 20

Nothing = Annotated[list[object], Field(max_length=0)]


class _Headers(BaseModel):
    """The headers of Celery's second protocol that a worker reads."""

    model_config = ConfigDict(strict=True)

    task: str
    id: str
    retries: int = 0
    eta: str | None = None
    expires: str | None = None
    timelimit: Annotated[list[float | None], Field(min_length=2, max_length=2)] | None = None
    root_id: str | None = None
    parent_id: str | None = None
    argsrepr: str | None = None
    kwargsrepr: str | None = None
    origin: str | None = None
    ignore_result: bool | None = None
    shadow: str | None = None
    group: None = None
    stamped_headers: None = None
    stamps: dict[str, object] | None = None
    compression: None = None


class _Properties(BaseModel):
    model_config = ConfigDict(strict=True)

    body_encoding: Literal["base64"]
    correlation_id: str
    priority: Annotated[int, Field(ge=0, le=9)]
    reply_to: str = ""


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)

    body: Annotated[str, Field(max_length=MAX_BODY_CHARS)]
    encoding: Annotated[Literal["utf-8"], Field(alias="content-encoding")]
    kind: Annotated[Literal["application/json"], Field(alias="content-type")]
    headers: _Headers
    properties: _Properties


#: No positional arguments, any named ones, and no tasks to call afterwards.
_BODY = TypeAdapter(tuple[Nothing, dict[str, Any], dict[str, Nothing | None]])


def require_task(message: Mapping[str, object]) -> None:
    """Raise ValueError, which names what is wrong, if Celery does not send such a message."""
    try:
        found = _Message.model_validate(message)
        _BODY.validate_json(base64.b64decode(found.body, validate=True))
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place or 'body'}: {first['msg']}") from exc
