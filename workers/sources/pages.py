"""Cache the pages of code hosts, for conditional requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

#: Maximum number of pages that are cached in memory, and maximum size of all of them, bytes.
PAGES_HELD = 5_000
MAX_HELD_BYTES = 64 << 20

Params = Mapping[str, str | int]


class Page(NamedTuple):
    """One page of a list."""

    rows: Any
    following: Params | None  # parameters of the next page; None: it is the last
    total: int | None = None  # rows of all pages; None: the host does not say


class HeldPage(NamedTuple):
    """A cached page, and the ETag of this version of it."""

    etag: str
    content: bytes  # parsed, it would take several times as much memory
    following: Params | None


class Pages:
    """The cached pages of one process; the least recently used ones are dropped."""

    def __init__(self) -> None:
        self._held: OrderedDict[object, HeldPage] = OrderedDict()
        self._bytes = 0

    def get(self, key: object) -> HeldPage | None:
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def put(self, key: object, held: HeldPage) -> None:
        self._bytes += self._size(held) - self._size(self._held.pop(key, None))
        self._held[key] = held
        while self._held and (len(self._held) > PAGES_HELD or self._bytes > MAX_HELD_BYTES):
            self._bytes -= self._size(self._held.popitem(last=False)[1])

    @staticmethod
    def _size(held: HeldPage | None) -> int:
        return len(held.content) if held else 0
