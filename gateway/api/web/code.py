"""Serve the code page: a file at an indexed commit, the files around it, and uses of its names."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from codelode.errors import InvalidQuery, NotFound
from gateway import service
from gateway.api.rest.bodies import Query as Parameters
from gateway.api.rest.bodies import Text, Whole
from gateway.api.rest.calls import Admitted, Call, call_of, counted_as, face_of
from gateway.api.web import names, tree
from gateway.api.web.links import link
from gateway.api.web.pages import page_router
from gateway.api.web.rendering import page
from gateway.api.web.source import WINDOW_LINES, Source, source
from gateway.service.requests import ExplainRequest, FilesRequest, ReadRequest
from gateway.service.results import ExplainAnswer, FileLines, FileList

_LINES = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

router = page_router()


#: Number of entries of a folder on a page.
MAX_ENTRIES = 500


class CodeParameters(Parameters):
    repository: Text = Field(default="", description="May be left out if only one is indexed.")
    ref: Text = Field(default="", description="Branch, tag, or commit; empty: the default ref.")
    path: Text = Field(default="", description="A file; empty, or with `/` at its end: a folder.")
    lines: Text = Field(default="", description="Lines to mark: `10` or `10-20`.")
    start: Whole = Field(default=0, description="First line to show; 0: that of `lines`.")
    name: Text = Field(default="", description="A name to look up.")
    page: Text = Field(default="", description="Token of a later page of a folder.")

    @property
    def place(self) -> dict[str, str]:
        """Return the parameters of a link to the same file or folder."""
        return {"repository": self.repository, "ref": self.ref, "path": self.path}

    @property
    def is_folder(self) -> bool:
        return not self.path or self.path.endswith("/")

    @property
    def marked(self) -> tuple[int, int]:
        """Return the lines to mark, (0, 0) if there are none. Raises InvalidQuery."""
        if not self.lines:
            return 0, 0
        found = _LINES.fullmatch(self.lines)
        if found is None:
            raise InvalidQuery("lines", f"is {self.lines[:50]!r}; write 10, or 10-20")
        first, last = int(found[1]), int(found[2] or found[1])
        return min(first, last), max(first, last)

    def window(self) -> ReadRequest:
        """Return the request of the lines to show."""
        start = self.start or max(0, self.marked[0] - 1) // WINDOW_LINES * WINDOW_LINES + 1
        return ReadRequest(self.path, self.repository, self.ref, start, start + WINDOW_LINES - 1)


class TreeParameters(Parameters):
    repository: Text
    ref: Text = ""
    path: Text = ""


class NameParameters(Parameters):
    repository: Text
    name: Text
    ref: Text = ""
    path: Text = ""


@router.get("/code", operation_id="ReadFile")
async def code(
    call: Admitted, request: Request, asked: Annotated[CodeParameters, Query()]
) -> Response:
    if asked.is_folder:
        return page(request, "folder.html", **await _folder(call, asked))
    found = await service.read(call.dependencies, call.principal, asked.window())
    return page(request, "code.html", **await _file(request, call, asked, found))


@router.get("/code/tree", operation_id="ListFiles")
async def code_tree(
    call: Admitted, request: Request, asked: Annotated[TreeParameters, Query()]
) -> Response:
    """Answer with the content of a folder, for the script of the code page."""
    given = FilesRequest(asked.repository, asked.ref, asked.path, tree.MAX_ENTRIES)
    found = await service.files(call.dependencies, call.principal, given)
    return page(request, "tree.html", tree=tree.level(found, asked.ref))


@router.get("/code/names", operation_id="GetGraph")
async def code_names(
    call: Admitted, request: Request, asked: Annotated[NameParameters, Query()]
) -> Response:
    """Answer with the definitions and uses of a name, for the script of the code page."""
    found = await names.look_up(call, asked.repository, asked.ref, asked.name)
    return page(request, "names.html", found=found)


@router.get("/code/raw", operation_id="ReadFile")
async def raw(call: Admitted, asked: Annotated[TreeParameters, Query()]) -> Response:
    """Answer with a file as plain text, which browsers do not render."""
    parts, start = [], 1
    while True:
        given = ReadRequest(asked.path, asked.repository, asked.ref, start)
        found = await service.read(call.dependencies, call.principal, given)
        parts.append(found.content)
        if found.end_line >= found.line_count:
            break
        start = found.end_line + 1
    headers = {"Cache-Control": "no-store", "Content-Disposition": "inline"}
    return Response("\n".join([*parts, ""]), headers=headers, media_type="text/plain")


async def _folder(call: Call, asked: CodeParameters) -> dict[str, Any]:
    given = FilesRequest(
        asked.repository, asked.ref, asked.path.strip("/"), MAX_ENTRIES, asked.page
    )
    found = await service.files(call.dependencies, call.principal, given)
    return {
        "asked": asked,
        "folder": found,
        "level": tree.level(found, asked.ref),
        "crumbs": tree.crumbs(found.repository, asked.ref, asked.path),
        "failures_url": link("/repositories/failures", repository=found.repository, all=1),
        "next_url": _next_url(found, asked),
    }


def _next_url(found: FileList, asked: CodeParameters) -> str:
    """Return the URL of the next page of a folder."""
    token = found.next_page_token
    return link("/code", **asked.place, page=token) if token else ""


async def _file(
    request: Request, call: Call, asked: CodeParameters, found: FileLines
) -> dict[str, Any]:
    shown, around, outline, looked_up = await asyncio.gather(
        source(face_of(request).highlighter, found, marked=asked.marked),
        tree.around(call, found.repository, asked.ref, found.path),
        _outline(request, found.repository, asked.ref, found.path),
        _looked_up(request, found.repository, asked),
    )
    place = {"repository": found.repository, "path": found.path}
    return {
        "asked": asked,
        "file": found,
        "source": shown,
        "tree": around,
        "outline": outline,
        "found": looked_up,
        "crumbs": tree.crumbs(found.repository, asked.ref, found.path),
        "permalink": link("/code", **place, ref=found.revision),
        "raw_url": link("/code/raw", **place, ref=asked.ref),
        "graph_url": link("/graph", **place, ref=asked.ref),
        "line_url": partial(_line_url, asked, shown),
        "window_urls": _window_urls(asked, shown, found),
    }


async def _outline(request: Request, repository: str, ref: str, path: str) -> ExplainAnswer | None:
    """Return the definitions in the file; None if it was removed a moment ago."""
    call, given = call_of(request), ExplainRequest(path, repository, ref)
    async with counted_as(request, "explain"):
        try:
            return await service.explain(call.dependencies, call.principal, given)
        except NotFound:
            return None


async def _looked_up(
    request: Request, repository: str, asked: CodeParameters
) -> names.Found | None:
    if not asked.name:
        return None
    async with counted_as(request, "graph"):
        return await names.look_up(call_of(request), repository, asked.ref, asked.name)


def _line_url(asked: CodeParameters, shown: Source, line: int) -> str:
    """Return the URL of a line, on this page if it shows the line."""
    if shown.start <= line < shown.start + len(shown.lines):
        return f"#L{line}"
    return link("/code", **asked.place, lines=line) + f"#L{line}"


def _window_urls(asked: CodeParameters, shown: Source, found: FileLines) -> dict[str, str]:
    """Return the URLs of the lines before and after those that are shown."""
    place = asked.place
    before, after = max(1, shown.start - WINDOW_LINES), found.end_line + 1
    return {
        "before": link("/code", **place, start=before) if shown.start > 1 else "",
        "after": link("/code", **place, start=after) if after <= found.line_count else "",
    }
