"""Make the URLs of pages. Parameters without a value are left out."""

from __future__ import annotations

from urllib.parse import urlencode


def link(page: str, /, **given: object) -> str:
    """Return the URL: `link("/code", repository="acme/http", ref="")` →
    `"/code?repository=acme%2Fhttp"`.
    """
    query = urlencode({name: value for name, value in given.items() if value})
    return f"{page}?{query}" if query else page
