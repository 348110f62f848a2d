"""Send the items of a service function as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from gateway.api.rest import problems
from gateway.api.rest.answers import encoded
from gateway.api.rest.calls import REQUEST_ID, Call, face_of, received_as, status_name
from gateway.calls import request_id

MEDIA_TYPE = "text/event-stream"
#: Time between two comments that keep proxies from closing a quiet connection, seconds.
BEAT_S = 15.0


class EventStream(Response):
    """A response of events. Its call is admitted until the response ends.

    An error before the first event is answered like that of any call; a later one is sent as the
    event `error` with its problem details. The event `end` says that nothing follows.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        request: Request,
        function: str,
        event: str,
        items: Callable[[Call], AsyncIterator[Any]],
    ) -> None:
        super().__init__()
        self._request = request
        self._function = function
        self._event = event
        self._items = items
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until there are no more or the caller disconnects."""
        tasks = {
            asyncio.ensure_future(work)
            for work in (self._sent(scope, receive, send), _left(receive), self._beaten(send))
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sent(self, scope: Scope, receive: Receive, send: Send) -> None:
        id = request_id(self._request.headers.get(REQUEST_ID))
        try:
            await self._send_items(id, send)
            await send(_part("end", "{}", is_last=True))
        except Exception as error:  # noqa: BLE001 - any error becomes an answer
            told = problems.problem(error, request_id=id)
            if self._has_begun:
                await send(_part("error", problems.encoded(told), is_last=True))
                return
            response = problems.response(told)
            response.headers[REQUEST_ID] = id
            await response(scope, receive, send)

    async def _send_items(self, id: str, send: Send) -> None:
        face = face_of(self._request)
        received = received_as(
            self._request, self._function, id, remaining_s=lambda: None, code=status_name
        )
        async with face.calls.admitted(received) as principal:
            async for item in self._items(Call(face.dependencies, principal)):
                if not self._has_begun:
                    await send(_start(id))
                    self._has_begun = True
                await send(_part(self._event, encoded(item)))

    async def _beaten(self, send: Send) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            if self._has_begun:
                await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})


async def _left(receive: Receive) -> None:
    """Return when the caller has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _start(id: str) -> dict[str, Any]:
    headers = {
        "content-type": f"{MEDIA_TYPE}; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        REQUEST_ID: id,
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": raw}


def _part(event: str, data: str, *, is_last: bool = False) -> dict[str, Any]:
    """Return an event; its JSON has no line break."""
    body = f"event: {event}\ndata: {data}\n\n".encode()
    return {"type": "http.response.body", "body": body, "more_body": not is_last}
