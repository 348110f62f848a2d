"""Render pages from templates, which escape every value that they show.

`codelode.display` also makes control characters in names and code of repositories visible.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import Request
from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from starlette.responses import HTMLResponse

from codelode.counts import counted
from codelode.display import plain, quoted
from gateway.api.rest.calls import Call
from gateway.api.web import assets
from gateway.api.web.labels import worded


class NavItem(NamedTuple):
    """An entry of the navigation of every page."""

    title: str
    path: str


NAVIGATION = (
    NavItem("Search", "/"),
    NavItem("Repositories", "/repositories"),
    NavItem("Graph", "/graph"),
    NavItem("Map", "/map"),
)

#: Pages show what their caller may see at present, so they must not be cached.
HEADERS = {"Cache-Control": "no-store"}


class CompiledTemplates(FileSystemBytecodeCache):
    """Keeps compiled templates where Python keeps compiled modules, if it can write there.

    Compiling them takes a tenth of the processor time that the start of a gateway takes. Names of
    files include a hash of everything else that shapes the result: this module, which has the
    options, and the version of Jinja.
    """

    def __init__(self) -> None:
        shape = Path(__file__).read_bytes() + version("jinja2").encode()
        digest = hashlib.sha256(shape).hexdigest()[:16]
        folder = Path(cache_from_source(__file__)).parent
        super().__init__(str(folder), f"template-{digest}-%s.cache")

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    bytecode_cache=CompiledTemplates(),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(plain=plain, quoted=quoted, worded=worded)
_templates.globals.update(asset=assets.url, counted=counted, navigation=NAVIGATION)
for _name in _templates.list_templates():
    _templates.get_template(_name)  # compiles the template before the first request


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the page, or the part of a page, rendered from the template with the values."""
    call: Call | None = getattr(request.state, "call", None)
    shown = {
        "path": request.url.path,
        "query": request.query_params.get("q", ""),
        "principal": call.principal if call is not None else None,
    }
    body = _templates.get_template(template).render(shown | values)
    return HTMLResponse(body, status, HEADERS)
