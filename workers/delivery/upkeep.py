"""Periodic and clean-up tasks: resend lost work, optimise indexes, delete removed repositories.

They also read the permissions and the repositories of code hosts, regroup repositories, measure
disk use, and make maps of chunks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from codelode import jobs
from codelode.ledger import Advance
from codelode.model import DEFAULT_REF, RefName, RepositoryName
from codelode.ports import ChunkStore
from workers import mapping, measuring
from workers.delivery import messages
from workers.delivery.app import app
from workers.delivery.tasks import delivery, outbox
from workers.services import services
from workers.store import remove_ref

log = structlog.get_logger("workers")

#: Allows one removal at a time: `reap` may send a removal again while the first one is running, and
#: the second must not delete what a new run of the repository stores after the first has ended.
_removing = threading.Lock()


@app.task(name=jobs.REAP_TASK)
def reap() -> None:
    """Resend the jobs of dead workers and lost messages, and end runs that newer ones supersede."""
    ledger, waiting = services().ledger, _waiting()
    for run, items in ledger.reap(waiting=waiting).items():
        log.warning("files_requeued", run=run, files=len(items))
        delivery().publish(run, Advance(items))
    for run in ledger.stalled() if not waiting[jobs.PULL] else ():
        log.warning("pull_requeued", run=run)
        outbox.pull(delivery().existing(run))
    for run in ledger.supersede():
        log.info("run_superseded", by=run)
        outbox.pull(delivery().existing(run))
    for name in ledger.being_removed() if not waiting[jobs.STORE] else ():
        outbox.forget(name)
    for place in ledger.refs_being_removed() if not waiting[jobs.STORE] else ():
        outbox.forget_ref(*place)


@app.task(name=jobs.MAINTAIN_TASK)
def maintain() -> None:
    """Optimise the index: merge recent writes into it."""
    index = services().index
    with index.in_use():
        index.store.maintain()


@app.task(name=jobs.MEASURE_TASK)
def measure() -> None:
    """Measure the disk and memory use of the cluster, for the status."""
    measuring.measure(services().settings, services().disk_use)


@app.task(name=jobs.MAP_TASK)
def make_map(repositories: list[str]) -> None:
    """Make a map of the chunks of the repositories, unless it is no longer wanted."""
    names = messages.accepted(jobs.MAP_TASK, messages.repositories, repositories)
    if names is not None:
        mapping.make_confined(services().settings, services().chunk_maps, names)


@app.task(name=jobs.PERMISSIONS_TASK)
def permissions() -> None:
    """Send a job for each code host whose permissions are due."""
    for connection in services().permission_sync.due():
        outbox.read_permissions(connection)


@app.task(name=jobs.READ_PERMISSIONS_TASK)
def read_permissions(connection: str) -> None:
    """Read the permissions of a code host, unless another worker does."""
    name = messages.accepted(jobs.READ_PERMISSIONS_TASK, messages.connection, connection)
    if name is not None:
        services().permission_sync.run(name)


@app.task(name=jobs.REGROUP_TASK)
def regroup() -> None:
    """Begin a regrouping if one is due, or go on with it."""
    services().regrouping.step()


@app.task(name=jobs.SOURCES_TASK)
def sources() -> None:
    """Send a job for each connection whose repositories are due to be listed."""
    for connection in services().source_sync.due():
        outbox.read_source(connection)


@app.task(name=jobs.READ_SOURCE_TASK)
def read_source(connection: str) -> None:
    """Bring what is indexed of a connection up to date, unless another worker does."""
    name = messages.accepted(jobs.READ_SOURCE_TASK, messages.connection, connection)
    if name is not None:
        services().source_sync.run(name, outbox)


@app.task(name=jobs.FORGET_TASK)
def forget(repository: str) -> None:
    """Remove what is stored of a removed repository; until then no new run of it starts."""
    name = messages.accepted(jobs.FORGET_TASK, messages.repository, repository)
    if name is not None:
        with _removing:
            _forget(name)


@app.task(name=jobs.FORGET_REF_TASK)
def forget_ref(repository: str, ref: str) -> None:
    """Remove what is stored of a removed ref; until then no run of it is planned."""
    name = messages.accepted(jobs.FORGET_REF_TASK, messages.repository, repository)
    known = messages.accepted(jobs.FORGET_REF_TASK, messages.ref, ref)
    if name is not None and known is not None:
        with _removing:
            _forget_ref(name, known)


@app.task(name=jobs.DROP_MIRROR_TASK)
def drop_mirror(repository: str) -> None:
    """Delete the mirror of a removed repository, unless it was registered again since."""
    name = messages.accepted(jobs.DROP_MIRROR_TASK, messages.repository, repository)
    if name is not None and services().ledger.get(name) is None:
        services().mirrors.remove(name)


def _waiting() -> dict[str, int]:
    """Return the number of messages in each queue.

    A new connection for each `reap` would take ten times the processor time of the count.
    """
    with app.pool.acquire(block=True) as connection:
        return {name: jobs.depth(connection, name) for name in jobs.QUEUES}


def _forget_ref(name: RepositoryName, ref: RefName) -> None:
    ledger = services().ledger
    if (name, ref) not in ledger.refs_being_removed():
        return
    services().flush()
    remove_ref(
        name,
        ref,
        ledger=ledger,
        writing=_writing,
        graph=services().graph,
        symbols=services().symbols,
        references=services().references,
    )
    if ref != DEFAULT_REF:
        services().packages.remove_ref(name, ref)
    ledger.ref_removal_finished(name, ref)


@contextmanager
def _writing() -> Iterator[ChunkStore]:
    with services().writing() as index:
        yield index.store


def _forget(name: RepositoryName) -> None:
    ledger = services().ledger
    if name not in ledger.being_removed():
        return
    with services().writing() as index:
        index.store.remove_repository(name)
    services().graph.remove_repository(name)
    services().symbols.remove_repository(name)
    services().references.remove_repository(name)
    services().packages.remove_repository(name)
    services().chunk_maps.remove_repository(name)
    ledger.removal_finished(name)
    outbox.drop_mirror(name)
