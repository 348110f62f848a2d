"""Implement the port `Jobs` over Celery: send jobs by task name, without importing the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from codelode import jobs
from codelode.errors import Unavailable
from codelode.model import RefName, RepositoryName, Run
from codelode.reports import Queue
from codelode.settings import Settings
from gateway.service.dependencies import UNKNOWN

#: How long workers may take to report which queues they listen to, seconds: enough on one network,
#: and short enough for a status page.
_INSPECT_TIMEOUT_S = 0.5

#: Timeout of the broker, seconds; callers wait longer for an answer.
_TIMEOUT_S = 3.0


class CeleryJobs:
    """Sends jobs over the broker that the workers listen to."""

    def __init__(self, settings: Settings) -> None:
        self._app = Celery("gateway", set_as_current=False)
        self._app.conf.update(jobs.broker_settings(settings))
        self._app.conf.broker_transport_options.update(
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            max_retries=1,
            interval_start=0,
            interval_step=0,
        )

        # Includes errors of the transport's library: kombu translates only those of its own calls.
        lazy = self._app.connection_for_write()
        self._errors = (OperationalError, *lazy.connection_errors, *lazy.channel_errors)

    def pull(self, run: Run) -> None:
        self._send(jobs.PULL_TASK, jobs.PULL, {"run": run.id}, label=jobs.pull_title(run))

    def remove(self, repository: RepositoryName) -> None:
        self._send(jobs.FORGET_TASK, jobs.STORE, {"repository": repository}, label=repository)

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        names = {"repository": repository, "ref": ref}
        label = jobs.ref_title(repository, ref)
        self._send(jobs.FORGET_REF_TASK, jobs.STORE, names, label=label)

    def read_permissions(self, connection: str) -> None:
        names = {"connection": connection}
        self._send(jobs.READ_PERMISSIONS_TASK, jobs.CONTROL, names, label=connection)

    def read_source(self, connection: str) -> None:
        names = {"connection": connection}
        self._send(jobs.READ_SOURCE_TASK, jobs.CONTROL, names, label=connection)

    def make_map(self, repositories: Sequence[RepositoryName]) -> None:
        names = {"repositories": list(repositories)}
        label = f"{repositories[0]} and {len(repositories) - 1} more"
        label = repositories[0] if len(repositories) == 1 else label
        self._send(jobs.MAP_TASK, jobs.CONTROL, names, label=label)

    def queues(self) -> tuple[Queue, ...]:
        with self._translated(), self._app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=0, timeout=_TIMEOUT_S)
            depths = {name: jobs.depth(connection, name) for name in jobs.QUEUES}
            workers = self._workers(connection)
        return tuple(Queue(name, depths[name], workers[name]) for name in jobs.QUEUES)

    def close(self) -> None:
        self._app.close()

    def _send(self, task: str, queue: str, kwargs: Mapping[str, object], *, label: str) -> None:
        """Send a task. Monitors show `label` instead of the arguments."""
        with self._translated():
            self._app.send_task(
                task,
                kwargs=dict(kwargs),
                queue=queue,
                argsrepr="",
                kwargsrepr=label,
                retry=False,
            )

    def _workers(self, connection: Any) -> dict[str, int]:
        """Count the workers that listen to each queue and answer in time.

        The counts are UNKNOWN if the broker is out of memory, so that workers cannot be asked.
        """
        try:  # use this connection, because a restart of Redis may have closed a pooled one
            inspect = self._app.control.inspect(timeout=_INSPECT_TIMEOUT_S, connection=connection)
            replies = inspect.active_queues() or {}
        except connection.channel_errors:
            return dict.fromkeys(jobs.QUEUES, UNKNOWN)
        counts = dict.fromkeys(jobs.QUEUES, 0)
        for queues in replies.values():
            for queue in queues:
                counts[queue["name"]] = counts.get(queue["name"], 0) + 1
        return counts

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (*self._errors, ConnectionError, TimeoutError) as exc:
            raise Unavailable(f"the job broker does not answer; is Redis running? ({exc})") from exc
