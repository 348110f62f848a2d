"""Many objects of one tenant at once: read, write, delete.

The server answers and deletes at most PAGE objects per request, and its cursor takes no condition.
Reading more goes through the first digits of the chunks' ids, which spread evenly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from weaviate.classes.query import Filter
from weaviate.collections import Collection
from weaviate.collections.classes.filters import FilterReturn

from codelode.backends.weaviate.codec import file_name
from codelode.backends.weaviate.errors import refusal
from codelode.backends.weaviate.inserting import Made, insert
from codelode.errors import Unavailable

T = TypeVar("T")
Objects: TypeAlias = Collection[Any, Any]  # of one tenant

#: Objects per request that writes, and requests at once: more of either made it no faster.
WRITE_OBJECTS = 200
WRITES_AT_ONCE = 2

#: Objects per request that reads: the server's own bound.
PAGE = 10_000

#: Ids in one condition; below the server's bound on what one request deletes.
IDS = 1_000

#: Waits before objects are sent again that the server refused one by one, seconds.
PAUSES_S = (0.1, 0.5, 2.0)

_DIGITS = "0123456789abcdef"


def every(
    objects: Objects, where: FilterReturn, properties: Sequence[str], *, prefix: str = ""
) -> Iterator[Any]:
    """Every object that meets the condition, with these properties.

    `prefix`: of the bucket, which holds the first digits of the chunk's id.
    """
    inside = where
    if prefix:
        inside = Filter.all_of([where, Filter.by_property("bucket").like(f"{prefix}*")])
    found = objects.query.fetch_objects(
        filters=inside, limit=PAGE, return_properties=list(properties)
    ).objects
    if len(found) < PAGE:
        yield from found
        return
    for digit in _DIGITS:
        yield from every(objects, where, properties, prefix=prefix + digit)


def by_ids(objects: Objects, ids: Iterable[UUID], properties: Sequence[str]) -> Iterator[Any]:
    """The objects with these ids, with these properties and their vectors."""
    for some in batches(ids, WRITE_OBJECTS):
        where = Filter.by_id().contains_any(some)
        yield from objects.query.fetch_objects(
            filters=where,
            limit=len(some),
            include_vector=True,
            return_properties=list(properties),
        ).objects


def write(objects: Objects, made: Iterable[Made], *, check: Callable[[], None]) -> None:
    """Store the objects; `check` raises when the server is not the one from the beginning.

    The first are on their way while the next are made.

    An object that the server refuses is sent again a few times, unless it can never be stored. Then
    this raises an error that names its file. Of several that are refused in one request the first
    decides: what the server took of the request is stored by then, the other refused ones may not
    be.

    The last object is sent twice: the server (1.39.2) writes its log of vectors out before the last
    vectors of a request are in it, and one that was killed came back without up to 88 of 1,759 that
    it had acknowledged. A further request, which finds its object there and changes nothing, writes
    out the rest.
    """
    last: list[Made] = []
    with ThreadPoolExecutor(WRITES_AT_ONCE) as pool:
        sent = []
        for some in batches(made, WRITE_OBJECTS):
            sent.append(pool.submit(_send, objects, some))
            last = some[-1:]
        try:
            for one in sent:
                one.result()
                check()
        finally:  # after the first that failed the others are not begun
            pool.shutdown(cancel_futures=True)
    if last:
        _send(objects, last)
        check()


def delete(objects: Objects, ids: Iterable[UUID]) -> None:
    """Remove the objects; unknown ids are not an error."""
    for some in batches(ids, IDS):
        where = Filter.by_id().contains_any(some)
        outcome = objects.data.delete_many(where=where)
        if outcome.failed:
            raise Unavailable(f"Weaviate did not remove {outcome.failed} chunks; try again")


def delete_singly(objects: Objects, ids: Iterable[UUID]) -> None:
    """Remove the objects without the help of an index, 3 ms each."""
    for id in ids:
        objects.data.delete_by_id(id)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some


def file_of(made: Made) -> str:
    """The file of an object that was made."""
    return file_name(str(made.properties["repository"]), str(made.properties["path"]))


def _send(objects: Objects, made: Sequence[Made]) -> None:
    remaining = list(made)
    for pause_s in (*PAUSES_S, None):
        refused = insert(objects, remaining)
        if not refused:
            return
        remaining = [remaining[index] for index in refused]
        index, message = 0, next(iter(refused.values()))
        error = refusal(message, place=file_of(remaining[index]))
        if pause_s is None or not isinstance(error, Unavailable):
            raise error
        time.sleep(pause_s)
