"""Configure the Celery application: queues, beat, and logs.

Beat and Flower send and show jobs by their names. They import this module alone, because the code
of the stages would double the processor time that they take to start.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.signals import setup_logging
from kombu import Queue

from codelode import jobs, logs
from codelode.backends import registry
from codelode.settings import Settings
from codelode.stages import STAGES, Stage, queues

#: Interval at which disk use is measured, seconds. It reads the sizes of all files of the
#: mirrors, about 30 each: 4 s for 5,000 repositories, measured on a busy machine with two cores.
MEASURE_INTERVAL_S = 120.0

#: Interval at which beat asks for the code hosts that are due if it has no sources file, seconds.
#: The pull workers may have the file nevertheless; if they lack it too, they report that.
WITHOUT_SOURCES_S = 30.0


def configured(
    settings: Settings, stages: Sequence[Stage] = STAGES, *, include: Sequence[str] = ()
) -> Celery:
    """Make the application, with a queue for each stage and the tasks of the modules `include`."""
    created = Celery("codelode", include=include)
    upkeep = settings.reap_interval_s
    due = max(upkeep, 0.0 if settings.sources else WITHOUT_SOURCES_S)
    schedule = {
        "reap": _every(upkeep, jobs.REAP_TASK, jobs.CONTROL),
        "permissions": _every(due, jobs.PERMISSIONS_TASK, jobs.CONTROL),
        "measure": _every(MEASURE_INTERVAL_S, jobs.MEASURE_TASK, jobs.CONTROL),
        "sources": _every(due, jobs.SOURCES_TASK, jobs.CONTROL),
        "maintain": _every(settings.maintain_interval_s, jobs.MAINTAIN_TASK, jobs.STORE),
    }
    if registry.STORES[settings.store].has_groups:
        schedule["regroup"] = _every(upkeep, jobs.REGROUP_TASK, jobs.CONTROL)
    created.conf.update(
        **jobs.broker_settings(settings),
        task_default_queue=jobs.CONTROL,
        task_create_missing_queues=False,
        task_queues=[Queue(name) for name in queues(stages)],
        result_backend_thread_safe=True,  # there are no results, so threads can share a backend
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
        beat_schedule=schedule,
    )
    return created


def _every(interval_s: float, task: str, queue: str) -> dict[str, Any]:
    """Return a beat entry whose messages expire, so they do not pile up without a consumer."""
    return {
        "task": task,
        "schedule": interval_s,
        "options": {"queue": queue, "expires": interval_s},
    }


def log_by(settings: Settings) -> None:
    """Have Celery log as the settings say, as soon as the calling process runs a worker or beat."""
    setup_logging.connect(lambda **_: _configure_logs(settings), weak=False)


def _configure_logs(settings: Settings) -> None:
    logs.configure(settings)
    if settings.log_level != "debug":
        # These loggers write two lines per file and stage, which the ledger and Flower show too.
        for chatty in ("celery.worker.strategy", "celery.app.trace"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
