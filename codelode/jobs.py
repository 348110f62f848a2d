"""The contract between the senders of jobs and the workers: queues, task names, broker settings.

The gateway sends tasks by name and never imports the workers; both read this module. The task of a
file stage takes `run`, `repository`, `path`, `blob`, and `size`; a pull takes `run`. Messages carry
names and never content: Flower shows them, and Redis keeps them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kombu
from kombu.transport import TRANSPORT_ALIASES

from codelode import stages
from codelode.display import quoted
from codelode.model import RefName, RepositoryName, Run, RunId
from codelode.settings import Settings

CONTROL = stages.CONTROL
PULL = stages.PULL.name
STORE = stages.LAST.name

#: All queues, in pipeline order.
QUEUES = stages.queues()

PULL_TASK = stages.PULL.task
FORGET_TASK = "workers.forget"  # remove all data of a repository
FORGET_REF_TASK = "workers.forget_ref"
DROP_MIRROR_TASK = "workers.drop_mirror"
REAP_TASK = "workers.reap"
MAINTAIN_TASK = "workers.maintain"
MEASURE_TASK = "workers.measure"  # measure the disk use of the cluster
PERMISSIONS_TASK = "workers.permissions"  # find the code hosts whose permissions are due
MAP_TASK = "workers.map"  # make a map of the chunks of some repositories
READ_PERMISSIONS_TASK = "workers.read_permissions"  # read the permissions of one code host
REGROUP_TASK = "workers.regroup"  # go on with the regrouping of repositories
SOURCES_TASK = "workers.sources"  # find the connections whose repositories are to be listed
READ_SOURCE_TASK = "workers.read_source"  # list the repositories of one connection


class Priority(IntEnum):
    """The order in which workers take the messages of a queue: the lowest number first."""

    FIRST = 0
    LATE = 3  # files of runs that had more than their share, and pulls that nobody waits for
    BULK = 6  # files of runs of many files
    LATE_BULK = 9

    @classmethod
    def of(cls, *, is_bulk: bool, is_late: bool) -> Priority:
        """Return the priority of the files of a run."""
        return cls(cls.BULK * is_bulk + cls.LATE * is_late)

    @property
    def is_late(self) -> bool:
        return self in (Priority.LATE, Priority.LATE_BULK)


#: Lifetime of the lock under which a worker returns abandoned messages to their queues, seconds. If
#: a worker dies with the lock, nothing is redelivered until it expires; kombu's default is 300. If
#: two workers return the same message, that is harmless.
RESTORE_LOCK_S = 10

#: Prefix of the broker's keys, so that one Redis can serve several programs.
KEY_PREFIX = "codelode:broker:"

#: `backends/redis/transport.py` replaces internals of this release of kombu; any other release runs
#: with kombu's own transport.
TRANSPORT_FOR_KOMBU = "5.7.0"
OWN_TRANSPORT = "codelode.backends.redis.transport:Transport"
KOMBUS_TRANSPORT = "kombu.transport.redis:Transport"


def broker_settings(settings: Settings) -> dict[str, Any]:
    """Return the Celery configuration that publishers and consumers must share.

    Measured: an abandoned message came back after 97 s with kombu's default interval, and after
    18 s with this one. `retry_on_timeout` would silently disable batch publishing. The transport is
    chosen by its alias rather than by a setting, because Flower reads the URL's scheme.
    """
    is_known = kombu.__version__ == TRANSPORT_FOR_KOMBU
    transport = OWN_TRANSPORT if is_known else KOMBUS_TRANSPORT
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), transport))
    return {
        "broker_url": broker_url(settings.redis_url),
        "result_backend": None,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_pool_limit": 10,
        "broker_transport_options": {
            "visibility_timeout": settings.visibility_timeout_s,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "unacked_mutex_expire": RESTORE_LOCK_S,
            "socket_timeout": 30,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
            "global_keyprefix": KEY_PREFIX,
            "queue_order_strategy": "priority",
        },
    }


def pull_title(run: Run) -> str:
    """Return the text that Flower shows instead of the arguments of a pull."""
    return f"{ref_title(run.repository, run.ref)} {of_run(run.id)}"


def of_run(run: RunId) -> str:
    """Return the end of the text that Flower shows for a job of the run."""
    return f"(run {run})"


def ref_title(repository: RepositoryName, ref: RefName) -> str:
    """Return the text that Flower shows for a ref."""
    return f"{repository}@{quoted(ref)}"


def broker_url(url: str) -> str:
    """Return the URL of the Redis server in the form of kombu and Flower.

    The client library writes a socket as `unix://PATH?db=0`, they write it as
    `redis+socket://PATH?virtual_host=0`.
    """
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    (database,) = parse_qs(parts.query).get("db", ["0"])[:1]
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={database}"


def depth(connection: Any, queue: str) -> int:
    """Return the number of messages in the queue, over a kombu connection.

    kombu counts them in a transaction, which the server refuses at its memory limit.
    """
    channel = connection.default_channel
    pipe = channel.client.pipeline(transaction=False)
    for step in channel.priority_steps:
        pipe.llen(f"{queue}{channel.sep}{step}" if step else queue)
    return int(sum(pipe.execute()))
