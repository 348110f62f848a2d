"""Serve the lab, which shows the results of one query under two settings side by side."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.responses import RedirectResponse

from codelode.errors import InvalidQuery
from gateway import service
from gateway.api.rest import problems
from gateway.api.rest.calls import Admitted, Call, counted_as
from gateway.api.web.comparison import ComparedHit, compared, counts
from gateway.api.web.lab_options import MAIN, MORE, TOP_K, TOPS, LabParameters, preset_row, rows
from gateway.api.web.labels import SIDES, labelled
from gateway.api.web.pages import page_router
from gateway.api.web.rendering import page
from gateway.api.web.results import Notice, active, notices
from gateway.service.results import SearchAnswer

router = page_router()


@dataclass(frozen=True, slots=True)
class Side:
    """The results under one of the two settings."""

    name: str  # `a` or `b`
    settings: dict[str, str]  # the options that are set, by name; others have their defaults
    answer: SearchAnswer
    hits: tuple[ComparedHit, ...]
    notices: tuple[Notice, ...]


@router.get("/lab", operation_id="Search")
async def lab(
    call: Admitted, request: Request, asked: Annotated[LabParameters, Query()]
) -> Response:
    if not all(value for _, value in request.query_params.multi_items()):
        # The form also sends its empty fields; the address should have only those that are set.
        return RedirectResponse(asked.url(), 303)
    try:
        asked.check()
        sides = await _searched(request, call, asked) if asked.q.strip() else ()
    except InvalidQuery as error:
        return _page(request, asked, problem=labelled(problems.problem(error)))
    return _page(request, asked, sides)


def _page(
    request: Request,
    asked: LabParameters,
    sides: tuple[Side, ...] = (),
    problem: problems.Problem | None = None,
) -> Response:
    shown: dict[str, Any] = {
        "main": (preset_row(asked), *rows(asked, MAIN)),
        "more": rows(asked, MORE),
        "top": asked.top or TOP_K,
        "tops": sorted({*TOPS, asked.top or TOP_K}),
        "active": tuple(active(asked)),
        "counts": counts(*(side.hits for side in sides)) if sides else None,
    }
    status = problem.status if problem else 200
    return page(
        request, "lab.html", status=status, asked=asked, sides=sides, problem=problem, **shown
    )


async def _searched(request: Request, call: Call, asked: LabParameters) -> tuple[Side, ...]:
    """Return both results, searched one after the other so that neither slows the other.

    A search whose results are not shown comes first, because the first search for a query takes
    longer: its words and its vector are not cached yet. It is the call that was admitted.
    """
    await service.search(call.dependencies, call.principal, asked.warm_up())
    answers = []
    for side in SIDES:
        async with counted_as(request, "search"):
            query = asked.request(side)
            answers.append(await service.search(call.dependencies, call.principal, query))
    return await asyncio.to_thread(_sides, asked, *answers)


def _sides(asked: LabParameters, a: SearchAnswer, b: SearchAnswer) -> tuple[Side, ...]:
    return tuple(
        _side(asked, name, answer, other)
        for name, answer, other in zip(SIDES, (a, b), (b, a), strict=True)
    )


def _side(asked: LabParameters, name: str, answer: SearchAnswer, other: SearchAnswer) -> Side:
    hits = compared(answer, other, asked.q)
    return Side(name, asked.set_options(name), answer, hits, tuple(notices(answer, asked)))
