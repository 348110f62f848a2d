"""The Celery application: configuration, worker shapes, beat and signals.

One worker process group per queue, each with the pool that fits its work: `parse` needs processes
that may be killed (a grammar can loop or crash), the others wait for git, the model or the store
and use threads. The `store` worker exists once per embedded store: one process writes.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import structlog
from celery import Celery
from celery.signals import (
    setup_logging,
    worker_init,
    worker_process_init,
    worker_ready,
    worker_shutdown,
)
from kombu import Queue

from codelode import garbage, jobs, logs
from codelode.backends import connect, operating
from codelode.errors import SchemaMismatch, Unavailable
from codelode.ports import (
    ChunkStore,
    DependencyGraph,
    Derivations,
    Embedder,
    Handover,
    Packages,
    ReferenceIndex,
    SymbolTable,
)
from codelode.settings import Settings, load
from workers.enrich import Enricher
from workers.pull import GitBlobs, Mirrors

if TYPE_CHECKING:
    from codelode.backends.redis.exchange import RedisExchange

log = structlog.get_logger("workers")

#: How old a worker's knowledge may be of which index is the published one, seconds. A stage that
#: embeds for an old one is put right by the stage that stores.
FOLLOW_S = 2.0

#: The settings that shape an index or say where it is: a rebuild must have the workers' own.
SHAPING = ("store", "organisation", "language_model", "summary_model", "max_file_bytes")
PLACING = {"local": ("data",), "weaviate": ("weaviate_url", "weaviate_collection")}

#: Job events wait for each other this long; Celery alone publishes nearly every one by itself.
EVENTS_FLUSH_S = 0.2

#: Address space of a parse process: a file that needs more is one failed file, not a dead machine.
PARSE_MEMORY_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Shape:
    """How a worker runs: its queues, its pool and the pool's size.

    `is_watched`: it reports each job to Flower, at about twice the main process's cost; one stage
    is enough to see every file.
    """

    queues: tuple[str, ...]
    pool: str
    concurrency: int
    is_watched: bool = False


WORKERS = {
    "pull": Shape((jobs.CONTROL, jobs.PULL), "threads", 8, is_watched=True),
    "parse": Shape((jobs.PARSE,), "prefork", os.cpu_count() or 2, is_watched=True),
    "enrich": Shape((jobs.ENRICH,), "threads", 32),
    "embed": Shape((jobs.EMBED,), "threads", 64),
    "store": Shape((jobs.STORE,), "threads", 128),
}

settings = load()


def create_app(settings: Settings) -> Celery:
    """The configured application. Tasks are in `workers.pipeline` and `workers.upkeep`."""
    created = Celery("codelode", include=["workers.pipeline", "workers.upkeep"])
    created.conf.update(
        **jobs.broker_settings(settings),
        task_default_queue=jobs.CONTROL,
        task_create_missing_queues=False,
        task_queues=[Queue(name) for name in jobs.QUEUES],
        task_acks_late=True,
        task_reject_on_worker_lost=True,  # redelivered; the ledger bounds the attempts
        task_acks_on_failure=True,
        task_acks_on_timeout=True,
        worker_prefetch_multiplier=1,
        worker_max_tasks_per_child=2000,
        worker_max_memory_per_child=400_000,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        worker_eta_task_limit=1000,
        worker_send_task_events=False,
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
    """A beat entry whose messages do not pile up while nobody consumes them."""
    return {
        "task": task,
        "schedule": interval_s,
        "options": {"queue": queue, "expires": interval_s},
    }


app = create_app(settings)


class Index:
    """The published index as this process knows it: an embedder and the store of its vectors."""

    def __init__(self, published: connect.Published) -> None:
        self.published = published

    @cached_property
    def embedder(self) -> Embedder:
        return connect.embedder(self.published.settings)

    @cached_property
    def store(self) -> ChunkStore:
        return connect.chunk_store(self.published.settings)

    def close(self) -> None:
        if "store" in vars(self):
            self.store.close()


class Services:
    """The backends of this process, each made at first use: never before a fork, never shared."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store_lock = threading.Lock()  # one thread writes to the chunk store at a time
        self._looking = threading.Lock()
        self._index: Index | None = None
        self._looked_at = 0.0

    @property
    def index(self) -> Index:
        """What is published. Do not ask with `store_lock` held."""
        with self._looking:
            now = before = self._index
            if now is None or time.monotonic() - self._looked_at > FOLLOW_S:
                now = self._index = self._look(before)
        if before is not None and before is not now:
            with self.store_lock:
                before.close()
        return now

    def _look(self, known: Index | None) -> Index:
        try:
            found = connect.published(self.settings)
        except Unavailable:
            if known is None:
                raise
            return known
        self._looked_at = time.monotonic()
        return known if known is not None and known.published == found else Index(found)

    @contextmanager
    def writing(self) -> Iterator[Index]:
        """The published index, which no other takes the place of meanwhile.

        Raises Unavailable when one has done so just before, or is about to.
        """
        index = self.index
        try:
            with self.exchange.writing(identity()):
                yield index
        except SchemaMismatch as exc:
            self._looked_at = 0.0
            if self.index is index:
                raise
            raise Unavailable(f"the index was exchanged; the job is repeated ({exc})") from exc

    def close(self) -> None:
        if self._index is not None:
            self._index.close()

    @cached_property
    def exchange(self) -> RedisExchange:
        return connect.exchange(self.settings)

    @cached_property
    def mirrors(self) -> Mirrors:
        found = self.settings
        return Mirrors(
            found.mirrors_dir, timeout_s=found.git_timeout_s, local_paths=found.local_paths
        )

    @cached_property
    def blobs(self) -> GitBlobs:
        return GitBlobs(self.mirrors)

    @cached_property
    def ledger(self) -> operating.Ledger:
        return connect.ledger(self.settings)

    @cached_property
    def handover(self) -> Handover:
        return connect.handover(self.settings)

    @cached_property
    def derivations(self) -> Derivations:
        return connect.derivations(self.settings)

    @cached_property
    def enricher(self) -> Enricher | None:
        """None when no language model is configured."""
        model = connect.language_model(self.settings)
        if model is None:
            return None
        return Enricher(
            model,
            self.derivations,
            connect.summary_budget(self.settings),
            concurrency=self.settings.model_concurrency,
        )

    @cached_property
    def graph(self) -> DependencyGraph:
        return connect.graph(self.settings)

    @cached_property
    def symbols(self) -> SymbolTable:
        return connect.symbols(self.settings)

    @cached_property
    def references(self) -> ReferenceIndex:
        return connect.references(self.settings)

    @cached_property
    def packages(self) -> Packages:
        return connect.packages(self.settings)


