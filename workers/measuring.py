"""Measure the space that the cluster takes: index, mirrors, derived values, and Redis.

The status shows the last measurement, so that a request does not have to read the folders. A size
that cannot be measured is recorded as unknown, and does not affect the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing

from codelode import disk_use
from codelode.backends import registry
from codelode.disk_use import UNKNOWN, DiskPart, taken_by
from codelode.errors import CodelodeError
from codelode.ports import DiskUse
from codelode.settings import Settings

#: Sizes by the name of a part, bytes; the empty name stands for the whole group.
Sizes = Mapping[str, int]


def measure(settings: Settings, to: DiskUse) -> None:
    """Measure each group, and record it."""
    for group, sizes in MEASURED.items():
        now = time.time()
        parts = [
            DiskPart(f"{group}: {name}" if name else group, size, now)
            for name, size in _or_unknown(sizes, settings).items()
        ]
        to.record(group, parts)


def _or_unknown(sizes: Callable[[Settings], Sizes], settings: Settings) -> Sizes:
    try:
        return sizes(settings)
    except (CodelodeError, OSError):
        return {"": UNKNOWN}


def _index(settings: Settings) -> Sizes:
    with closing(registry.inventory(settings)) as inventory:
        found = inventory.sizes()
    return {"": UNKNOWN} if found is None else found


def _mirrors(settings: Settings) -> Sizes:
    return {"": taken_by(settings.mirrors_dir)}


def _derived(settings: Settings) -> Sizes:
    """Return the size of the cache on disk; in Redis, it is a part of the memory of Redis."""
    is_on_disk = settings.derivations == "disk"
    return {"": taken_by(settings.derivations_file.parent)} if is_on_disk else {}


def _redis(settings: Settings) -> Sizes:
    """Return the memory of the Redis server, and of the server of the caches if it differs."""
    own = {"": registry.redis_memory(settings.redis_url)}
    if settings.cache_url in ("", settings.redis_url):
        return own
    return own | {"caches": registry.redis_memory(settings.cache_url)}


MEASURED: Mapping[str, Callable[[Settings], Sizes]] = {
    disk_use.INDEX: _index,
    disk_use.MIRRORS: _mirrors,
    disk_use.DERIVED: _derived,
    disk_use.REDIS: _redis,
}
