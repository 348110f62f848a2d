"""Write the fields that a message of the gateway names as the face that shows it names them."""

from __future__ import annotations

import re
from collections.abc import Callable

#: Matches a field in a message: "raise `limit` for more", "filters.paths: 'x' …".
_FIELD = re.compile(r"`(\w+)`|^(filters\.\w+)(?=:)")


def reworded(message: str, named: Callable[[str], str]) -> str:
    """Return the message with other names for its fields.

    `named` returns what replaces a field with its quotes, `limit` or `filters.paths`; empty keeps
    both.
    """
    return _FIELD.sub(lambda found: named(found[1] or found[2]) or found[0], message)