def shaping(settings: Settings) -> dict[str, str]:
    """The settings that a rebuild of the index must share with the workers."""
    placed = settings.model_copy(update={"data": settings.data_dir})
    return {name: str(getattr(placed, name)) for name in (*SHAPING, *PLACING[settings.store])}


_services: dict[int, Services] = {}


def services() -> Services:
    """The services of the calling process; a forked child gets its own."""
    pid = os.getpid()
    if pid not in _services:
        _services.clear()
        _services[pid] = Services(settings)
    return _services[pid]


#: Names this worker in claims; set before the pool forks, so that its children share it.
_identity = ""


def identity() -> str:
    return _identity


@setup_logging.connect
def _configure_logging(**_: object) -> None:
    logs.configure(settings)
    if settings.log_level != "debug":
        # Two lines per file and stage; the ledger and Flower know them all.
        for chatty in ("celery.worker.strategy", "celery.app.trace"):
            logging.getLogger(chatty).setLevel(logging.WARNING)


@worker_init.connect
def _announce(sender: object = None, **_: object) -> None:
    global _identity
    _identity = f"{socket.gethostname()}-{os.getpid()}"
    garbage.settle()  # before the pool forks: its children share what is left alone
    threading.Thread(target=_heartbeat, name="heartbeat", daemon=True).start()


@worker_ready.connect
def _gather_events(sender: Any, **_: object) -> None:
    """Publish job events by the dozen: one by one they take half of a main process's time."""
    if sender.event_dispatcher is None:
        return
    sender.on_send_event_buffered = None  # for dispatchers made after a lost connection
    sender.event_dispatcher.on_send_buffered = None
    sender.timer.call_repeatedly(EVENTS_FLUSH_S, lambda: sender.event_dispatcher.flush())


def _heartbeat() -> None:
    """Say that this worker lives, until the process ends."""
    ledger = connect.ledger(settings)
    pause = threading.Event()
    is_announced = False
    while True:
        try:
            ledger.heartbeat(_identity)
            if not is_announced:
                connect.exchange(settings).announce(shaping(settings))
                is_announced = True
        except Unavailable as exc:
            log.warning("heartbeat_failed", worker=_identity, reason=str(exc))
        pause.wait(settings.heartbeat_s)


@worker_process_init.connect
def _confine(**_: object) -> None:
    """A pool process dies with its parent and cannot take all of the machine's memory."""
    resource.setrlimit(resource.RLIMIT_AS, (PARSE_MEMORY_BYTES, PARSE_MEMORY_BYTES))
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


@worker_shutdown.connect
def _close(**_: object) -> None:
    if found := _services.get(os.getpid()):
        found.close()
