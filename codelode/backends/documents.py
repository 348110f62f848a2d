"""Fetch JSON documents from web servers, such as the metadata of an issuer of tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import httpx

from codelode.certificates import authorities_for
from codelode.errors import Unavailable
from codelode.loopback import is_confidential

#: Timeout of the connection, of each part of an answer, and of the whole answer, seconds. The last
#: is checked after each part.
TIMEOUT_S = 5.0
#: Maximum size of a document, bytes; the keys of large issuers take about 20 kB.
MAX_BYTES = 1 << 20


class WebDocuments:
    """Fetches documents by https; by http from this machine only. Follows no redirects."""

    def get(self, url: str) -> dict[str, object]:
        return _document(url)

    def post(self, url: str, form: Mapping[str, str]) -> dict[str, object]:
        return _document(url, form)

    def tell(self, url: str, form: Mapping[str, str]) -> None:
        _content(url, form, with_refusals=False)


def _document(url: str, form: Mapping[str, str] | None = None) -> dict[str, object]:
    try:
        found = json.loads(_content(url, form))
    except (ValueError, RecursionError) as exc:
        raise Unavailable(f"{url} is not a JSON document: {exc}") from exc
    if not isinstance(found, dict):
        raise Unavailable(f"{url} is not a JSON object")
    return found


def _content(url: str, form: Mapping[str, str] | None, *, with_refusals: bool = True) -> bytes:
    """Return the content of an answer. Raises Unavailable.

    `with_refusals`: also return the content of an answer that refuses the form.
    """
    if not is_confidential(url):
        raise Unavailable(f"{url} is not fetched: its URL must start with https://")
    try:
        return _fetched(url, form, with_refusals=with_refusals and form is not None)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise Unavailable(f"{url} cannot be fetched: {exc or type(exc).__name__}") from exc


def _fetched(url: str, form: Mapping[str, str] | None, *, with_refusals: bool) -> bytes:
    """Return the content; reads no more than the limit."""
    content, ends_at = bytearray(), time.monotonic() + TIMEOUT_S
    method, data = ("GET", None) if form is None else ("POST", dict(form))
    with httpx.stream(
        method,
        url,
        data=data,
        timeout=TIMEOUT_S,
        follow_redirects=False,
        verify=authorities_for(url),
    ) as answer:
        is_refusal = with_refusals and answer.is_client_error and answer.status_code != 429
        if answer.status_code != httpx.codes.OK and not is_refusal:
            raise Unavailable(f"{url} answers with status {answer.status_code}")
        for part in answer.iter_bytes():
            content += part
            if len(content) > MAX_BYTES:
                raise Unavailable(f"{url} is larger than {MAX_BYTES} bytes")
            if time.monotonic() > ends_at:
                raise Unavailable(f"{url} takes longer than {TIMEOUT_S:g} s")
    return bytes(content)
