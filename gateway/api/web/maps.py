"""Serve the map page: the chunks of some repositories as points, and the chunk at each point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from codelode.chunk_map import MAX_POINTS, MAX_REPOSITORIES, MapPlace
from codelode.reports import MapStatus
from gateway import service
from gateway.api.rest.bodies import Query as Parameters
from gateway.api.rest.bodies import Text, Whole
from gateway.api.rest.calls import Admitted
from gateway.api.web.forms import values
from gateway.api.web.links import code_url, link
from gateway.api.web.overview import moment
from gateway.api.web.pages import PART, page_router
from gateway.api.web.rendering import page
from gateway.service.capabilities import may
from gateway.service.requests import MapPlacesRequest, MapRequest
from gateway.service.results import MapAnswer

#: The properties that colours can show, each with its column in the points.
COLOURS = {"repository": 2, "language": 3, "category": 4}

#: Maximum number of repositories to choose from on the page; others can be named in its URL.
MAX_LISTED = 500

router = page_router()


class MapParameters(Parameters):
    repository: list[Text] = Field(default=[], description="Names of the repositories.")
    colour: Literal["repository", "language", "category"] = Field(
        default="repository", description="What the colours show."
    )

    def given(self) -> MapRequest:
        return MapRequest(tuple(dict.fromkeys(self.repository)))

    def url(self, path: str = "/map", **changes: Any) -> str:
        return link(path, **{"repository": self.repository, "colour": self.colour, **changes})


class PlacesParameters(MapParameters):
    point: list[Whole] = Field(default=[], description="Numbers of points.")

    def asked(self) -> MapPlacesRequest:
        return MapPlacesRequest(self.given().repositories, self.point)


@dataclass(frozen=True, slots=True)
class Group:
    """The points of one colour."""

    name: str
    points: int


@dataclass(frozen=True, slots=True)
class MapRow:
    """A map in the list of existing maps."""

    status: MapStatus
    url: str
    made_at: str


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A chunk, with the URL of its code."""

    place: MapPlace
    url: str


@router.get("/map", operation_id="GetMap")
async def chunk_map(
    call: Admitted, request: Request, asked: Annotated[MapParameters, Query()]
) -> Response:
    found = await service.chunk_map(call.dependencies, call.principal, asked.given())
    is_part = PART in request.headers
    known = () if is_part else await service.repositories(call.dependencies, call.principal)
    return page(
        request,
        "map_state.html" if is_part else "map.html",
        asked=asked,
        found=found,
        known=_listed(asked, [one.name for one in known]),
        left_out=max(0, len(known) - MAX_LISTED),
        most=MAX_REPOSITORIES,
        most_points=MAX_POINTS,
        colours=tuple(COLOURS),
        groups=tuple(_groups(found, asked.colour)),
        maps=tuple(_row(one) for one in found.maps),
        made_at=moment(found.status.at) if found.status else "",
        may_make=may(call.principal, "make_map"),
    )


@router.get("/map/points", operation_id="GetMap")
async def points(
    call: Admitted, request: Request, asked: Annotated[MapParameters, Query()]
) -> Response:
    found = await service.chunk_map(call.dependencies, call.principal, asked.given())
    return Response(
        found.points, media_type="application/octet-stream", headers={"Cache-Control": "no-store"}
    )


@router.get("/map/places", operation_id="ListMapPlaces")
async def places(
    call: Admitted, request: Request, asked: Annotated[PlacesParameters, Query()]
) -> Response:
    found = await service.map_places(call.dependencies, call.principal, asked.asked())
    return page(request, "map_places.html", places=tuple(map(_place, found.places)))


@router.post("/map", operation_id="MakeMap")
async def make_map(call: Admitted, request: Request) -> Response:
    names = await values(request, "repository", most=MAX_REPOSITORIES)
    await service.make_map(call.dependencies, call.principal, MapRequest(names))
    return RedirectResponse(link("/map", repository=names), 303)


def _listed(asked: MapParameters, names: Sequence[str]) -> list[str]:
    """Return the names to choose from: the chosen ones, and others up to MAX_LISTED."""
    chosen = [name for name in names if name in asked.repository]
    others = [name for name in names if name not in asked.repository]
    return sorted([*chosen, *others[: max(0, MAX_LISTED - len(chosen))]])


def _groups(found: MapAnswer, colour: str) -> Iterator[Group]:
    """Yield each name that has a colour with the number of its points, most points first."""
    codes = np.frombuffer(found.points, "<u2").reshape(-1, 5)[:, COLOURS[colour]]
    names: Sequence[str] = {
        "repository": found.point_repositories,
        "language": found.languages,
        "category": found.categories,
    }[colour]
    for name, count in zip(names, np.bincount(codes, minlength=len(names)), strict=True):
        yield Group(name, int(count))


def _row(one: MapStatus) -> MapRow:
    return MapRow(one, link("/map", repository=one.repositories), moment(one.at))


def _place(one: MapPlace) -> PlaceRow:
    lines = (one.start_line, one.end_line)
    return PlaceRow(one, code_url(one.repository, one.path, lines=lines))
