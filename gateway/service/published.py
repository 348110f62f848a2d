"""Hold the backends of the published index, and switch when another index is published.

An index and its embedder change together. A call uses one index and its embedder throughout, so
vectors of different models are never compared. If its index is replaced meanwhile, the call is
restarted with the new index and embedder; its caller does not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from codelode.errors import SchemaMismatch
from gateway.state import Backends

#: How long a replaced index stays open for the calls that started with it, seconds.
KEPT_S = 60.0

T = TypeVar("T")


class Published:
    """Holds the backends of the published index.

    `look` gets the current backends, and returns those of the index that is published now, or None
    if nothing has changed.
    """

    def __init__(
        self, backends: Backends, look: Callable[[Backends], Backends | None] = lambda _: None
    ) -> None:
        self.backends = backends
        self._look = look
        self._looking = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, read: Callable[[Backends], Awaitable[T]]) -> T:
        """Return the result of `read`; call it again if its index was replaced meanwhile."""
        backends = self.backends
        try:
            return await read(backends)
        except SchemaMismatch:
            if not await self.follow(backends):
                raise
        return await read(self.backends)

    async def stream(self, read: Callable[[Backends], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Yield the items of `read`; restart it only before its first item."""
        backends = self.backends
        has_begun = False
        try:
            async for item in read(backends):
                has_begun = True
                yield item
            return
        except SchemaMismatch:
            if has_begun or not await self.follow(backends):
                raise
        async for item in read(self.backends):
            yield item

    async def follow(self, before: Backends) -> bool:
        """Switch to the index that is published now; return False if that is still `before`."""
        async with self._looking:
            if self.backends is not before:
                return True
            found = await asyncio.to_thread(self._look, before)
            if found is None:
                return False
            self.backends = found
        closing = asyncio.create_task(_close_later(before))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return True

    async def close(self) -> None:
        waiting = tuple(self._closing)
        for closing in waiting:
            closing.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await self.backends.chunks.close()


async def _close_later(backends: Backends) -> None:
    try:
        await asyncio.sleep(KEPT_S)
    finally:
        await backends.chunks.close()
