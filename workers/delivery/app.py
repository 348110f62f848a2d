"""Configure the Celery application: queues, beat, and signals.

Each stage has its own worker processes with the pool that fits its work. `parse` needs processes
that can be killed, because a grammar can loop or crash; the others wait for git, a model, or the
store, and use threads. With the embedded store there is one `store` worker, because only one
process writes.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import structlog
from celery import Celery
from celery.exceptions import SecurityWarning
from celery.signals import (
    setup_logging,
    worker_init,
    worker_process_init,
    worker_ready,
    worker_shutdown,
)
from kombu import Queue

from codelode import garbage, jobs, logs
from codelode.backends import registry
from codelode.errors import Unavailable
from codelode.settings import Settings
from codelode.stages import STAGES, Stage, queues
from workers.confined import die_with_parent
from workers.services import bound_memory, close_services, identity, name_worker, settings, shaping

log = structlog.get_logger("workers")

#: Interval at which job events are published in batches; Celery publishes nearly every one alone.
EVENTS_FLUSH_S = 0.2


def create_app(settings: Settings, stages: Sequence[Stage] = STAGES) -> Celery:
    """Make the configured application, with a queue for each stage."""
    created = Celery("codelode", include=["workers.delivery.tasks", "workers.delivery.upkeep"])
    created.conf.update(
        **jobs.broker_settings(settings),
        task_default_queue=jobs.CONTROL,
        task_create_missing_queues=False,
        task_queues=[Queue(name) for name in queues(stages)],
        task_acks_late=True,
        task_reject_on_worker_lost=True,  # redelivered; the ledger bounds the attempts
        task_acks_on_failure=True,
        task_acks_on_timeout=True,
        worker_max_tasks_per_child=2000,
        worker_max_memory_per_child=400_000,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        worker_eta_task_limit=1000,
        worker_send_task_events=True,
        worker_hijack_root_logger=False,
        event_queue_ttl=5,
        event_queue_expires=60,
        beat_schedule_filename=str(settings.data_dir / "run" / "beat"),
        beat_schedule={
            "reap": _every(settings.reap_interval_s, jobs.REAP_TASK, jobs.CONTROL),
            "maintain": _every(settings.maintain_interval_s, jobs.MAINTAIN_TASK, jobs.STORE),
        },
    )
    return created


def _every(interval_s: float, task: str, queue: str) -> dict[str, Any]:
    """Return a beat entry whose messages expire, so they do not pile up without a consumer."""
    return {
        "task": task,
        "schedule": interval_s,
        "options": {"queue": queue, "expires": interval_s},
    }


#: Longest wait of an ending worker for the ledger, seconds.
RETIRE_S = 1.0

_is_ending = threading.Event()
_heart = threading.Thread(target=lambda: _heartbeat(), name="heartbeat", daemon=True)

# Celery warns processes that run as root about pickled messages; only JSON is accepted here.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = create_app(settings)


@setup_logging.connect
def _configure_logging(**_: object) -> None:
    logs.configure(settings)
    if settings.log_level != "debug":
        # They log two lines per file and stage, which the ledger and Flower show as well.
        for chatty in ("celery.worker.strategy", "celery.app.trace"):
            logging.getLogger(chatty).setLevel(logging.WARNING)


@worker_init.connect
def _announce(sender: object = None, **_: object) -> None:
    name_worker(f"{socket.gethostname()}-{os.getpid()}")
    garbage.settle()  # before the fork: children share memory that the collector leaves alone
    _heart.start()


@worker_ready.connect
def _gather_events(sender: Any, **_: object) -> None:
    """Publish job events in batches; one by one, they take half of the main process's time."""
    if sender.event_dispatcher is None:
        return
    sender.on_send_event_buffered = None  # for dispatchers made after a lost connection
    sender.event_dispatcher.on_send_buffered = None
    sender.timer.call_repeatedly(EVENTS_FLUSH_S, lambda: sender.event_dispatcher.flush())


def _heartbeat() -> None:
    """Report this worker as alive until it shuts down."""
    ledger = registry.ledger(settings)
    is_announced = False
    while not _is_ending.is_set():
        try:
            ledger.heartbeat(identity())
            if not is_announced:
                registry.index_swap(settings).announce(shaping(settings))
                is_announced = True
        except Unavailable as exc:
            log.warning("heartbeat_failed", worker=identity(), reason=str(exc))
        _is_ending.wait(settings.heartbeat_s)
    with suppress(Unavailable):  # others wait until its last report has expired
        ledger.retire(identity())


@worker_process_init.connect
def _confine(**_: object) -> None:
    """Make a pool process die with its parent, and bound its memory."""
    bound_memory()
    die_with_parent()


@worker_shutdown.connect
def _close(**_: object) -> None:
    _is_ending.set()
    _heart.join(RETIRE_S)
    close_services()
