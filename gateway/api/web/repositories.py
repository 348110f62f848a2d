"""Serve the repositories page: status, failures, and forms to index, retry, and cancel."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from gateway import service
from gateway.api.rest.bodies import Query as Parameters
from gateway.api.rest.bodies import Text
from gateway.api.rest.calls import Admitted
from gateway.api.web.forms import fields
from gateway.api.web.links import link
from gateway.api.web.overview import overview
from gateway.api.web.pages import PART, page_router
from gateway.api.web.rendering import page
from gateway.service.capabilities import may
from gateway.service.requests import FailuresRequest, StartRequest

#: Number of failures on a page.
PAGE_SIZE = 200

router = page_router()


class FailuresParameters(Parameters):
    repository: Text = Field(default="", description="List only the files of this repository.")
    all: bool = Field(default=False, description="Also list files that are left out on purpose.")
    page: Text = Field(default="", description="Token of a later page.")

    def given(self) -> FailuresRequest:
        return FailuresRequest(self.repository, self.all, self.all, PAGE_SIZE, self.page)


@router.get("/repositories", operation_id="GetStatus")
async def repositories(call: Admitted, request: Request) -> Response:
    found = await service.status(call.dependencies, call.principal)
    template = "overview.html" if PART in request.headers else "repositories.html"
    return page(
        request,
        template,
        overview=overview(found),
        may_index=may(call.principal, "start"),
        may_retry=may(call.principal, "retry_failures"),
        may_cancel=may(call.principal, "cancel"),
    )


@router.get("/repositories/failures", operation_id="ListFailures")
async def failures(
    call: Admitted, request: Request, asked: Annotated[FailuresParameters, Query()]
) -> Response:
    found = await service.failures(call.dependencies, call.principal, asked.given())
    given = {"repository": asked.repository, "all": int(asked.all)}
    token = found.next_page_token
    return page(
        request,
        "failures.html",
        asked=asked,
        failures=found.failures,
        more_url=link("/repositories/failures", **given, page=token) if token else "",
        other_url=link("/repositories/failures", repository=asked.repository, all=not asked.all),
        may_retry=may(call.principal, "retry_failures"),
    )


@router.post("/repositories", operation_id="StartRun")
async def index(call: Admitted, request: Request) -> Response:
    form = await fields(request)
    given = StartRequest(
        url=form.get("url", "").strip(), name=form.get("name", "").strip(), ref=form.get("ref", "")
    )
    await service.start(call.dependencies, call.principal, given)
    return RedirectResponse("/repositories#runs", 303)


@router.post("/repositories/retry", operation_id="RetryFailures")
async def retry(call: Admitted, request: Request) -> Response:
    form = await fields(request)
    await service.retry_failures(call.dependencies, call.principal, form.get("repository", ""))
    return RedirectResponse("/repositories#runs", 303)


@router.post("/repositories/cancel", operation_id="CancelRun")
async def cancel(call: Admitted, request: Request) -> Response:
    form = await fields(request)
    await service.cancel(call.dependencies, call.principal, form.get("run", ""))
    return RedirectResponse("/repositories#runs", 303)
