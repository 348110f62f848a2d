"""Keep a dictionary within a bound, for caches of the most recently used values."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def put(items: OrderedDict[K, V], key: K, value: V, *, most: int) -> None:
    """Store the value as the newest, and drop the oldest beyond `most` entries."""
    items[key] = value
    items.move_to_end(key)
    while len(items) > most:
        items.popitem(last=False)
