"""How workers and a rebuild of the index keep out of each other's way, in Redis.

A worker says that it is writing for as long as a batch takes, up to and with what the ledger is
told of it. The swap waits until nobody is and lets nobody begin until it is through, so what
the ledger knows at that moment is in the old index and, after a last look, in the new one. What a
dead worker said counts for nothing; a rebuild that dies loses its holds within LIFE_S.

What is built so far is here too, path by path, so that any machine can go on.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from uuid import uuid4

import redis

from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated
from codelode.errors import Busy, CodelodeError, Unavailable
from codelode.model import RepositoryRef

#: Holds of a rebuild end so long after it died, seconds; they are renewed three times in it.
LIFE_S = 15.0

#: How long a swap waits for writers to end, seconds.
SWAP_WAIT_S = 120.0
LOOK_S = 0.05

_RUNNING = "reindex:running"
_SWITCHING = "reindex:switching"
_TARGET = "reindex:target"
_PLACES = "reindex:places"
_FACTS = "workers:settings"


class Hold:
    """Something held in Redis and renewed by a thread until it is let go."""

    def __init__(self, swap: RedisIndexSwap, name: str, value: str) -> None:
        self._swap = swap
        self._name = name
        self._value = value
        self._ended = threading.Event()
        self._seen_at = time.monotonic()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise Unavailable when it was lost: somebody else may hold it by now."""
        if not self._swap.renew(self._name, self._value):
            raise Unavailable("this rebuild lost its hold, as after a long pause; run it again")
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
                continue  # whoever needs it checks


class RedisIndexSwap:
    """One of a process; safe to share between threads."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client: Any = client
        self._prefix = prefix
        sources = scripts.load("index_swap.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}

    # The workers' side

    def announce(self, facts: Mapping[str, str]) -> None:
        """What the workers run with, for a rebuild to compare."""
        with translated():
            self._client.set(self._key(_FACTS), json.dumps(dict(facts)))

    def facts(self) -> Mapping[str, str]:
        """What was announced last; empty: nothing yet."""
        with translated():
            return dict(json.loads(self._client.get(self._key(_FACTS)) or b"{}"))

    @contextmanager
    def writing(self, worker: str, *, wait_s: float = math.inf) -> Iterator[None]:
        """The published index stays the published one inside.

        A backup of a large index takes long, and no file is to fail of that: who holds the index
        alone renews that, and a dead one's hold ends by itself. Raises Unavailable when it is held
        for longer than `wait_s`.
        """
        token, deadline = uuid4().hex, time.monotonic() + wait_s
        while not self._script("begin", token, worker):
            if time.monotonic() > deadline:
                raise Unavailable("the index is being swapped; try again")
            time.sleep(LOOK_S)
        try:
            yield
        finally:
            with translated():
                self._client.hdel(self._key("reindex:writers"), token)

    # The rebuild's side

    @contextmanager
    def running(self) -> Iterator[Hold]:
        """One rebuild at a time. Raises Busy, naming the process, while another one runs."""
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
        """No worker writes inside.

        Raises Unavailable when those that write do not come to an end.
        """
        value, deadline = uuid4().hex, time.monotonic() + wait_s
        while not self._take(_SWITCHING, value):
            self._wait(deadline, "another swap does not end")
        hold = Hold(self, _SWITCHING, value)
        try:
            while self._script("writers"):
                self._wait(deadline, "the workers do not come to an end with their writes")
            yield hold
        finally:
            hold.end()

    def renew(self, name: str, value: str) -> bool:
        """Whether it is still held, which it is for LIFE_S from now."""
        return bool(self._script("renew", name, value, int(LIFE_S * 1000)))

    def release(self, name: str, value: str) -> None:
        self._script("release", name, value)

    # What is built

    def target(self) -> Mapping[str, str]:
        """What is being built, as `begin` was told; empty: nothing."""
        with translated():
            return dict(json.loads(self._client.get(self._key(_TARGET)) or b"{}"))

    def begin(self, target: Mapping[str, str]) -> None:
        """Begin with nothing built."""
        self.forget()
        with translated():
            self._client.set(self._key(_TARGET), json.dumps(dict(target)))

    def refs(self) -> set[RepositoryRef]:
        """The refs of which something is built."""
        with translated():
            found = self._client.smembers(self._key(_PLACES))
        return {cast("RepositoryRef", tuple(json.loads(ref))) for ref in found}

    def built(self, ref: RepositoryRef) -> dict[str, str]:
        """Of one ref: path → what was noted of it."""
        with translated():
            found = self._client.hscan_iter(self._built(ref), count=1000)
            return {path.decode(): value.decode() for path, value in found}

    def note(
        self, ref: RepositoryRef, built: Mapping[str, str], *, gone: tuple[str, ...] = ()
    ) -> None:
        """Files that are in the new index now, and those that are not any more."""
        with translated():
            pipe = self._client.pipeline(transaction=False)
            if built:
                pipe.sadd(self._key(_PLACES), json.dumps(ref))
                pipe.hset(self._built(ref), mapping=dict(built))
            if gone:
                pipe.hdel(self._built(ref), *gone)
            pipe.execute()

    def drop_ref(self, ref: RepositoryRef) -> None:
        """Nothing of the ref is built any more."""
        with translated():
            self._client.unlink(self._built(ref))
            self._client.srem(self._key(_PLACES), json.dumps(ref))

    def forget(self) -> None:
        """Nothing is being built."""
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
        time.sleep(LOOK_S)

    def _built(self, ref: RepositoryRef) -> str:
        return self._key(f"reindex:built:{':'.join(ref)}")

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _script(self, name: str, *args: str | int) -> int:
        with translated():
            return int(self._scripts[name](keys=[self._prefix], args=list(args)))


def _is_dead(holder: Mapping[str, Any]) -> bool:
    """Whether the process is one of this machine that is gone."""
    if holder.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(holder["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
