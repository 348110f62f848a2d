"""Wait for workers, and end a command with an error if there are none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from codelode.cli import printing
from codelode.errors import Unavailable

if TYPE_CHECKING:
    from codelode.client import Client, Status

#: How long a queue may be without a worker, and how often the status is asked, seconds. Starting
#: workers need less time, even on a slow machine.
NONE_S, ASK_S = 30.0, 2.0


def with_workers(client: Client, queue: str, *, what: str) -> Status:
    """Return the status of the cluster as soon as a worker listens to the queue.

    `what`: says in the error what cannot be done without a worker. Raises Unavailable if there is
    none for NONE_S.
    """
    until, is_told = time.monotonic() + NONE_S, False
    while _has_none(status := client.status(), queue):
        if time.monotonic() >= until:
            raise Unavailable(
                f"{what}: no worker has listened to the queue {queue} for {NONE_S:.0f} s; start "
                "the workers: run `codelode up`, or the service pull of Docker Compose"
            )
        if not is_told:
            printing.note(f"no worker listens to the queue {queue}; waiting for one")
            is_told = True
        time.sleep(ASK_S)
    return status


def _has_none(status: Status, queue: str) -> bool:
    """Return whether the status shows the queue without a worker. It may not show the queue."""
    return any(one.name == queue and one.workers == 0 for one in status.queues)
