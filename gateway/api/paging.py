"""Page tokens: the place after which the next page begins, opaque to the caller.

A place and not an offset, so that a page neither repeats nor skips anything when the list
changes between two calls. Tokens are not signed: they hold nothing that their caller was not
shown, and a forged one only moves the start of the caller's own list.
"""

from __future__ import annotations

import base64
import binascii
import json

from codelode.errors import InvalidQuery

Place = tuple[str, ...]  # the sort key of the last element shown; () before the first


def token(place: Place) -> str:
    """The token of a place."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def read(text: str) -> Place:
    """The place of a token; InvalidQuery when it is none of ours."""
    if not text:
        return ()
    try:
        place = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (binascii.Error, ValueError) as exc:
        raise _invalid() from exc
    if not isinstance(place, list) or not all(isinstance(part, str) for part in place):
        raise _invalid()
    return tuple(place)


def _invalid() -> InvalidQuery:
    return InvalidQuery("page_token", "is not a token of a previous response; start without one")
