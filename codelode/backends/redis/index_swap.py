"""Coordinate workers and an index rebuild in Redis: locks, and the progress of the rebuild.

The index is protected by a lock with shared and exclusive modes. A worker holds it shared
(`writing`) while it stores a batch and reports it to the ledger. The swap of the indexes holds it
exclusively (`alone`), so at that moment everything that the ledger lists is in the old index and,
after a last comparison, in the new one. The shared lock of a dead worker does not count, and the
locks of a dead rebuild expire within LIFE_S.

The files that a rebuild has finished are recorded here as well, so that any machine can resume it.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast
from uuid import uuid4

import redis

from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated
from codelode.errors import Busy, CodelodeError, Unavailable
from codelode.model import RepositoryRef

#: Time after which the locks of a dead rebuild expire, seconds. A live one renews them three times
#: in this time.
LIFE_S = 15.0

#: Time between attempts to remove the entries of ended writes, seconds.
RETRY_S = 1.0

#: Maximum wait of a swap for writers, and the interval of its checks, seconds.
SWAP_WAIT_S = 120.0
POLL_S = 0.05

_RUNNING = "reindex:running"
_SWITCHING = "reindex:switching"
_WRITERS = "reindex:writers"
_TARGET = "reindex:target"
_PLACES = "reindex:places"
_FACTS = "workers:settings"


class Hold:
    """A lock in Redis that a thread renews until it is released."""

    def __init__(self, swap: RedisIndexSwap, name: str, value: str) -> None:
        self._swap = swap
        self._name = name
        self._value = value
        self._ended = threading.Event()
        self._seen_at = time.monotonic()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise Unavailable if the lock was lost: another process may hold it by now."""
        if not self._swap.renew(self._name, self._value):
            raise Unavailable("the rebuild lost its lock, as after a long pause; run it again")
        self._seen_at = time.monotonic()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._swap.release(self._name, self._value)

    def _keep(self) -> None:
        while not self._ended.wait(LIFE_S / 3):
            try:
                self._swap.renew(self._name, self._value)
            except CodelodeError:
                continue  # `check` reports a lost lock to its user


class _EndedWrites:
    """Removes the entries of ended writes, however long Redis does not answer.

    A leftover entry of a live worker would block every removal, backup, and swap.
    """

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client: Any = client
        self._key = key
        self._tokens: set[str] = set()
        self._lock = threading.Lock()

    def end(self, token: str) -> None:
        """Remove the entry of a write now, or in the background once Redis answers."""
        try:
            self._remove(token)
        except CodelodeError:
            with self._lock:
                is_first = not self._tokens
                self._tokens.add(token)
            if is_first:
                threading.Thread(target=self._retry, name="ended writes", daemon=True).start()

    def _retry(self) -> None:
        while self._tokens:
            time.sleep(RETRY_S)
            with self._lock:
                tokens = tuple(self._tokens)
            with suppress(CodelodeError):
                self._remove(*tokens)
                with self._lock:
                    self._tokens.difference_update(tokens)

    def _remove(self, *tokens: str) -> None:
        with translated():
            self._client.hdel(self._key, *tokens)


