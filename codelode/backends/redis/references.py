"""The reference index in Redis: the names that a file uses, and the files that use a name.

Names are indexed by a digest of five bytes, so that the name itself is stored only once per file,
compressed. In a repository with 100,000 names, two names share a digest with a probability of
1/200, and with 1,000 names of 1/2,000,000; a lookup may then return a file too many. One script
replaces the names of a file, and changes nothing if they are the same.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from codelode import deadline
from codelode.backends.redis import keys, versions
from codelode.backends.redis.connection import translated
from codelode.errors import Corrupt, Unavailable
from codelode.model import RefName, RepositoryName
from codelode.references import distinct_names, lookup_key
from codelode.tokens import Memo

#: Attempts of a read while the index changes: the repository is removed, or a ref moves from one
#: version of a file to another. If every attempt meets a change, the last one counts.
READ_ATTEMPTS = 5

#: Names times repositories that one round trip looks up, which takes the server about 10 ms.
HOLDING_BATCH = 50_000

_DIGEST_BYTES = 5
#: When the index was created, and how many refs have changed versions since.
_State = tuple[bytes | None, bytes | None]


class RedisReferences(versions.VersionedTable):
    """Implements the port ReferenceIndex."""

    NAME = "references"
    LIBRARIES = (*versions.VersionedTable.LIBRARIES, "placed.lua")
    EMPTY = (b"",)

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        names: Mapping[str, Sequence[str]],
    ) -> None:
        values = ((keys.encode(path), _packed(used)) for path, used in names.items())
        self._write(repository, refs, values)

    def files(
        self, repository: RepositoryName, ref: RefName, names: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        base = self._base(repository)
        for _ in range(READ_ATTEMPTS):
            before, number, lists = self._lists(base, ref, names)
            after, paths = self._paths(base, sorted({i for some in lists for i in some}), number)
            if before <= {after}:
                break
        if not {born for born, _ in before} <= {after[0]}:
            raise Unavailable(f"the references of {repository} are being removed; try again")
        return {
            name: tuple(sorted(paths[id_] for id_ in some if id_ in paths))
            for name, some in zip(names, lists, strict=True)
        }

    def holding(
        self, repositories: Sequence[RepositoryName], ref: RefName, names: Sequence[str]
    ) -> Mapping[RepositoryName, tuple[str, ...]]:
        at, parts = keys.encode(ref), list(versions.batches(names))
        keyed = [[at, *(_digests[lookup_key(name)] for name in part)] for part in parts]
        found: defaultdict[RepositoryName, list[str]] = defaultdict(list)
        step = max(1, HOLDING_BATCH // max(1, len(names)))
        for start in range(0, len(repositories), step):
            deadline.check()
            some = repositories[start : start + step]
            with translated():
                replies = self._scripts["holding"](
                    [(self._base(one), key) for one in some for key in keyed]
                )
            asked = ((one, part) for one in some for part in parts)
            for (one, part), positions in zip(asked, replies, strict=True):
                found[one] += [part[position - 1] for position in positions]
        return {one: tuple(held) for one, held in found.items() if held}

    def names(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        base, at = self._base(repository), keys.encode(ref)
        calls = [(base, [at, *map(keys.encode, some)]) for some in versions.batches(paths)]
        with translated():
            replies = self._scripts["held"](calls)
        values = (value for reply in replies for value in reply)
        return {path: _unpacked(value) for path, value in zip(paths, values, strict=True)}

    def _lists(
        self, base: str, ref: RefName, names: Sequence[str]
    ) -> tuple[set[_State], bytes, list[list[int]]]:
        """Return the states of the index, the number of the ref, and the ids with each name."""
        at = keys.encode(ref)
        keyed = [_digests[lookup_key(name)] for name in names]
        calls = [(base, [at, *some]) for some in versions.batches(keyed)]
        with translated():
            replies = self._scripts["holders"](calls)
        states = {(born, moved) for _, (born, moved), *_ in replies}
        number = next((number for number, *_ in replies if number), b"")
        packed = (raw for _, _, *raws in replies for raw in raws)
        return states, number, [np.frombuffer(raw, "<u4").tolist() for raw in packed]

    def _paths(self, base: str, ids: Sequence[int], number: bytes) -> tuple[_State, dict[int, str]]:
        """Return the state of the index, read last, and the paths of ids that the ref has."""
        pipe = self._client.pipeline(transaction=False)
        for some in versions.batches(ids):
            pipe.hmget(f"{base}:path", cast("list[str]", some))
        pipe.hmget(f"{base}:meta", ["born", "moved"])
        with translated():
            *found, (born, moved) = pipe.execute()
        records = zip(ids, (record for some in found for record in some), strict=True)
        return (born, moved), {
            id_: versions.path_of(record)
            for id_, record in records
            if record is not None and versions.has(versions.members(record)[0], number)
        }


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
