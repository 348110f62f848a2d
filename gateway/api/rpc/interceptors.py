"""Intercept every call: find its principal, admit it, map its errors, write one log line.

This is one interceptor and not several, because each adds about 15 µs to every call and all of them
need the same outcome. Requests are decoded here, because gRPC itself answers what it cannot decode
with UNKNOWN and the name of a Python class, and because a refused call need not be decoded. Streams
count against the limits of their principal, but take no turn of `gateway.admission`, because they
last for minutes and mostly wait. The service layer adds fields of its own (`hits`, `run`) to the
log line with `note`. Health checks and reflection are not intercepted: probes would flood the log.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn
from urllib.parse import unquote
from uuid import uuid4

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_status import rpc_status

from codelode import deadline
from codelode.access import Principal
from codelode.errors import Busy, CodelodeError, InvalidQuery, TimedOut
from gateway.access.attempts import GuardedAccess
from gateway.access.identity import Credentials
from gateway.admission import Admission
from gateway.api.rpc import status
from gateway.api.rpc.functions import FUNCTIONS
from gateway.api.rpc.named import repositories_in
from gateway.service import audit
from gateway.service.audit import note
from gateway.service.audit_log import AuditLog, Call
from gateway.service.limits import Limiter

REQUEST_ID = "x-request-id"
AUTHORIZATION = "authorization"

#: The property of a connection with the names in the certificate that the listener has verified.
ALTERNATIVE_NAMES = "x509_subject_alternative_name"

#: Request ids of callers go into the logs, so only short ones without control characters are used.
_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

log = structlog.get_logger("gateway")

Details = grpc.HandlerCallDetails
Handler = Any  # grpc.RpcMethodHandler: a struct of callables, untyped in the stubs
CallContext = aio.ServicerContext[Any, Any]


_caller: ContextVar[Principal] = ContextVar("caller")


def caller() -> Principal:
    """Return the principal of the current call, which the interceptor has set."""
    return _caller.get()


class Calls(aio.ServerInterceptor):
    """Wraps the handlers of our own services; `idle` is set while none of them is running."""

    def __init__(
        self,
        access: GuardedAccess,
        limiter: Limiter,
        audit_log: AuditLog | None = None,
        *,
        with_certificates: bool = False,
    ) -> None:
        self._access = access
        self._limiter = limiter
        self._audit_log = audit_log
        self._with_certificates = with_certificates
        self._admission = Admission()
        self._running = 0
        self.idle = asyncio.Event()
        self.idle.set()

    async def intercept_service(
        self, continuation: Callable[[Details], Awaitable[Handler]], details: Details
    ) -> Handler:
        handler = await continuation(details)
        if handler is None or not details.method.startswith("/codelode."):
            return handler
        return self._wrap(handler, details)

    def _wrap(self, handler: Handler, details: Details) -> Handler:
        method = details.method.removeprefix("/")
        metadata = dict(details.invocation_metadata or ())
        request_id = _request_id(metadata.get(REQUEST_ID))
        credentials = _credentials(metadata)
        about = _Call(method, request_id, credentials, handler.request_deserializer)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream, about),
                response_serializer=handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(handler.unary_unary, about), response_serializer=handler.response_serializer
        )

    def _unary(
        self, behaviour: Callable[[Any, CallContext], Awaitable[Any]], received: _Call
    ) -> Callable[[bytes, CallContext], Awaitable[Any]]:
        async def call(request: bytes, context: CallContext) -> Any:
            about = self._identified(received, context)
            with self._counted(), self._recorded(about, context) as outcome:
                try:
                    principal = await self._authenticate(about, context, outcome)
                    async with (
                        self._limiter.admitted(principal, about.function),
                        self._admission.admitted(context.time_remaining()),
                    ):
                        return await behaviour(about.decoded(request), context)
                except Exception as error:  # noqa: BLE001 - the process meets the world here
                    await _abort(context, error, outcome)

        return call

    def _stream(
        self, behaviour: Callable[[Any, CallContext], AsyncIterator[Any]], received: _Call
    ) -> Callable[[bytes, CallContext], AsyncIterator[Any]]:
        async def call(request: bytes, context: CallContext) -> AsyncIterator[Any]:
            about = self._identified(received, context)
            with self._counted(), self._recorded(about, context) as outcome:
                try:
                    principal = await self._authenticate(about, context, outcome)
                    async with (
                        self._limiter.admitted(principal, about.function),
                        self._access.rechecked(about.credentials, principal),
                    ):
                        async for response in behaviour(about.decoded(request), context):
                            yield response
                except Exception as error:  # noqa: BLE001 - the process meets the world here
                    await _abort(context, error, outcome)

        return call

    def _identified(self, received: _Call, context: CallContext) -> _Call:
        """Return the call with the names in the certificate of its connection, if it has one."""
        if not self._with_certificates:  # asking takes 25 µs
            return received
        names = context.auth_context().get(ALTERNATIVE_NAMES, ())
        certificate = tuple(name.decode("utf-8", "replace") for name in names)
        return replace(received, credentials=replace(received.credentials, certificate=certificate))

    async def _authenticate(
        self, about: _Call, context: CallContext, outcome: _Outcome
    ) -> Principal:
        """Return the principal of the call. Raises Unauthenticated, Unavailable, TimedOut."""
        principal = await self._access.principal(about.credentials, source=outcome.source)
        outcome.principal = principal
        _caller.set(principal)
        note(principal=principal.name)
        _check_deadline(context)
        return principal

    @contextmanager
    def _recorded(self, about: _Call, context: CallContext) -> Iterator[_Outcome]:
        """Log the call, and record it in the audit log, unless a limit refused it."""
        facts = audit.begin()
        with _line(about, context) as outcome:
            try:
                yield outcome
            except (asyncio.CancelledError, GeneratorExit) as exc:
                outcome.error = exc
                raise
            finally:
                if self._audit_log is not None and not outcome.is_refused:
                    self._audit_log.record(_audited(about, outcome, facts))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._running += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self.idle.set()


@dataclass(frozen=True, slots=True)
class _Call:
    """Holds what is known of a call before its request is read."""

    method: str
    request_id: str
    credentials: Credentials
    deserializer: Callable[[bytes], Any]

    @property
    def function(self) -> str:
        """The service function that the method calls."""
        return FUNCTIONS.get(self.method.rpartition("/")[2], "")

    def decoded(self, request: bytes) -> Any:
        """Return the message, and record what it names. Raises InvalidQuery if it is none."""
        try:
            message = self.deserializer(request)
        except DecodeError as exc:
            raise InvalidQuery(
                "request",
                f"cannot be decoded as the request of {self.method} (texts must be valid UTF-8); "
                "generate the client from the protos of this gateway's version",
            ) from exc
        audit.involve(repositories_in(message, self.function))
        return message


@dataclass(slots=True)
class _Outcome:
    request_id: str
    source: str  # address of the caller
    code: grpc.StatusCode = grpc.StatusCode.OK
    is_refused: bool = False  # before it began to work
    principal: Principal | None = None
    error: BaseException | None = None


@contextmanager
def _line(about: _Call, context: CallContext) -> Iterator[_Outcome]:
    """Log one line when the call is over, however it ends, unless a limit refused it.

    Refused calls come by the thousand; `admission` and `limits` count them in one line a second.
    """
    structlog.contextvars.clear_contextvars()
    note(request_id=about.request_id)
    context.set_trailing_metadata(((REQUEST_ID, about.request_id),))
    outcome = _Outcome(about.request_id, _source(context.peer()))
    started = time.perf_counter()
    try:
        with deadline.calling(context.time_remaining()):
            yield outcome
    except (asyncio.CancelledError, GeneratorExit):
        outcome.code = _cancelled(context)
        raise
    finally:
        took_ms = round(1000 * (time.perf_counter() - started), 2)
        facts = structlog.contextvars.get_contextvars()
        line = partial(
            log.info, method=about.method, code=outcome.code.name, took_ms=took_ms, **facts
        )
        if not outcome.is_refused:
            # Logged after the answer is sent, which would otherwise be delayed by 0.3 ms.
            asyncio.get_running_loop().call_soon(line, "rpc")


def _audited(about: _Call, outcome: _Outcome, facts: audit.CallFacts) -> Call:
    return Call(
        function=about.function,
        source=outcome.source,
        request_id=about.request_id,
        principal=outcome.principal,
        facts=facts,
        error=outcome.error,
    )


async def _abort(context: CallContext, error: Exception, outcome: _Outcome) -> NoReturn:
    outcome.code = status.code(error)
    outcome.error = error
    outcome.is_refused = isinstance(error, Busy) and error.retry_s > 0
    if isinstance(error, CodelodeError):
        note(error=str(error))
    else:
        log.exception("defect", request_id=outcome.request_id)
    rich = rpc_status.to_status(status.to_proto(error, request_id=outcome.request_id))
    trailing = (*rich.trailing_metadata, (REQUEST_ID, outcome.request_id))
    await context.abort(rich.code, rich.details, trailing)


def _check_deadline(context: CallContext) -> None:
    remaining: float | None = context.time_remaining()
    if remaining is not None and remaining <= 0:
        raise TimedOut("the deadline had passed before the call began")


def _cancelled(context: CallContext) -> grpc.StatusCode:
    """Return the status of a cancelled call: gRPC also cancels a handler at its deadline."""
    remaining: float | None = context.time_remaining()
    if remaining is not None and remaining <= 0:
        return grpc.StatusCode.DEADLINE_EXCEEDED
    return grpc.StatusCode.CANCELLED


def _credentials(metadata: Mapping[str, object]) -> Credentials:
    authorization = metadata.get(AUTHORIZATION)
    return Credentials(authorization if isinstance(authorization, str) else "")


def _source(peer: str) -> str:
    """Return the address in gRPC's name of a peer: `ipv6:%5B::1%5D:4000` → `::1`."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else kind


def _request_id(given: object) -> str:
    if isinstance(given, str) and _ACCEPTABLE_ID.fullmatch(given):
        return given
    return uuid4().hex[:16]
