"""The services of the index that is published now.

When another index takes the place of the one in use, its embedder changes with it. So a call gets
one pair of both for all that it does, and a call whose index was superseded meanwhile begins again
with the new pair: no vector of one model is compared with those of another, and no caller notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from codelode.errors import SchemaMismatch
from gateway.api.interceptors import Context
from gateway.state import Backends

#: Calls that began with an old pair have ended by then, seconds.
KEPT_S = 60.0


class Published:
    """The backends of the published index.

    `look` finds those of the index that is published when it is called, and None when they are the
    given ones still.
    """

    def __init__(
        self, backends: Backends, look: Callable[[Backends], Backends | None] = lambda _: None
    ) -> None:
        self.backends = backends
        self._look = look
        self._looking = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def follow(self, before: Backends) -> bool:
        """Whether there are others now than those."""
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


class Following:
    """A servicer that passes each call on to the one that `make` makes of the backends."""

    def __init__(
        self,
        service: ServiceDescriptor,
        published: Published,
        make: Callable[[Backends], object],
    ) -> None:
        self._published = published
        self._make = make
        self._made: tuple[Backends, object] = (published.backends, make(published.backends))
        for method in service.methods:
            passed = self._streamed if method.server_streaming else self._asked
            setattr(self, method.name, passed(method.name))

    def _asked(self, name: str) -> Callable[[Any, Context], Any]:
        async def call(request: Any, context: Context) -> Any:
            backends, servicer = self._servicer()
            try:
                return await getattr(servicer, name)(request, context)
            except SchemaMismatch:
                if not await self._published.follow(backends):
                    raise
            return await getattr(self._servicer()[1], name)(request, context)

        return call

    def _streamed(self, name: str) -> Callable[[Any, Context], AsyncIterator[Any]]:
        async def call(request: Any, context: Context) -> AsyncIterator[Any]:
            backends, servicer = self._servicer()
            has_begun = False
            try:
                async for response in getattr(servicer, name)(request, context):
                    has_begun = True
                    yield response
                return
            except SchemaMismatch:
                if has_begun or not await self._published.follow(backends):
                    raise
            async for response in getattr(self._servicer()[1], name)(request, context):
                yield response

        return call

    def _servicer(self) -> tuple[Backends, object]:
        backends = self._published.backends
        if self._made[0] is not backends:
            self._made = backends, self._make(backends)
        return self._made


async def _close_later(backends: Backends) -> None:
    try:
        await asyncio.sleep(KEPT_S)
    finally:
        await backends.chunks.close()
