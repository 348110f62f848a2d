"""Check whether the gateway is healthy, and report it to health probes.

The gateway is healthy once the published index has answered, and while Redis answers, a thread is
free to ask it, and the event loop runs. The gateway's own health service answers on the port of the
calls. With CODELODE_HEALTH_LISTEN, a separate process (`probes`) also answers, without delay
even if the gateway is busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog
from grpc_health.v1 import health, health_pb2

from codelode.access import EVERYTHING
from codelode.errors import CodelodeError
from gateway.probes import Probes
from gateway.service import Dependencies

log = structlog.get_logger("gateway")

INTERVAL_S = 1.0
#: Longest wait for the event loop, a free thread, and Redis of a healthy gateway, seconds.
TIMEOUT_S = 2.0
#: Consecutive checks that must succeed after a wait of TIMEOUT_S, so that the status does not flap.
CHECKS_TO_RECOVER = 3
LATE = "no thread was free, Redis did not answer, or the event loop was blocked,"


class Health:
    """The health of a gateway, checked from `start` to `stop`."""

    def __init__(self, dependencies: Dependencies, services: Sequence[str]) -> None:
        self._dependencies = dependencies
        self._services = services
        self.servicer = health.aio.HealthServicer()
        self._probes = _probes(dependencies.settings.health_listen, services)
        self._is_healthy: bool | None = None  # as last reported
        self._is_open = False  # whether the store has answered once
        self._watch: asyncio.Task[None] | None = None
        self._check: asyncio.Task[None] | None = None  # the health check that is under way
        self._checks_to_recover = 0

    @property
    def port(self) -> int:
        """Return the port of the process that answers probes; 0 if there is none."""
        return self._probes.port if self._probes else 0

    @property
    def is_healthy(self) -> bool:
        """Whether the gateway serves, as last reported."""
        return bool(self._is_healthy)

    async def begin(self) -> None:
        """Report that the gateway starts. Raises InvalidSettings if `health_listen` is in use."""
        if self._probes:
            await self._probes.start()
        await self._report("starting")

    async def start(self) -> None:
        """Check the health now, and then every INTERVAL_S."""
        await self._observe(_now())
        self._watch = asyncio.create_task(self._keep_observing())

    async def drain(self) -> None:
        """Report that the gateway does not serve, and end the checks."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        if self._check is not None:
            self._check.cancel()
        await self._report("shutting down")
        await self.servicer.enter_graceful_shutdown()

    async def stop(self) -> None:
        """End the process that answers probes."""
        if self._probes:
            await self._probes.stop()

    async def _keep_observing(self) -> None:
        while True:
            due = _now() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            await self._observe(due)

    async def _observe(self, due: float) -> None:
        """Report the result of the health check that was due at `due`, a time of the event loop.

        The check uses a thread of the pool that calls use, so it takes long when calls hold all
        threads. A check that takes longer than TIMEOUT_S goes on.
        """
        if self._check is None:
            self._check = asyncio.create_task(self._checked())
        done, _ = await asyncio.wait({self._check}, timeout=TIMEOUT_S)
        late_s = _now() - due
        if not done or late_s > TIMEOUT_S:
            self._checks_to_recover = CHECKS_TO_RECOVER
            return await self._report(f"{LATE} for {late_s:.1f} s")
        check, self._check = self._check, None
        try:
            check.result()
        except CodelodeError as exc:
            return await self._report(str(exc))
        self._checks_to_recover = max(0, self._checks_to_recover - 1)
        return await (self._tell_probes() if self._checks_to_recover else self._report())

    async def _checked(self) -> None:
        """Wait until Redis has answered and, until its first answer, the published index."""
        await asyncio.to_thread(self._dependencies.ledger.generation)
        if not self._is_open:
            await self._dependencies.published.call(lambda one: one.chunks.count(EVERYTHING))
            self._is_open = True

    async def _report(self, problem: str = "") -> None:
        """Set the health status of all services, healthy if there is no problem; log changes."""
        is_healthy = not problem
        if is_healthy != self._is_healthy:
            self._is_healthy = is_healthy
            log.info("health", is_healthy=is_healthy, reason=problem)
        status = health_pb2.HealthCheckResponse
        now = status.SERVING if is_healthy else status.NOT_SERVING
        for name in (health.OVERALL_HEALTH, *self._services):
            await self.servicer.set(name, now)
        await self._tell_probes()

    async def _tell_probes(self) -> None:
        """Send the last report again to the process that answers probes."""
        if self._probes:
            try:
                await self._probes.report(is_healthy=bool(self._is_healthy))
            except CodelodeError as exc:  # it died, and another process took its port
                log.warning("probes_unanswered", reason=str(exc))


def _probes(listen: str, services: Sequence[str]) -> Probes | None:
    """Return the process that answers probes; None without an address."""
    return Probes(listen, services, silence_s=INTERVAL_S + TIMEOUT_S) if listen else None


def _now() -> float:
    return asyncio.get_running_loop().time()
