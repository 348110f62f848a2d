"""Receive the webhooks of code hosts: `POST /webhooks/CONNECTION`.

The body is read before the call is admitted, because its signature authenticates the call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs
from weakref import WeakValueDictionary

from fastapi import Request, Response

from codelode.errors import Busy, InvalidQuery
from codelode.sources import Connection
from gateway import service
from gateway.access.attempts import network
from gateway.access.identity import Credentials
from gateway.access.webhooks import WebhookConnections
from gateway.api.rest import calls, host_events
from gateway.api.rest.calls import Call
from gateway.service.requests import HostEvent

PATH = "/webhooks/{connection}"

#: The largest delivery, bytes; hosts send about 1 kB for each commit.
MAX_BYTES = 5_000_000
#: Maximum number of bodies that are read at once, to bound memory: anybody may send one.
AT_ONCE = 16
#: Maximum number of these bodies from one address or IPv6 network, so that one that sends slowly
#: does not keep the others out. Further ones wait unread for up to WAIT_S seconds, because a host
#: may send a burst, and some hosts do not repeat what was refused.
AT_ONCE_FROM_ADDRESS = 4
WAIT_S = 5.0
#: Longest time in which a body must arrive, seconds.
BODY_S = 10.0
#: Time after which to repeat a delivery that came while AT_ONCE others were read, seconds.
RETRY_S = 5.0


class Webhooks:
    """Receives deliveries, at most AT_ONCE at a time, and AT_ONCE_FROM_ADDRESS of one address."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._of_address: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def receive(self, request: Request) -> Response:
        """Act on a delivery. 202: it caused an action; 204: none; 401: it is not signed."""
        return await calls.concluded(request, partial(self._received, request), calls.as_problem)

    async def _received(self, request: Request, id: str) -> Response:
        async with self._place(network(request.client.host if request.client else "")):
            body = await calls.body(request, most=MAX_BYTES, within_s=BODY_S)
            name, known = request.path_params["connection"], calls.face_of(request).webhooks
            connection = await asyncio.to_thread(_signed, known, name, request.headers, body)
        credentials = Credentials(webhook=connection.principal if connection is not None else "")
        act = partial(_acted, connection, body)
        return await calls.answer_admitted(act, request, "deliver", id, credentials)

    @asynccontextmanager
    async def _place(self, address: str) -> AsyncIterator[None]:
        """Hold a place of the address while the block runs. Raises Busy if there is none."""
        places = self._of_address.setdefault(address, asyncio.Semaphore(AT_ONCE_FROM_ADDRESS))
        try:
            async with asyncio.timeout(WAIT_S):
                await places.acquire()
        except TimeoutError:
            raise _busy(f"{AT_ONCE_FROM_ADDRESS} deliveries from {address}") from None
        try:
            if self._places.locked():
                raise _busy(f"{AT_ONCE} deliveries")
            async with self._places:
                yield
        finally:
            places.release()


def _busy(what: str) -> Busy:
    return Busy(f"{what} are being read; send it again", retry_s=RETRY_S)


async def _acted(connection: Connection | None, body: bytes, request: Request) -> Response:
    """Act on an admitted delivery."""
    assert connection is not None  # else it is not admitted
    call: Call = request.state.call
    event = await asyncio.to_thread(_event, connection, request.headers, body)
    is_asking = event is not None and await service.deliver(
        call.dependencies, call.principal, event
    )
    return Response(status_code=202 if is_asking else 204)


def _signed(
    known: WebhookConnections, name: str, headers: Mapping[str, str], body: bytes
) -> Connection | None:
    """Return the connection if its secret has signed the delivery."""
    found = known.find(name)
    # An unknown name also takes the time of a digest, so that the time does not reveal it.
    secret = found[1] if found is not None else b"unknown"
    host = host_events.HOSTS[found[0].kind if found is not None else host_events.ANY]
    is_signed = host.is_signed(secret, headers, body)
    return found[0] if found is not None and is_signed else None


def _event(connection: Connection, headers: Mapping[str, str], body: bytes) -> HostEvent | None:
    """Return the event of a delivery; None if it requires no action."""
    try:
        return host_events.event(connection, headers, _payload(headers, body))
    except host_events.MALFORMED as exc:
        raise InvalidQuery("body", f"is not an event of {connection.kind}: {exc!r}") from None


def _payload(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the JSON of a delivery, which GitHub may send as a form."""
    text = body.decode()
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        found = parse_qs(text, max_num_fields=10).get("payload")
        if not found:
            raise ValueError("a form without `payload`: let the host send JSON")
        (text,) = found
    payload = json.loads(text)
    if not isinstance(payload, dict):
        raise TypeError("the body is not an object")
    return payload
