"""Return the chunks of some repositories as points of a map, and have such maps made.

A map is made only from the chunks of its repositories, and only callers that see all of these get
it. Thus neither a point nor its position reveals anything about a repository that the caller may
not see.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from codelode.access import Principal
from codelode.chunk_map import (
    LOST_AFTER_S,
    MAX_REPOSITORIES,
    ChunkMap,
    MapState,
    Progress,
)
from codelode.errors import InvalidQuery, NotFound, Unavailable
from codelode.model import RepositoryName, Revision
from codelode.reports import MapStatus
from gateway.service.audit import note
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog
from gateway.service.dependencies import Dependencies
from gateway.service.requests import MapPlacesRequest, MapRequest
from gateway.service.results import MapAnswer, MapPlaces

#: Maximum number of places in an answer.
MAX_PLACES = 200

#: How long a worker takes for a map with few chunks, and for each further chunk, seconds. Measured
#: on one core: 1.7 s for 4,000 chunks, 30 s for 100,000.
BASE_S, S_PER_CHUNK = 2.0, 0.000_35

_LOST = f"no worker has reported progress for {LOST_AFTER_S:g} s; have it made again"


@permitted
async def make_map(
    dependencies: Dependencies, principal: Principal, request: MapRequest
) -> MapStatus:
    """Have a worker make a map of repositories; return its status at once."""
    return await asyncio.to_thread(_make, dependencies, principal, request)


@permitted
async def chunk_map(
    dependencies: Dependencies, principal: Principal, request: MapRequest
) -> MapAnswer:
    """Return the map of repositories, if there is one, and a list of all visible maps.

    Without repositories, return only the list. Raises InvalidQuery.
    """
    return await asyncio.to_thread(_map, dependencies, principal, request)


@permitted
async def map_places(
    dependencies: Dependencies, principal: Principal, request: MapPlacesRequest
) -> MapPlaces:
    """Return which chunks are at points of a map. Raises InvalidQuery, NotFound."""
    return await asyncio.to_thread(_places, dependencies, principal, request)


def _make(dependencies: Dependencies, principal: Principal, request: MapRequest) -> MapStatus:
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    names = _selected(catalog, request.repositories)
    if not names:
        raise InvalidQuery("repositories", "is empty; name the repositories of the map")
    if not _chunks(catalog, names):
        raise InvalidQuery("repositories", "have no indexed chunk yet; wait for their first run")
    waiting = MapState(names, Progress.WAITING, time.time())
    if dependencies.maps.begin(waiting):
        _send(dependencies, waiting)
    note(repositories=len(names))
    state = _state(dependencies, names) or waiting
    return _status(catalog, state, time.time())


def _send(dependencies: Dependencies, state: MapState) -> None:
    """Send the job; if that fails, mark the map as failed, and raise Unavailable."""
    try:
        dependencies.jobs.make_map(state.repositories)
    except Unavailable as exc:
        failed = MapState(state.repositories, Progress.FAILED, time.time(), error=str(exc))
        dependencies.maps.report(failed)
        raise


def _map(dependencies: Dependencies, principal: Principal, request: MapRequest) -> MapAnswer:
    catalog, now = VisibleCatalog(dependencies.ledger, principal.visible), time.time()
    names = _selected(catalog, request.repositories)
    visible = set(catalog.names())
    states = [one for one in dependencies.maps.states() if visible.issuperset(one.repositories)]
    maps = tuple(_status(catalog, one, now) for one in states)
    status = next((one for one in maps if one.repositories == names), None)
    found = _found(dependencies, names)
    note(repositories=len(names), points=0 if found is None else len(found.points))
    expected_s = BASE_S + S_PER_CHUNK * _chunks(catalog, names)
    answer = MapAnswer(names, status, expected_s=expected_s, maps=maps)
    return answer if found is None else _with_points(answer, found)


def _with_points(answer: MapAnswer, found: ChunkMap) -> MapAnswer:
    return MapAnswer(
        answer.repositories,
        answer.status,
        expected_s=answer.expected_s,
        maps=answer.maps,
        point_repositories=found.repositories,
        languages=found.languages,
        categories=found.categories,
        points=found.points.astype("<u2").tobytes(),
    )


def _places(
    dependencies: Dependencies, principal: Principal, request: MapPlacesRequest
) -> MapPlaces:
    if len(request.points) > MAX_PLACES:
        raise InvalidQuery("points", f"are {len(request.points):,}; ask for {MAX_PLACES} at most")
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    names = _selected(catalog, request.repositories)
    found = _found(dependencies, names)
    if found is None:
        raise NotFound("there is no map of these repositories; have it made first")
    for point in request.points:
        if not 0 <= point < len(found.points):
            raise InvalidQuery("points", f"has {point:,}; the map has {len(found.points):,} points")
    note(places=len(request.points))
    return MapPlaces(tuple(map(found.place, request.points)))


def _selected(catalog: VisibleCatalog, given: Sequence[str]) -> tuple[RepositoryName, ...]:
    """Return the names in order. Raises InvalidQuery for too many names and for unknown ones."""
    if len(given) > MAX_REPOSITORIES:
        raise InvalidQuery(
            "repositories", f"are {len(given):,}; a map shows {MAX_REPOSITORIES} at most"
        )
    return tuple(sorted(catalog.known(given, field="repositories")))


def _state(dependencies: Dependencies, names: tuple[RepositoryName, ...]) -> MapState | None:
    found = (one for one in dependencies.maps.states() if one.repositories == names)
    return next(found, None)


def _found(dependencies: Dependencies, names: tuple[RepositoryName, ...]) -> ChunkMap | None:
    """Return the last map that was made, even while a newer one is being made."""
    made_at = dependencies.maps.made_at(names)
    if made_at is None:
        return None
    return dependencies.known_maps.get((names, made_at), lambda: dependencies.maps.packed(names))


def _status(catalog: VisibleCatalog, state: MapState, now: float) -> MapStatus:
    is_lost = state.is_lost(now)
    return MapStatus(
        repositories=state.repositories,
        progress=Progress.FAILED if is_lost else state.progress,
        share=state.share,
        error=_LOST if is_lost else state.error,
        at=state.at,
        points=state.points,
        chunks=state.chunks,
        took_s=state.took_s,
        is_current=state.revisions == _revisions(catalog, state.repositories),
    )


def _revisions(catalog: VisibleCatalog, names: Sequence[RepositoryName]) -> tuple[Revision, ...]:
    """Return the indexed commit of each repository's default ref; empty if there is none."""
    return tuple(
        (refs[0].indexed if refs else None) or Revision("") for refs in catalog.refs_of(names)
    )


def _chunks(catalog: VisibleCatalog, names: Sequence[RepositoryName]) -> int:
    """Return the number of chunks at the default refs."""
    return sum(refs[0].chunks for refs in catalog.refs_of(names) if refs)
