"""The reference index in Redis: the names that a file uses, and the files that use a name.

Names are indexed by a digest of five bytes, so that the name itself is stored only once per file,
compressed. In a repository with 100,000 names, two names share a digest with a probability of
1/200, and with 1,000 names of one in a million; a lookup then returns a file too many. One script
replaces the names of a file, and changes nothing if they are the same.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import redis

from codelode.backends.redis import keys, scripts
from codelode.backends.redis.connection import translated
from codelode.errors import Corrupt, Unavailable
from codelode.model import RepositoryName
from codelode.references import distinct_names, lookup_key
from codelode.tokens import Memo

#: Values per command, so that no command blocks the server for more than about 1 ms.
BATCH = 1000

#: Attempts of a read that the removal of the repository interrupts.
READ_ATTEMPTS = 5

_DIGEST_BYTES = 5

T = TypeVar("T")


class RedisReferences:
    """Implements the port ReferenceIndex."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._prefix = prefix
        sources = scripts.load("references.lua", after=("packed.lua",))
        self._replace = scripts.Bulk(client, sources["replace"])
        self._holders = scripts.Bulk(client, sources["holders"])
        self._held = scripts.Bulk(client, sources["held"])
        self._clear = client.register_script(sources["clear"])

    def replace(self, repository: RepositoryName, names: Mapping[str, Sequence[str]]) -> None:
        base = self._base(repository)
        calls = [(base, [keys.encode(path), _packed(used)]) for path, used in names.items()]
        with translated():
            self._replace(calls)

    def files(
        self, repository: RepositoryName, names: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        base = self._base(repository)
        for _ in range(READ_ATTEMPTS):
            births, lists = self._lists(base, names)
            birth, paths = self._paths(base, sorted({id_ for some in lists for id_ in some}))
            if births <= {birth}:
                return {
                    name: tuple(sorted(path for id_ in some if (path := paths.get(id_))))
                    for name, some in zip(names, lists, strict=True)
                }
        raise Unavailable(f"the references of {repository} are being removed; try again")

    def names(
        self, repository: RepositoryName, paths: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        base = self._base(repository)
        calls = [(base, list(map(keys.encode, batch))) for batch in _batches(paths)]
        with translated():
            replies = self._held(calls)
        values = (value for reply in replies for value in reply)
        return {path: _unpacked(value) for path, value in zip(paths, values, strict=True)}

    def remove_repository(self, repository: RepositoryName) -> None:
        with translated():
            self._clear(keys=[self._base(repository)])

    def _base(self, repository: RepositoryName) -> str:
        return keys.of_repository(self._prefix, "references", repository)

    def _lists(self, base: str, names: Sequence[str]) -> tuple[set[bytes], list[list[int]]]:
        keyed = [_digests[lookup_key(name)] for name in names]
        calls = [(base, batch) for batch in _batches(keyed)]
        with translated():
            replies = self._holders(calls)
        births = {born for born, *_ in replies}
        packed = (raw for _, *raws in replies for raw in raws)
        return births, [np.frombuffer(raw, "<u4").tolist() for raw in packed]

    def _paths(self, base: str, ids: Sequence[int]) -> tuple[bytes, dict[int, str]]:
        """Return the creation time of the index, read last, and the path of each id."""

        pipe = self._client.pipeline(transaction=False)
        for batch in _batches(ids):
            pipe.hmget(f"{base}:path", cast("list[str]", batch))
        pipe.hget(f"{base}:meta", "born")
        with translated():
            *found, born = pipe.execute()
        paths = zip(ids, (path for batch in found for path in batch), strict=True)
        return born or b"", {id_: keys.decode(path) for id_, path in paths if path is not None}


def _digest(name: str) -> bytes:
    return hashlib.blake2b(keys.encode(name), digest_size=_DIGEST_BYTES).digest()


_digests: Memo[bytes] = Memo(_digest)


def _packed(names: Sequence[str]) -> bytes:
    distinct = distinct_names(names)
    if not distinct:
        return b""
    digests = b"".join([_digests[lookup_key(name)] for name in distinct])
    count = struct.pack("<H", len(distinct))
    return count + digests + zlib.compress(keys.encode("\n".join(distinct)), 1)


def _unpacked(value: bytes) -> tuple[str, ...]:
    if not value:
        return ()
    try:
        (count,) = struct.unpack_from("<H", value)
        text = zlib.decompress(value[2 + count * _DIGEST_BYTES :])
    except (struct.error, zlib.error) as exc:
        raise Corrupt(
            "the names of a file in Redis cannot be read; remove and index the repository again"
        ) from exc
    return tuple(keys.decode(text).split("\n"))


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]