class RedisIndexSwap:
    """The locks and the rebuild's progress; one per process, safe to share between threads."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client: Any = client
        self._prefix = prefix
        sources = scripts.load("index_swap.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}
        self._over = _EndedWrites(client, self._key(_WRITERS))

    # For workers

    def announce(self, facts: Mapping[str, str]) -> None:
        """Publish the settings of the workers, which a rebuild compares with its own."""
        with translated():
            self._client.set(self._key(_FACTS), json.dumps(dict(facts)))

    def facts(self) -> Mapping[str, str]:
        """Return the settings that workers announced last; empty: none yet."""
        with translated():
            return dict(json.loads(self._client.get(self._key(_FACTS)) or b"{}"))

    @contextmanager
    def writing(self, worker: str, *, wait_s: float = math.inf) -> Iterator[None]:
        """Hold the index lock shared: the published index is not swapped meanwhile.

        Raises Unavailable if another process holds it exclusively for longer than `wait_s`. The
        default is to wait: a backup of a large index holds it for long, no file should fail for
        that, and the lock of a dead process expires.
        """
        token, deadline = uuid4().hex, time.monotonic() + wait_s
        try:
            while not self._script("begin", token, worker):
                if time.monotonic() > deadline:
                    raise Unavailable("the index is being swapped; try again")
                time.sleep(POLL_S)
            yield
        finally:  # also if the answer to `begin` was lost
            self._over.end(token)

    # For the rebuild

    @contextmanager
    def running(self) -> Iterator[Hold]:
        """Hold the lock of rebuilds. Raises Busy, naming the process, while another one runs."""
        mine = {"host": socket.gethostname(), "pid": os.getpid(), "token": uuid4().hex}
        value = json.dumps(mine)
        if not self._take(_RUNNING, value):
            with translated():
                held = self._client.get(self._key(_RUNNING)) or b"{}"
            other = json.loads(held)
            if not _is_dead(other):
                raise Busy(
                    f"a rebuild is running already, process {other.get('pid')} on "
                    f"{other.get('host')}: wait for it, or stop it"
                )
            self.release(_RUNNING, held.decode())
            if not self._take(_RUNNING, value):
                raise Busy("another rebuild has just begun: wait for it, or stop it")
        hold = Hold(self, _RUNNING, value)
        try:
            yield hold
        finally:
            hold.end()

    @contextmanager
    def alone(self, *, wait_s: float = SWAP_WAIT_S) -> Iterator[Hold]:
        """Hold the index lock exclusively: no worker writes meanwhile.

        Raises Unavailable if the workers do not finish their writes within `wait_s`.
        """
        value, deadline = uuid4().hex, time.monotonic() + wait_s
        while not self._take(_SWITCHING, value):
            self._wait(deadline, "another swap does not finish")
        hold = Hold(self, _SWITCHING, value)
        try:
            while self._script("writers"):
                self._wait(deadline, "the workers do not finish their writes")
            yield hold
        finally:
            hold.end()

    def renew(self, name: str, value: str) -> bool:
        """Extend a lock by LIFE_S; return whether it is still held."""
        return bool(self._script("renew", name, value, int(LIFE_S * 1000)))

    def release(self, name: str, value: str) -> None:
        """Release a lock, if it is still held with this value."""
        self._script("release", name, value)

    # Progress of the rebuild

    def target(self) -> Mapping[str, str]:
        """Return the description that `begin` was given; empty: no rebuild has begun."""
        with translated():
            return dict(json.loads(self._client.get(self._key(_TARGET)) or b"{}"))

    def begin(self, target: Mapping[str, str]) -> None:
        """Start a rebuild without finished files."""
        self.forget()
        with translated():
            self._client.set(self._key(_TARGET), json.dumps(dict(target)))

    def refs(self) -> set[RepositoryRef]:
        """Return the refs with finished files."""
        with translated():
            found = self._client.smembers(self._key(_PLACES))
        return {cast("RepositoryRef", tuple(json.loads(ref))) for ref in found}

    def built(self, ref: RepositoryRef) -> dict[str, str]:
        """Return the notes on the finished files of a ref, by path."""
        with translated():
            found = self._client.hscan_iter(self._built(ref), count=1000)
            return {path.decode(): value.decode() for path, value in found}

    def note(
        self, ref: RepositoryRef, built: Mapping[str, str], *, gone: tuple[str, ...] = ()
    ) -> None:
        """Record the files that are in the new index now, and those no longer in it."""
        with translated():
            pipe = self._client.pipeline(transaction=False)
            if built:
                pipe.sadd(self._key(_PLACES), json.dumps(ref))
                pipe.hset(self._built(ref), mapping=dict(built))
            if gone:
                pipe.hdel(self._built(ref), *gone)
            pipe.execute()

    def drop_ref(self, ref: RepositoryRef) -> None:
        """Record that the new index has no files of the ref any more."""
        with translated():
            self._client.unlink(self._built(ref))
            self._client.srem(self._key(_PLACES), json.dumps(ref))

    def forget(self) -> None:
        """Remove all records of the rebuild."""
        for ref in self.refs():
            self.drop_ref(ref)
        with translated():
            self._client.delete(self._key(_TARGET), self._key(_PLACES))

    def _take(self, name: str, value: str) -> bool:
        with translated():
            life_ms = int(LIFE_S * 1000)
            return bool(self._client.set(self._key(name), value, nx=True, px=life_ms))

    def _wait(self, deadline: float, otherwise: str) -> None:
        if time.monotonic() > deadline:
            raise Unavailable(f"{otherwise}: run the command again")
        time.sleep(POLL_S)

    def _built(self, ref: RepositoryRef) -> str:
        return self._key(f"reindex:built:{':'.join(ref)}")

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _script(self, name: str, *args: str | int) -> int:
        with translated():
            return int(self._scripts[name](keys=[self._prefix], args=list(args)))


def _is_dead(holder: Mapping[str, Any]) -> bool:
    """Return whether the process ran on this machine and has ended."""

    if holder.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(holder["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
