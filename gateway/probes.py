"""Answer health probes in a separate process, so that no request to the gateway delays them.

The gateway's own health service shares the event loop and the interpreter with all calls, so a
probe waits for them as long as any other call. This process shares neither. The gateway writes one
byte to its standard input for each health check. If it writes nothing for a while, its event loop
is blocked, and this process reports that the gateway does not serve. This process ends when the
gateway ends, which closes its standard input.

    python -m gateway.probes ADDRESS SECONDS [SERVICE …]
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from codelode.environment import without_settings
from codelode.errors import InvalidSettings

HEALTHY, UNHEALTHY = b"1", b"0"
THREADS = 2

_STATUS = health_pb2.HealthCheckResponse


class Probes:
    """Controls the process that answers probes on an address."""

    def __init__(self, listen: str, services: Sequence[str], *, silence_s: float) -> None:
        self._listen = listen
        self._arguments = (f"{silence_s:g}", *services)
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0  # the bound port; 0 for a Unix socket

    async def start(self) -> None:
        """Start the process. Raises InvalidSettings if it cannot listen on the address."""
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__, self._listen, *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=without_settings(),
        )
        assert process.stdout is not None
        said = await process.stdout.readline()
        if not said:
            await process.wait()
            raise InvalidSettings(
                f"CODELODE_HEALTH_LISTEN={self._listen!r} cannot be bound; is another gateway "
                "running?"
            )
        self.port = int(said)
        if self.port:  # a replacement of the process will listen on the same port
            self._listen = f"{self._listen.rpartition(':')[0]}:{self.port}"

    async def report(self, *, is_healthy: bool) -> None:
        """Send the result of a health check to the process; start another one if it has died."""
        assert self._process is not None
        if self._process.returncode is not None:
            await self.start()
        assert self._process.stdin is not None
        self._process.stdin.write(HEALTHY if is_healthy else UNHEALTHY)

    async def stop(self) -> None:
        """End the process, if there is one."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()


def main() -> None:
    """Serve until the standard input is closed; print the port first."""
    listen, silence_s, *services = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM):  # the gateway gets it too and closes the input
        signal.signal(number, signal.SIG_IGN)
    answers = health.HealthServicer()
    server = grpc.server(ThreadPoolExecutor(THREADS), options=(("grpc.so_reuseport", 0),))
    health_pb2_grpc.add_HealthServicer_to_server(answers, server)
    _set(answers, services, is_healthy=False)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as exc:
        raise SystemExit(f"gateway.probes: {exc}") from None
    server.start()
    bound = 0 if listen.startswith("unix:") else port
    os.write(sys.stdout.fileno(), f"{bound}\n".encode())
    for is_healthy in changes(sys.stdin.fileno(), silence_s=float(silence_s)):
        _set(answers, services, is_healthy=is_healthy)
    server.stop(grace=None)


def changes(reports: int, *, silence_s: float) -> Iterator[bool]:
    """Yield whether the gateway is healthy whenever that changes, until `reports` is closed.

    It counts as unhealthy at first, and if no report has arrived for `silence_s` seconds.
    """
    was_healthy = False
    while True:
        is_readable, _, _ = select.select([reports], [], [], silence_s)
        said = os.read(reports, 1024) if is_readable else UNHEALTHY
        if not said:
            return
        is_healthy = said.endswith(HEALTHY)
        if is_healthy != was_healthy:
            yield is_healthy
        was_healthy = is_healthy


def _set(answers: health.HealthServicer, services: Sequence[str], *, is_healthy: bool) -> None:
    for name in (health.OVERALL_HEALTH, *services):
        answers.set(name, _STATUS.SERVING if is_healthy else _STATUS.NOT_SERVING)


if __name__ == "__main__":
    main()
