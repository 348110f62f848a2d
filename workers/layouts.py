"""Get the layout of a commit, by which the store stage resolves imports.

A layout is read from untrusted content, so only processes that can be killed read it
(`workers.confined`). The process that plans a run reads it once, and the derived-value cache keeps
it for the store stage. If the cache has lost it, the store worker starts such a process to read it
again. Meanwhile the files of that run wait, and those of other runs are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from codelode import logs
from codelode.errors import Unavailable
from codelode.model import RepositoryName, Revision, Run
from codelode.ports import DerivationKey
from codelode.settings import Settings
from workers import confined, derivations, wire
from workers.parse import imports
from workers.services import PARSE_MEMORY_BYTES, Services

#: Limit of the encoded layout, bytes per path that a commit may have. Paths have 40 bytes on
#: average in large repositories, and few of them are manifests.
BYTES_PER_PATH = 200

#: Maximum number of layouts that a worker reads at once; each takes a thread and a process.
_readings = confined.Slots(4)


class Lost(Unavailable):
    """The cache does not have the layout of the commit."""


def of_commit(repository: RepositoryName, revision: Revision, services: Services) -> imports.Layout:
    """Return the layout from a cache. Raises Lost if none has it."""
    return services.layouts.get(
        repository, revision, partial(_kept, repository, revision, services)
    )


def read(repository: RepositoryName, revision: Revision, services: Services) -> imports.Layout:
    """Return the layout, reading it unless it is cached; only for a confined process.

    Raises Rejected if it is too large to keep.
    """
    return services.layouts.get(
        repository, revision, lambda: _read(repository, revision, services)[0]
    )


def prepare(run: Run, services: Services) -> Callable[[Callable[[], bool]], None] | None:
    """Return None if the layout of the run's commit is cached, else a function that reads it."""
    if run.revision is None:
        return None  # not planned: none of its files is claimed
    try:
        of_commit(run.repository, run.revision, services)
    except Lost:
        return partial(_read_again, run.repository, run.revision, services)
    return None


def _read_again(
    repository: RepositoryName,
    revision: Revision,
    services: Services,
    is_wanted: Callable[[], bool],
) -> None:
    """Read the layout in a separate process. Raises what `confined.call` and `read` raise."""
    settings = services.settings
    with _readings.taken(is_wanted):
        data = confined.call(
            _read_alone,
            *(repository, revision, settings),
            what="reading the repository's manifests again",
            timeout_s=settings.plan_timeout_s,
            timeout_setting="CODELODE_PLAN_TIMEOUT_S",
            memory_bytes=PARSE_MEMORY_BYTES,
            is_wanted=is_wanted,
        )
    services.layouts.get(repository, revision, partial(wire.load_layout, data, name=repository))


def _read_alone(repository: RepositoryName, revision: Revision, settings: Settings) -> bytes:
    logs.configure(settings)
    services = Services(settings)
    try:
        return _read(repository, revision, services)[1]
    finally:
        services.close()


def _kept(repository: RepositoryName, revision: Revision, services: Services) -> imports.Layout:
    (data,) = services.derivations.get([_key(repository, revision)])
    if data is None:
        raise Lost(f"the manifests of {repository} are being read again")
    return wire.load_layout(data, name=repository)


def _read(
    repository: RepositoryName, revision: Revision, services: Services
) -> tuple[imports.Layout, bytes]:
    """Return the layout and its encoding; read and cache them unless they are cached."""
    key = _key(repository, revision)
    (data,) = services.derivations.get([key])
    if data is not None:
        return wire.load_layout(data, name=repository), data
    content = partial(services.blobs.read, repository)
    listing = services.blobs.listing(repository, revision)
    layout = imports.read_layout(listing, content, name=repository)
    data = wire.dump_layout(layout, max_bytes=services.settings.max_paths * BYTES_PER_PATH)
    services.derivations.put({key: data})
    return layout, data


def _key(repository: RepositoryName, revision: Revision) -> DerivationKey:
    return derivations.of_layout(repository, revision, version=wire.LAYOUT_SHAPE)
