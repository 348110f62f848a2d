"""Make clients for a Redis or Valkey URL, and translate their errors.

The protocol is RESP2, although newer clients default to RESP3: all servers from 6.2 on implement it
in the same way, and it needs no handshake for the maintenance notices of one vendor. A lost
connection is retried here. A timeout is not: the server may have done the work already, and a
repetition would add to the load that made it slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
import redis.asyncio
from redis import exceptions
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from codelode.errors import (
    Busy,
    CodelodeError,
    Corrupt,
    InvalidSettings,
    TimedOut,
    Unavailable,
)

#: Timeout for a reply, seconds. Every command and script takes milliseconds; the margin is for a
#: server that waits for its disk.
REPLY_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0

#: Maximum connections of a client: more than a worker has threads or a gateway concurrent calls.
#: Beyond its default maximum of 100 the library fails calls instead of queueing them.
MAX_CONNECTIONS = 500

#: Retries after a lost connection, with random waits of up to 0.1, 0.2, and 0.4 seconds. They are
#: for a connection that the server closed, not for a server that is down.
RETRIES = 3
BACKOFF_BASE_S = 0.05
BACKOFF_CAP_S = 1.0

#: Part of the message of a write that was rejected for lack of memory. Servers before version 7
#: report it from scripts as an ordinary error.
_OUT_OF_MEMORY = "OOM command not allowed"

#: The translation of every exception of the library: our error, and a message. It is looked up
#: along the base classes, so an exception that a later version adds is translated as its parent.
TRANSLATIONS: dict[type[Exception], tuple[type[CodelodeError], str]] = {
    exceptions.ConnectionError: (Unavailable, "Redis does not answer; is it running?"),
    exceptions.TimeoutError: (TimedOut, "Redis did not answer in time"),
    exceptions.BusyLoadingError: (Unavailable, "Redis is still loading its data"),
    exceptions.ReadOnlyError: (Unavailable, "this Redis is a replica now; is a failover going on?"),
    exceptions.MasterDownError: (Unavailable, "this Redis replica has lost its primary"),
    exceptions.MaxConnectionsError: (Busy, "all connections to Redis are in use"),
    exceptions.OutOfMemoryError: (
        Busy,
        "Redis has reached its maxmemory; raise the limit or remove repositories",
    ),
    exceptions.WatchError: (Unavailable, "another client changed the same keys"),
    exceptions.TryAgainError: (Unavailable, "Redis is moving these keys"),
    exceptions.ClusterDownError: (Unavailable, "the Redis cluster is down"),
    exceptions.LockError: (Unavailable, "a lock in Redis could not be acquired"),
    exceptions.LockNotOwnedError: (Unavailable, "a lock in Redis was lost"),
    exceptions.AuthenticationError: (InvalidSettings, "Redis refused the password in its URL"),
    exceptions.AuthorizationError: (InvalidSettings, "Redis refused the user in its URL"),
    exceptions.AuthenticationWrongNumberOfArgsError: (
        InvalidSettings,
        "Redis requires other credentials than those in its URL",
    ),
    exceptions.ExternalAuthProviderError: (InvalidSettings, "Redis refused the credentials"),
    exceptions.NoPermissionError: (InvalidSettings, "the Redis user lacks a permission"),
    # This backend supports a single server; redirections by a cluster mean that the URL is wrong.
    exceptions.AskError: (InvalidSettings, "the URL names a node of a Redis cluster"),
    exceptions.MovedError: (InvalidSettings, "the URL names a node of a Redis cluster"),
    exceptions.ClusterError: (InvalidSettings, "the URL names a node of a Redis cluster"),
    exceptions.ClusterCrossSlotError: (InvalidSettings, "the URL names a node of a Redis cluster"),
    exceptions.CrossSlotTransactionError: (
        InvalidSettings,
        "the URL names a node of a Redis cluster",
    ),
    exceptions.RedisClusterException: (InvalidSettings, "the URL names a node of a Redis cluster"),
    exceptions.SlotNotCoveredError: (InvalidSettings, "the URL names a node of a Redis cluster"),
    # The remaining errors mean an unexpected reply.
    exceptions.NoScriptError: (Unavailable, "Redis dropped its scripts, as after a restart"),
    exceptions.ResponseError: (Corrupt, "Redis refused a command"),
    exceptions.ExecAbortError: (Corrupt, "Redis refused a transaction"),
    exceptions.InvalidResponse: (Corrupt, "what answers at the Redis URL is not Redis"),
    exceptions.InvalidPipelineStack: (Corrupt, "Redis gave replies out of order"),
    exceptions.ModuleError: (Corrupt, "a Redis module failed"),
    exceptions.NoSuchFieldsetError: (Corrupt, "Redis lost the state of a connection"),
    exceptions.DataError: (Corrupt, "a value cannot be stored in Redis"),
    exceptions.PubSubError: (Corrupt, "a Redis subscription was misused"),
    exceptions.ChildDeadlockedError: (Corrupt, "a Redis client was shared across a fork"),
    exceptions.IncorrectPolicyType: (Corrupt, "Redis described a command in an unknown way"),
    exceptions.RedisError: (Corrupt, "Redis failed"),
    TimeoutError: (TimedOut, "Redis did not answer in time"),
    OSError: (Unavailable, "Redis cannot be reached"),
}

#: Maximum length of the quoted detail: redis-py quotes whole commands.
_DETAIL_CHARS = 300


def connect(url: str, *, timeout_s: float = REPLY_TIMEOUT_S, retries: int = RETRIES) -> redis.Redis:
    """Return a client for threads and tasks that connects on first use and returns bytes.

    Raises InvalidSettings if this is not the URL of a Redis server.
    """
    retry = Retry(_backoff(), retries, supported_errors=(exceptions.ConnectionError,))
    with _checked(url):
        return redis.Redis.from_url(url, retry=retry, **_options(url, timeout_s))


def connect_async(
    url: str, *, timeout_s: float = REPLY_TIMEOUT_S, retries: int = RETRIES
) -> redis.asyncio.Redis:
    """Return a client for one event loop; see `connect`."""
    retry = AsyncRetry(_backoff(), retries, supported_errors=(exceptions.ConnectionError,))
    with _checked(url):
        return redis.asyncio.Redis.from_url(url, retry=retry, **_options(url, timeout_s))


def ping(url: str) -> None:
    """Check that the server answers now; raise one of `codelode.errors` if it does not."""
    with connect(url, timeout_s=CONNECT_TIMEOUT_S, retries=0) as client, translated():
        client.ping()


@contextmanager
def translated() -> Iterator[None]:
    """Translate exceptions of the client library into `codelode.errors`."""
    try:
        yield
    except tuple(TRANSLATIONS) as exc:
        raise translate(exc) from exc


def translate(exc: Exception) -> CodelodeError:
    """Return our error for an exception of the client library."""
    detail = str(exc)
    lookup: list[type] = list(type(exc).__mro__)
    if _OUT_OF_MEMORY in detail:
        lookup.insert(0, exceptions.OutOfMemoryError)
    error, remedy = next(TRANSLATIONS[base] for base in lookup if base in TRANSLATIONS)
    return error(f"{remedy} ({detail[:_DETAIL_CHARS]})" if detail else remedy)


def _backoff() -> ExponentialWithJitterBackoff:
    return ExponentialWithJitterBackoff(cap=BACKOFF_CAP_S, base=BACKOFF_BASE_S)


@contextmanager
def _checked(url: str) -> Iterator[None]:
    try:
        yield
    except ValueError as exc:
        # The message leaves out the URL itself because it may contain a password.
        raise InvalidSettings(
            f"CODELODE_REDIS_URL or CODELODE_CACHE_URL is not the URL of a Redis server: {exc}; "
            "for example redis://127.0.0.1:6379/0"
        ) from exc


def _options(url: str, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "protocol": 2,
        # Otherwise each client reads the version of its package from a file, which takes 1 ms.
        "driver_info": None,
        "decode_responses": False,
        "max_connections": MAX_CONNECTIONS,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": min(timeout_s, CONNECT_TIMEOUT_S),
        "socket_keepalive": True,
        "health_check_interval": 25,
    }
    if url.startswith("unix://"):
        del options["socket_connect_timeout"], options["socket_keepalive"]
    return options
