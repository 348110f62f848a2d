"""Intercept every call: decode it, have it admitted, and map its errors.

This is one interceptor and not several, because each adds about 15 µs to every call. Requests are
decoded here, because gRPC itself answers what it cannot decode with UNKNOWN and the name of a
Python class, and because a refused call need not be decoded. Health checks and reflection are not
intercepted: probes would flood the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_status import rpc_status

from codelode.access import Principal
from codelode.errors import InvalidQuery
from gateway.access.identity import Credentials
from gateway.api.rpc import status
from gateway.calls import Calls, Received, request_id
from gateway.service.capabilities import FUNCTIONS

REQUEST_ID = "x-request-id"
AUTHORIZATION = "authorization"

#: The property of a connection that holds the names in the verified client certificate.
ALTERNATIVE_NAMES = "x509_subject_alternative_name"

Details = grpc.HandlerCallDetails
Handler = Any  # grpc.RpcMethodHandler: a struct of callables, untyped in the stubs
CallContext = aio.ServicerContext[Any, Any]


_caller: ContextVar[Principal] = ContextVar("caller")


def caller() -> Principal:
    """Return the principal of the current call, which the interceptor has set."""
    return _caller.get()


def called_by(principal: Principal) -> None:
    """Set the principal of the current call."""
    _caller.set(principal)


class Interceptor(aio.ServerInterceptor):
    """Wraps the handlers of our own services."""

    def __init__(self, calls: Calls, *, with_certificates: bool = False) -> None:
        self._calls = calls
        self._with_certificates = with_certificates

    async def intercept_service(
        self, continuation: Callable[[Details], Awaitable[Handler]], details: Details
    ) -> Handler:
        handler = await continuation(details)
        if handler is None or not details.method.startswith("/codelode."):
            return handler
        return self._wrap(handler, details)

    def _wrap(self, handler: Handler, details: Details) -> Handler:
        metadata = dict(details.invocation_metadata or ())
        about = _Call(
            details.method.removeprefix("/"),
            request_id(metadata.get(REQUEST_ID)),
            _authorization(metadata),
            handler.request_deserializer,
        )
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream, about),
                response_serializer=handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(handler.unary_unary, about), response_serializer=handler.response_serializer
        )

    def _unary(
        self, behaviour: Callable[[Any, CallContext], Awaitable[Any]], about: _Call
    ) -> Callable[[bytes, CallContext], Awaitable[Any]]:
        async def call(request: bytes, context: CallContext) -> Any:
            try:
                async with self._calls.admitted(self._received(about, context)) as principal:
                    called_by(principal)
                    return await behaviour(about.decoded(request), context)
            except Exception as error:  # noqa: BLE001 - any error becomes an answer
                await _abort(context, error, about.request_id)

        return call

    def _stream(
        self, behaviour: Callable[[Any, CallContext], AsyncGenerator[Any, None]], about: _Call
    ) -> Callable[[bytes, CallContext], AsyncIterator[Any]]:
        async def call(request: bytes, context: CallContext) -> AsyncIterator[Any]:
            def answer(principal: Principal) -> AsyncGenerator[Any, None]:
                called_by(principal)
                return behaviour(about.decoded(request), context)

            try:
                received = self._received(about, context)
                async with aclosing(self._calls.streamed(received, answer)) as parts:
                    async for part in parts:
                        yield part
            except Exception as error:  # noqa: BLE001 - any error becomes an answer
                await _abort(context, error, about.request_id)

        return call

    def _received(self, about: _Call, context: CallContext) -> Received:
        context.set_trailing_metadata(((REQUEST_ID, about.request_id),))
        return Received(
            face="rpc",
            method=about.method,
            function=FUNCTIONS[about.method.rpartition("/")[2]],
            request_id=about.request_id,
            source=_source(context.peer()),
            credentials=Credentials(about.authorization, self._certificate(context)),
            remaining_s=context.time_remaining,
            code=partial(_code, context),
        )

    def _certificate(self, context: CallContext) -> tuple[str, ...]:
        """Return the names in the certificate of the connection, if it has one."""
        if not self._with_certificates:  # asking takes 25 µs
            return ()
        names = context.auth_context().get(ALTERNATIVE_NAMES, ())
        return tuple(name.decode("utf-8", "replace") for name in names)


@dataclass(frozen=True, slots=True)
class _Call:
    """The facts about a call that are known before its request is decoded."""

    method: str
    request_id: str
    authorization: str
    deserializer: Callable[[bytes], Any]

    def decoded(self, request: bytes) -> Any:
        """Return the decoded request. Raises InvalidQuery."""
        try:
            return self.deserializer(request)
        except DecodeError as exc:
            raise InvalidQuery(
                "request",
                f"cannot be decoded as the request of {self.method} (texts must be valid UTF-8); "
                "generate the client from the protos of this gateway's version",
            ) from exc


async def _abort(context: CallContext, error: Exception, request_id: str) -> NoReturn:
    rich = rpc_status.to_status(status.to_proto(error, request_id=request_id))
    trailing = (*rich.trailing_metadata, (REQUEST_ID, request_id))
    await context.abort(rich.code, rich.details, trailing)


def _code(context: CallContext, error: BaseException | None) -> str:
    """Return the name of the status; gRPC also cancels a handler at its deadline."""
    if error is None:
        return grpc.StatusCode.OK.name
    if not isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        return status.code(error).name
    remaining: float | None = context.time_remaining()
    if remaining is not None and remaining <= 0:
        return grpc.StatusCode.DEADLINE_EXCEEDED.name
    return grpc.StatusCode.CANCELLED.name


def _authorization(metadata: Mapping[str, object]) -> str:
    given = metadata.get(AUTHORIZATION)
    return given if isinstance(given, str) else ""


def _source(peer: str) -> str:
    """Return the address from gRPC's name of a peer: `ipv6:%5B::1%5D:4000` → `::1`."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else kind
