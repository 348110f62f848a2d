"""Back up all our Redis keys to a file, and restore them.

Each key is saved as the server serialises it (DUMP), so that types and times to live are restored
exactly; another kind of server or an older version may reject the values. State of work in progress
is left out: messages of the broker, stage outputs, heartbeats, locks, and caches. After a restore,
`RedisLedger.recover` makes runs send their lost messages again.

A file is a sequence of records: length of the key, length of the value, time to live in
milliseconds (0: no expiry), key, value.
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

#: Key prefixes, after our own, that are left out of a backup.
TRANSIENT = (
    *("broker:", "handover:", "worker:", "workers:", "reindex:", "{cache}", "{derivations}"),
    "disk",  # measured again within minutes
    "expiring:",  # a restored session could be one that was signed out
    "{sources}:synced",  # the next listing makes it again
    "{permissions}:synced",  # a restored one could bring back rights that were revoked meanwhile
)

#: Keys per round trip, and keys per SCAN step.
_STEP = 500
_SCANNED = 5_000

_HEAD = struct.Struct("<IQq")  # bytes of the key, bytes of the value, time to live in ms

_TRUNCATED = "the backup of Redis is truncated; use another backup"


class RedisKeys:
    """All our keys on one server."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._prefix = prefix

    def dump(self, out: BinaryIO) -> int:
        """Write all keys but the transient ones; return their number."""
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
                    if value is not None:  # it still exists
                        out.write(_HEAD.pack(len(key), len(value), max(0, ttl_ms)) + key + value)
                        count += 1
        return count

    def load(self, source: BinaryIO) -> int:
        """Restore the keys that `dump` wrote; return their number.

        Raises Corrupt if the file is truncated, InvalidSettings if the server rejects its values.
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
                        f"this Redis server cannot read the backup ({exc}): restore it on the "
                        "same kind of server, in the same version or newer"
                    ) from exc
                count += len(some)
        return count

    def wipe(self) -> None:
        """Remove all our keys, including the transient ones."""
        with translated():
            every = self._keys()
            while some := list(islice(every, _STEP)):
                self._client.unlink(*some)

    def workers(self) -> tuple[str, ...]:
        """Return the names of the live workers."""
        start = f"{self._prefix}worker:"
        with translated():
            found = list(self._client.scan_iter(match=f"{start}*", count=_SCANNED))
        return tuple(sorted(key.decode().removeprefix(start) for key in found))

    def forget_workers(self) -> None:
        """Delete the keys of live workers; call this only if none is left."""
        with translated():
            for name in self.workers():
                self._client.unlink(f"{self._prefix}worker:{name}")

    def _keys(self) -> Iterator[bytes]:
        """Iterate over the keys, each once. Keys that change meanwhile may be missed."""
        return iter(set(self._client.scan_iter(match=f"{self._prefix}*", count=_SCANNED)))

    def _is_transient(self, key: bytes) -> bool:
        return key.startswith(tuple(f"{self._prefix}{name}".encode() for name in TRANSIENT))


def _records(source: BinaryIO) -> Iterator[tuple[bytes, bytes, int]]:
    while head := source.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise Corrupt(_TRUNCATED)
        key_bytes, value_bytes, ttl_ms = _HEAD.unpack(head)
        rest = source.read(key_bytes + value_bytes)
        if len(rest) < key_bytes + value_bytes:
            raise Corrupt(_TRUNCATED)
        yield rest[:key_bytes], rest[key_bytes:], ttl_ms
