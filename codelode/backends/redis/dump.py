"""Our keys in Redis as one file, and back.

Key by key as the server itself serialises them (DUMP), so that every type and life time comes back
exactly; a server of another make or of an older version may refuse them. What is only about work
under way stays out: the broker's messages, what stages hand each other, heartbeats, holds, caches.
The ledger sends again what a message is missing for (`RedisLedger.recover`).

A file is records, each of the lengths of key and value, the time to live in milliseconds (0: for
ever), the key and the value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

import redis
from redis.exceptions import ResponseError

from codelode.backends.redis.connection import translated
from codelode.errors import Corrupt, InvalidSettings

#: What the names of keys that are not kept begin with, after our prefix.
TRANSIENT = ("broker:", "handover:", "worker:", "workers:", "reindex:", "{cache}", "{derivations}")

#: Keys per round trip, and looked at per step of a walk.
_STEP = 500
_SCANNED = 5_000

_HEAD = struct.Struct("<IQq")  # bytes of key, bytes of value, ms to live


class RedisKeys:
    """All of our keys on one server."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._prefix = prefix

    def dump(self, out: BinaryIO) -> int:
        """Write every key that is kept; how many there were."""
        count = 0
        with translated():
            kept = (key for key in self._keys() if not self._is_transient(key))
            while some := list(islice(kept, _STEP)):
                pipe = self._client.pipeline(transaction=False)
                for key in some:
                    pipe.dump(key)
                    pipe.pttl(key)
                values = iter(pipe.execute())
                for key, value, ttl_ms in zip(some, values, values, strict=True):
                    if value is not None:  # it is there still
                        out.write(_HEAD.pack(len(key), len(value), max(0, ttl_ms)) + key + value)
                        count += 1
        return count

    def load(self, source: BinaryIO) -> int:
        """Write back what `dump` wrote; how many keys.

        Raises Corrupt when the file ends in the middle, InvalidSettings when the server cannot
        read it.
        """
        count = 0
        records = _records(source)
        with translated():
            while some := list(islice(records, _STEP)):
                pipe: Any = self._client.pipeline(transaction=False)
                for key, value, ttl_ms in some:
                    pipe.restore(key, ttl_ms, value, replace=True)
                try:
                    pipe.execute()
                except ResponseError as exc:
                    raise InvalidSettings(
                        f"this Redis server cannot read the backup ({exc}): restore it to the "
                        "kind of server, of the same version or newer, that it was made of"
                    ) from exc
                count += len(some)
        return count

    def wipe(self) -> None:
        """Remove all of our keys, the transient ones too."""
        with translated():
            every = self._keys()
            while some := list(islice(every, _STEP)):
                self._client.unlink(*some)

    def workers(self) -> tuple[str, ...]:
        """Workers that are alive."""
        start = f"{self._prefix}worker:"
        with translated():
            found = list(self._client.scan_iter(match=f"{start}*", count=_SCANNED))
        return tuple(sorted(key.decode().removeprefix(start) for key in found))

    def _keys(self) -> Iterator[bytes]:
        """Each key once, as far as it was there all the time."""
        return iter(set(self._client.scan_iter(match=f"{self._prefix}*", count=_SCANNED)))

    def _is_transient(self, key: bytes) -> bool:
        return key.startswith(tuple(f"{self._prefix}{name}".encode() for name in TRANSIENT))


def _records(source: BinaryIO) -> Iterator[tuple[bytes, bytes, int]]:
    while head := source.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise Corrupt("the backup of Redis ends in the middle")
        key_bytes, value_bytes, ttl_ms = _HEAD.unpack(head)
        rest = source.read(key_bytes + value_bytes)
        if len(rest) < key_bytes + value_bytes:
            raise Corrupt("the backup of Redis ends in the middle")
        yield rest[:key_bytes], rest[key_bytes:], ttl_ms
