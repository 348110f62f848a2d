"""Replace the names of fields in messages of the gateway by those that a face uses."""

from __future__ import annotations

import re
from collections.abc import Callable

#: Matches a field in a message: "raise `limit` for more", "filters.paths: 'x' …".
_FIELD = re.compile(r"`(\w+)`|^(filters\.\w+)(?=:)")


def reworded(message: str, named: Callable[[str], str]) -> str:
    """Return the message with other names for its fields.

    `named` returns the text that replaces a field, `limit` or `filters.paths`, and its quotes. If
    the text is empty, they stay.
    """
    return _FIELD.sub(lambda found: named(found[1] or found[2]) or found[0], message)
