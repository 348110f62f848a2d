"""Read the forms that pages send."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import Request

from codelode.errors import InvalidQuery
from gateway.api.rest import calls

#: Largest form, bytes: it has a token of an issuer, and the page to go to.
MAX_BYTES = 32_000
#: Maximum number of fields of a form.
MAX_FIELDS = 10
#: Longest time in which a form must arrive, seconds; anybody may begin to send one.
WITHIN_S = 10.0


async def fields(request: Request) -> dict[str, str]:
    """Return the fields that have a value. Raises InvalidQuery, TooLarge, and TimedOut."""
    return dict(await _pairs(request, MAX_FIELDS))


async def values(request: Request, name: str, *, most: int) -> list[str]:
    """Return the values of a field that may occur several times. Raises like `fields`."""
    return [value for field, value in await _pairs(request, most) if field == name]


async def _pairs(request: Request, most: int) -> list[tuple[str, str]]:
    content = await calls.body(request, most=MAX_BYTES, within_s=WITHIN_S)
    try:
        return parse_qsl(content.decode(errors="replace"), max_num_fields=most)
    except ValueError as error:
        raise InvalidQuery("body", f"is not a form of this page: {error}") from error
