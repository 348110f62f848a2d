"""Read, write, and delete many objects of one tenant.

The server returns and deletes at most PAGE objects per request, and its cursor cannot be combined
with a filter. Larger reads are split by the first digits of the chunk ids, which are distributed
evenly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter, FilterReturn
from weaviate.collections import Collection
from weaviate.exceptions import WeaviateInsertManyAllFailedError

from codelode.backends.weaviate.codec import file_name
from codelode.backends.weaviate.errors import refusal
from codelode.errors import Unavailable

T = TypeVar("T")
Objects: TypeAlias = Collection[Any, Any]  # of one tenant

#: Objects per write request, and concurrent write requests. Larger values were not faster.
WRITE_OBJECTS = 200
WRITES_AT_ONCE = 2

#: Objects per read request: the server's limit.
PAGE = 10_000

#: Ids in one condition; below the server's limit on deletions per request.
IDS = 1_000

#: Paths in one condition.
PATHS = 200

#: Pauses before objects that the server refused individually are sent again, seconds.
PAUSES_S = (0.1, 0.5, 2.0)

#: The digits of chunk ids.
DIGITS = "0123456789abcdef"


def every(
    objects: Objects,
    where: FilterReturn,
    properties: Sequence[str],
    *,
    prefix: str = "",
    with_vectors: bool = False,
) -> Iterator[Any]:
    """Yield every object that meets the condition, with these properties.

    `prefix` limits the read to chunk ids that begin with these hexadecimal digits.
    """
    found = objects.query.fetch_objects(
        filters=inside(where, prefix),
        limit=PAGE,
        return_properties=list(properties),
        include_vector=with_vectors,
    ).objects
    if len(found) < PAGE:
        yield from found
        return
    for digit in DIGITS:
        yield from every(
            objects, where, properties, prefix=prefix + digit, with_vectors=with_vectors
        )


def inside(where: FilterReturn, prefix: str) -> FilterReturn:
    """Return the condition limited to the chunk ids that begin with the prefix."""
    return where & Filter.by_property("bucket").like(f"{prefix}*") if prefix else where


def by_ids(objects: Objects, ids: Iterable[UUID], properties: Sequence[str]) -> Iterator[Any]:
    """Yield the objects with these ids, with these properties and their vectors."""
    for some in batches(ids, WRITE_OBJECTS):
        yield from objects.query.fetch_objects(
            filters=Filter.by_id().contains_any(some),
            limit=len(some),
            include_vector=True,
            return_properties=list(properties),
        ).objects


def write(
    objects: Objects, written: Iterable[DataObject[Any, Any]], *, check: Callable[[], None]
) -> None:
    """Store the objects; the first requests are sent while later objects are still made.

    `check` raises when the server is not the process it was at the beginning.

    An object that the server refuses is sent again a few times, unless it can never be stored.
    Then this raises an error that names its file. If one request has several refused objects, the
    first one decides: the accepted objects of the request are stored by then, the other refused
    ones may not be.

    The last object is sent twice. The server (1.39.2) flushes its vector log before the last
    vectors of a request are in it; a killed server came back without up to 88 of 1,759 vectors
    that it had acknowledged. Another request flushes the rest, and since its object is stored
    already, changes nothing else.
    """
    last: list[DataObject[Any, Any]] = []
    with ThreadPoolExecutor(WRITES_AT_ONCE) as pool:
        sent = []
        for some in batches(written, WRITE_OBJECTS):
            sent.append(pool.submit(_send, objects, some))
            last = some[-1:]
        try:
            for one in sent:
                one.result()
                check()
        finally:  # after a failure, requests that have not begun are dropped
            pool.shutdown(cancel_futures=True)
    if last:
        _send(objects, last)
        check()


def delete(objects: Objects, ids: Iterable[UUID]) -> None:
    """Delete the objects; unknown ids are not an error."""
    for some in batches(ids, IDS):
        outcome = objects.data.delete_many(where=Filter.by_id().contains_any(some))
        if outcome.failed:
            raise Unavailable(f"Weaviate did not remove {outcome.failed} chunks; try again")


def delete_singly(objects: Objects, ids: Iterable[UUID]) -> None:
    """Delete the objects one by one, which needs no index and takes 3 ms each."""
    for id in ids:
        objects.data.delete_by_id(id)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some


def insert(objects: Objects, some: Sequence[DataObject[Any, Any]]) -> Mapping[int, str]:
    """Send the objects in one request; return why the server refused some, by position."""
    try:
        errors = objects.data.insert_many(some).errors
    except WeaviateInsertManyAllFailedError as exc:
        # The exception mixes the reasons of all objects, and the first object's own reason decides.
        first = exc.message if len(some) == 1 else _refusal_alone(objects, some[0])
        return dict.fromkeys(range(len(some)), "refused with others") | {0: first}
    return {position: error.message for position, error in errors.items()}


def _refusal_alone(objects: Objects, one: DataObject[Any, Any]) -> str:
    """Send one object again and return why the server refuses it."""
    try:
        objects.data.insert_many([one])
    except WeaviateInsertManyAllFailedError as exc:
        return exc.message
    return "refused with others, accepted alone"


def _send(objects: Objects, some: Sequence[DataObject[Any, Any]]) -> None:
    remaining = list(some)
    for pause_s in (*PAUSES_S, None):
        refused = insert(objects, remaining)
        if not refused:
            return
        first, message = next(iter(refused.items()))
        error = refusal(message, file=_file_of(remaining[first]))
        if pause_s is None or not isinstance(error, Unavailable):
            raise error
        remaining = [remaining[position] for position in refused]
        time.sleep(pause_s)


def _file_of(one: DataObject[Any, Any]) -> str:
    return file_name(str(one.properties["repository"]), str(one.properties["path"]))
