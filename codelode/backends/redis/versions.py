"""Read and remove values per path that refs share, as `versions.lua` stores them.

Each ref of a repository has a number. A record begins with the numbers of the refs that have the
value, which are its members.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar, cast

import redis

from codelode.backends.redis import keys
from codelode.errors import Corrupt
from codelode.model import RefName

#: Values per command, so that no command blocks the server for more than about 1 ms.
BATCH = 1000

T = TypeVar("T")

Call = tuple[str, Sequence[bytes]]  # key and arguments of a script


def given(refs: Sequence[RefName]) -> list[bytes]:
    """Return the arguments by which a script knows the refs at which it writes."""
    return [str(len(refs)).encode(), *map(keys.encode, refs)]


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


def remove_ref(
    client: redis.Redis,
    base: str,
    ref: RefName,
    *,
    emptied: Callable[[bytes], Sequence[bytes]],
    replace: Callable[[Sequence[Call]], object],
) -> None:
    """Take a ref from each file of a table, and then free its number.

    `emptied`: the arguments that leave a file without a value, by its field in `:id`.
    """
    for some in batches(fields(client, f"{base}:id")):
        replace([(base, [*given([ref]), *emptied(field)]) for field in some])
    client.hdel(f"{base}:ref", cast("str", keys.encode(ref)))


def batches(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the values in lists of at most BATCH."""
    remaining = iter(values)
    while some := list(islice(remaining, BATCH)):
        yield some
