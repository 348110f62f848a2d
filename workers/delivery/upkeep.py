"""Tasks that no file asks for: lost work is sent again, indexes are folded, the removed leaves."""

from __future__ import annotations

import structlog

from codelode import jobs
from codelode.ledger import Advance
from codelode.model import RepositoryName
from workers.delivery.app import app
from workers.delivery.dispatch import publish, send_pull
from workers.services import services

log = structlog.get_logger("workers")


@app.task(name=jobs.REAP_TASK)
def reap() -> None:
    """Send again what a dead worker or a lost message left undone."""
    ledger, waiting = services().ledger, _waiting()
    for run, items in ledger.reap(waiting=waiting).items():
        log.warning("files_requeued", run=run, files=len(items))
        publish(run, Advance(items))
    for run in ledger.stalled() if not waiting[jobs.PULL] else ():
        log.warning("pull_requeued", run=run)
        send_pull(run)
    for name in ledger.being_removed() if not waiting[jobs.STORE] else ():
        app.send_task(
            jobs.FORGET_TASK,
            kwargs={"repository": name},
            queue=jobs.STORE,
            argsrepr="",
            kwargsrepr=name,
        )


@app.task(name=jobs.MAINTAIN_TASK)
def maintain() -> None:
    """Fold recent writes into the indexes."""
    index = services().index
    with services().store_turns.alone():
        index.store.maintain()


@app.task(name=jobs.FORGET_TASK)
def forget(repository: str) -> None:
    """Remove what is stored of a removed repository; until then no new run of it starts."""
    name = RepositoryName(repository)
    ledger = services().ledger
    if name not in ledger.being_removed():
        return
    with services().writing() as index, services().store_turns.alone():
        index.store.remove_repository(name)
    services().graph.remove_repository(name)
    services().symbols.remove_repository(name)
    services().references.remove_repository(name)
    services().packages.remove_repository(name)
    ledger.removal_finished(name)
    app.send_task(
        jobs.DROP_MIRROR_TASK,
        kwargs={"repository": name},
        queue=jobs.PULL,
        argsrepr="",
        kwargsrepr=name,
    )


@app.task(name=jobs.DROP_MIRROR_TASK)
def drop_mirror(repository: str) -> None:
    """Delete the mirror of a removed repository, unless it was registered again since."""
    name = RepositoryName(repository)
    if services().ledger.get(name) is None:
        services().mirrors.remove(name)


def _waiting() -> dict[str, int]:
    """Messages per queue."""
    with app.connection_for_read() as connection:
        return {name: jobs.depth(connection, name) for name in jobs.QUEUES}
