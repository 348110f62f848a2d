"""Read, replace, and remove values per path that refs share, as `versions.lua` stores them.

Each ref of a repository has a number. A record begins with the numbers of the refs that have the
value, which are its members.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, TypeVar, cast

import redis

from codelode.backends.redis import keys, scripts
from codelode.backends.redis.connection import translated
from codelode.errors import Corrupt
from codelode.model import RefName, RepositoryName

#: Values per command, so that no command blocks the server for more than about 1 ms.
BATCH = 1000

T = TypeVar("T")


class VersionedTable:
    """A table of values per path of a repository; subclasses read it.

    Its scripts are in `NAME.lua`, after the files of LIBRARIES. EMPTY: what the script `replace`
    gets after refs and path for a file without a value.
    """

    NAME: ClassVar[str]
    LIBRARIES: ClassVar[tuple[str, ...]] = ("packed.lua", "versions.lua")
    EMPTY: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._prefix = prefix
        sources = scripts.load(f"{self.NAME}.lua", after=self.LIBRARIES)
        self._clear = client.register_script(sources.pop("clear"))
        self._scripts = {name: scripts.Bulk(client, text) for name, text in sources.items()}

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        """Take a ref from each file of a repository, and then free the number of the ref."""
        base = self._base(repository)
        with translated():
            for some in batches(fields(self._client, f"{base}:id")):
                self._write(repository, [ref], ([field, *self.EMPTY] for field in some))
            self._client.hdel(f"{base}:ref", cast("str", keys.encode(ref)))

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all values of a repository."""
        with translated():
            while self._clear(keys=[self._base(repository)]):
                pass

    def _write(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        values: Iterable[Sequence[bytes]],
    ) -> None:
        """Replace the values of files at some refs. `values`: for each a path, then its value."""
        base, at = self._base(repository), [str(len(refs)).encode(), *map(keys.encode, refs)]
        with translated():
            self._scripts["replace"]([(base, [*at, *value]) for value in values])

    def _base(self, repository: RepositoryName) -> str:
        return keys.of_repository(self._prefix, self.NAME, repository)


def members(record: bytes, at: int = 0) -> tuple[bytes, int]:
    """Return the packed numbers of the refs of a record, and the position after them.

    Raises Corrupt if the record is cut off.
    """
    start = at + 2
    stop = start + 2 * int.from_bytes(record[at:start], "little")
    if len(record) < max(start, stop):
        raise Corrupt("a record in Redis is truncated; remove and index the repository again")
    return record[start:stop], stop


def has(members: bytes, number: bytes) -> bool:
    """Return whether the number of a ref is among packed ones."""
    at = members.find(number) if number else -1
    while at > 0 and at % 2:
        at = members.find(number, at + 1)
    return at >= 0


def numbers(members: bytes) -> frozenset[bytes]:
    """Return the numbers of refs that are packed."""
    return frozenset(members[at : at + 2] for at in range(0, len(members), 2))


def path_of(record: bytes) -> str:
    """Return the path that follows the members of a record."""
    return keys.decode(record[members(record)[1] :])


def packed_number(number: bytes | None) -> bytes:
    """Return the number of a ref as records have it; empty if the ref has none."""
    return b"" if number is None else struct.pack("<H", int(number))


def fields(client: redis.Redis, key: str) -> Iterator[bytes]:
    """Yield the fields of a hash; those that are added or removed meanwhile may be missing."""
    found = cast("Iterator[tuple[bytes, bytes]]", client.hscan_iter(key, count=BATCH))
    return (field for field, _ in found)


def batches(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the values in lists of at most BATCH."""
    remaining = iter(values)
    while some := list(islice(remaining, BATCH)):
        yield some
