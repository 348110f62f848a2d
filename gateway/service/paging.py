"""Encode and decode page tokens: the position after which the next page begins.

A position is the sort key of an element and not an offset, so that a page neither repeats nor skips
anything when the list changes between two calls. Tokens are opaque but not signed: they contain
only what their caller was shown, and a forged one only moves the start of the caller's own list.
"""

from __future__ import annotations

import base64
import binascii
import json

from codelode.errors import InvalidQuery

PageCursor = tuple[str, ...]  # the sort key of the last element shown; () before the first


def token(cursor: PageCursor) -> str:
    """Encode a cursor."""
    return base64.urlsafe_b64encode(json.dumps(cursor).encode()).decode()


def read(text: str) -> PageCursor:
    """Decode a token. Raises InvalidQuery for a text that `token` did not return."""
    if not text:
        return ()
    try:
        cursor = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (binascii.Error, ValueError, RecursionError) as exc:
        raise _invalid() from exc
    if not isinstance(cursor, list) or not all(isinstance(part, str) for part in cursor):
        raise _invalid()
    return tuple(cursor)


def _invalid() -> InvalidQuery:
    return InvalidQuery("page_token", "is not a token of a previous response; start without one")
