"""Hold the Celery application of the workers, and act on the signals of their processes.

Each stage has its own worker processes with the pool that fits its work. `parse` needs processes
that can be killed, because a grammar can loop or crash; the others wait for git, a model, or the
store, and use threads. With the embedded store there is one `store` worker, because only one
process writes.
"""

from __future__ import annotations

import os
import socket
import threading
import warnings
from contextlib import suppress
from typing import Any

import structlog
from celery.exceptions import SecurityWarning
from celery.signals import (
    worker_init,
    worker_process_init,
    worker_ready,
    worker_shutdown,
)

from codelode import garbage
from codelode.backends import registry
from codelode.errors import Unavailable
from workers.delivery.configuration import configured
from workers.process import die_with_parent
from workers.services import bound_memory, close_services, identity, name_worker, settings, shaping

log = structlog.get_logger("workers")

#: Interval at which job events are published in batches, seconds; Flower shows them at most that
#: late. Celery would publish nearly every event alone. Each batch costs the worker and Flower about
#: a millisecond.
EVENTS_FLUSH_S = 1.0

#: Number of events at which a batch is published before the interval ends. Celery's default is 24,
#: which four files reach.
MAX_EVENTS = 1000


#: Maximum time that an ending worker waits for the ledger, seconds.
RETIRE_S = 1.0

_is_ending = threading.Event()
_heart: _Heart | None = None

# Celery warns processes that run as root about pickled messages; only JSON is accepted here.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = configured(settings, include=("workers.delivery.tasks", "workers.delivery.upkeep"))


@worker_init.connect
def _announce(sender: object = None, **_: object) -> None:
    global _heart
    name_worker(f"{socket.gethostname()}-{os.getpid()}")
    _heart = _Heart()
    _heart.beat()
    # Celery searches the metadata of all installed packages for the class, which takes 7 ms. If it
    # were not loaded here, the first job of each thread of a pool would do so.
    _ = app.backend
    garbage.settle()  # before the fork, so that the collector does not write to shared memory
    _heart.start()


@worker_ready.connect
def _gather_events(sender: Any, **_: object) -> None:
    """Publish job events in batches; one by one, they take half of the main process's time."""
    if sender.event_dispatcher is None:
        return
    sender.on_send_event_buffered = None  # for dispatchers made after a lost connection
    sender.event_dispatcher.on_send_buffered = None
    sender.event_dispatcher.buffer_limit = MAX_EVENTS
    sender.timer.call_repeatedly(EVENTS_FLUSH_S, lambda: sender.event_dispatcher.flush())


class _Heart(threading.Thread):
    """Reports this worker as alive until it shuts down.

    The first beat is in the main thread, because it imports modules and takes locks of libraries: a
    pool process that is forked while another thread holds such a lock would wait for it for ever.
    """

    def __init__(self) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._ledger = registry.ledger(settings)
        self._swap = registry.index_swap(settings)
        self._is_announced = False

    def beat(self) -> None:
        try:
            self._ledger.heartbeat(identity())
            if not self._is_announced:
                self._swap.announce(shaping(settings))
                self._is_announced = True
        except Unavailable as exc:
            log.warning("heartbeat_failed", worker=identity(), reason=str(exc))

    def run(self) -> None:
        while not _is_ending.wait(settings.heartbeat_s):
            self.beat()
        with suppress(Unavailable):  # others wait until its last report has expired
            self._ledger.retire(identity())


@worker_process_init.connect
def _confine(**_: object) -> None:
    """Make a pool process die with its parent, and bound its memory."""
    bound_memory()
    die_with_parent()


@worker_shutdown.connect
def _close(**_: object) -> None:
    _is_ending.set()
    if _heart is not None:
        _heart.join(RETIRE_S)
    close_services()
