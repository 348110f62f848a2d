"""Make the URLs of pages. Parameters without a value are left out."""

from __future__ import annotations

from urllib.parse import urlencode


def link(page: str, /, **given: object) -> str:
    """Return the URL: `link("/code", repository="acme/http", ref="")` →
    `"/code?repository=acme%2Fhttp"`. A parameter may have several values, or be a flag.
    """
    held = {name: 1 if value is True else value for name, value in given.items() if value}
    return f"{page}?{urlencode(held, doseq=True)}" if held else page


def code_url(
    repository: str, path: str, ref: str = "", lines: tuple[int, int] | None = None
) -> str:
    """Return the URL of a file in the code view, marking the lines."""
    url = link("/code", repository=repository, ref=ref, path=path)
    return url if lines is None else at_lines(url, *lines)


def at_lines(url: str, first: int, last: int) -> str:
    """Return the URL of lines of a file, given that of the file."""
    return f"{url}&lines={first}-{last}#L{first}"
