"""Admit the calls of every face: find the principal, apply the limits, log and record the call.

A face describes the call it received and works inside `Calls.admitted`; otherwise it only
converts. A call takes a turn of `gateway.admission` only while it works, never while it waits for
its caller, who could otherwise keep all turns: the rest of a request is read before, and a call
that streams its answer takes a turn for each part. Calls that last for minutes and mostly wait take
none. The rights of the callers of streams are checked every RECHECK_S. The service layer adds
fields of its own (`hits`, `run`) to the log line with `note`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    aclosing,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import uuid4

import structlog

from codelode import deadline
from codelode.access import Principal
from codelode.errors import Busy, CodelodeError, TimedOut
from gateway.access.attempts import GuardedAccess
from gateway.access.identity import Credentials
from gateway.admission import CHANGING, Admission
from gateway.service import audit
from gateway.service.audit import note
from gateway.service.audit_log import AuditLog, Call
from gateway.service.capabilities import CAPABILITIES, Kind
from gateway.service.limits import Limiter

#: Request ids of callers go into the logs, so only short ones without control characters are used.
_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

log = structlog.get_logger("gateway")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Received:
    """A call as a face has received it."""

    face: str  # event of the log line: `rpc`, `http`, or `mcp`
    method: str  # as the face names it
    function: str  # the service function
    request_id: str
    source: str  # address of the caller
    credentials: Credentials
    remaining_s: Callable[[], float | None]  # time until the deadline; None: no deadline
    #: Returns the face's name of an outcome: an error, a cancellation, or None for an answer.
    code: Callable[[BaseException | None], str]
    #: Reads what the caller has still to send, before the call takes its turn.
    read: Callable[[], Awaitable[None]] | None = None


@dataclass(slots=True)
class _Outcome:
    principal: Principal | None = None
    has_begun: bool = False  # whether the call has had a turn
    error: BaseException | None = None

    @property
    def is_refused(self) -> bool:
        """Whether a limit refused the call before it began to work.

        There may be thousands of such calls; `admission` and `limits` log a count every second.
        """
        return not self.has_begun and isinstance(self.error, Busy) and self.error.retry_s > 0


class Calls:
    """Admits the calls of all faces; `idle` is set while none of them is running.

    `admission` has the turns of calls that change nothing.
    """

    def __init__(
        self,
        access: GuardedAccess,
        limiter: Limiter,
        audit_log: AuditLog | None = None,
        *,
        admission: Admission | None = None,
    ) -> None:
        self._access = access
        self._limiter = limiter
        self._audit_log = audit_log
        self._reading = admission or Admission()
        self._changing = Admission(running=CHANGING)
        self._running = 0
        self.idle = asyncio.Event()
        self.idle.set()

    @asynccontextmanager
    async def admitted(self, received: Received) -> AsyncIterator[Principal]:
        """Yield the principal of a call when it is admitted; log and record the call at its end.

        Raises Unauthenticated, Unavailable, TimedOut, and Busy beyond a limit. A call for which
        there is no room is refused before its principal is looked up, which takes longer.
        """
        async with self._known(received) as (principal, outcome):
            if _is_stream(received):
                turn = self._access.rechecked(received.credentials, principal)
            else:
                turn = self._turns(received).admitted(received.remaining_s())
            async with turn:
                outcome.has_begun = True
                yield principal

    async def streamed(
        self, received: Received, answer: Callable[[Principal], AsyncGenerator[T, None]]
    ) -> AsyncGenerator[T, None]:
        """Yield the parts of the answer to a call, as `admitted` admits it.

        The call holds its turn while a part is made, not while the caller takes it; the turn for
        the first part may be refused, and later ones are waited for. No part is made any more when
        the rights of the caller were reduced: this raises the error of `Access.rechecked`.
        """
        async with (
            self._known(received) as (principal, outcome),
            self._access.watched(received.credentials, principal) as rights,
            aclosing(answer(principal)) as parts,
        ):
            while True:
                turn: AbstractAsyncContextManager[None] = nullcontext()
                if not _is_stream(received):
                    turn = self._turns(received).admitted(
                        received.remaining_s(), goes_on=outcome.has_begun
                    )
                async with turn, rights.held():
                    outcome.has_begun = True
                    try:
                        part = await anext(parts)
                    except StopAsyncIteration:
                        return
                yield part

    def further(self, principal: Principal, function: str) -> AbstractAsyncContextManager[None]:
        """Count a further service function that an admitted call uses. Raises Busy."""
        return self._limiter.admitted(principal, function)

    async def require_known(self, received: Received) -> None:
        """Raise the error of `admitted` if the caller is unknown; log and record only that case.

        Used for requests that call no service function, such as one for the list of tools.
        """
        try:
            await self._access.principal(received.credentials, source=received.source)
        except CodelodeError:
            with self._recorded(received):
                raise

    def _turns(self, received: Received) -> Admission:
        is_change = CAPABILITIES[received.function].kind is Kind.WRITE
        return self._changing if is_change else self._reading

    @asynccontextmanager
    async def _known(self, received: Received) -> AsyncIterator[tuple[Principal, _Outcome]]:
        """Yield the principal within its limits, when the whole request is read."""
        if not _is_stream(received):
            self._turns(received).require_room(received.remaining_s())
        with self._counted(), self._recorded(received) as outcome:
            principal = await self._access.principal(received.credentials, source=received.source)
            outcome.principal = principal
            note(principal=principal.name)
            _check_deadline(received)
            async with self._limiter.admitted(principal, received.function):
                if received.read is not None:
                    await received.read()
                yield principal, outcome

    @contextmanager
    def _recorded(self, received: Received) -> Iterator[_Outcome]:
        """Log and record the call when it is over, however it ends, unless a limit refused it."""
        structlog.contextvars.clear_contextvars()
        note(request_id=received.request_id)
        outcome, facts, started = _Outcome(), audit.begin(), time.perf_counter()
        try:
            with deadline.calling(received.remaining_s()):
                yield outcome
        except BaseException as error:
            outcome.error = error
            _report(error, received.request_id)
            raise
        finally:
            if not outcome.is_refused:
                _log(received, outcome, started)
                self._audit(received, outcome, facts)

    def _audit(self, received: Received, outcome: _Outcome, facts: audit.CallFacts) -> None:
        if self._audit_log is not None:
            self._audit_log.record(
                Call(
                    function=received.function,
                    source=received.source,
                    request_id=received.request_id,
                    principal=outcome.principal,
                    facts=facts,
                    error=outcome.error,
                )
            )

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


def request_id(given: object) -> str:
    """Return the id given by the caller if it is acceptable, else a new one."""
    if isinstance(given, str) and _ACCEPTABLE_ID.fullmatch(given):
        return given
    return uuid4().hex[:16]


def _is_stream(received: Received) -> bool:
    return CAPABILITIES[received.function].kind is Kind.STREAM


def _check_deadline(received: Received) -> None:
    remaining_s = received.remaining_s()
    if remaining_s is not None and remaining_s <= 0:
        raise TimedOut("the deadline had passed before the call began")


def _report(error: BaseException, request_id: str) -> None:
    """Add our errors to the log line of the call, and log the traceback of others."""
    if isinstance(error, CodelodeError):
        note(error=str(error))
    elif isinstance(error, Exception):
        log.exception("defect", request_id=request_id)


def _log(received: Received, outcome: _Outcome, started: float) -> None:
    """Log one line after the answer is sent; logging before would delay the answer by 0.3 ms."""
    line = partial(
        log.info,
        received.face,
        method=received.method,
        code=received.code(outcome.error),
        took_ms=round(1000 * (time.perf_counter() - started), 2),
        **structlog.contextvars.get_contextvars(),
    )
    asyncio.get_running_loop().call_soon(line)
