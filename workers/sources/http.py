"""Call the REST and GraphQL APIs of code hosts, over one connection pool per host.

Lists are followed to their end, requests are repeated after the pauses that the host asks for,
unchanged pages are answered with 304, answers and requests have bounds, and the token goes to no
other address than that of the connection.

The client libraries that exist for some hosts are not used: they block, each has its own way of
paging, pausing for limits, and reporting errors, and most make no conditional requests. With one
client, "gone", "refused", and "unreachable" mean the same for every host, and are tested once.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx

from codelode.certificates import authorities_for
from codelode.errors import CodelodeError, Denied, NotFound, Unavailable
from codelode.loopback import is_loopback
from workers.sources.limits import Budgets, asked_pause
from workers.sources.pages import HeldPage, Page, Pages, Params

#: Maximum number of requests at once; hosts limit clients that send more.
AT_ONCE = 8
#: Maximum wait for a connection and between parts of an answer, seconds.
TIMEOUT_S = 30.0
#: Maximum size of an answer, bytes: a page of 100 repositories takes up to 1 MB.
MAX_BYTES = 16 << 20
#: Number of attempts per request, and the first and the maximum pause between them, seconds.
ATTEMPTS = 5
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
#: Maximum pause that a host may request, seconds; beyond it, the sync fails and is tried later.
MAX_ASKED_PAUSE_S = 120.0
#: Maximum number of requests of a sync, including repeated ones. Reading 10,000 repositories takes
#: up to 20,000.
MAX_REQUESTS = 200_000
#: The status codes of accepted answers.
_ANSWERED = (httpx.codes.OK, httpx.codes.CREATED, httpx.codes.NOT_MODIFIED)
#: The status codes of refusals, unless the answer reports a rate limit.
_REFUSED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
#: Maximum number of characters of the host's message that an error quotes.
_QUOTED_CHARS = 200


class Refused(Denied):
    """The host refuses the token or its rights: 401 or 403."""


class Missing(NotFound):
    """The host has no such thing, or hides it from the token: 404."""


class Unprocessable(Unavailable):
    """The host rejects the content of a request: 422. Says nothing about rights; is not retried."""


class _Answer(NamedTuple):
    status: int
    headers: httpx.Headers
    content: bytes


@dataclass(eq=False)
class Host:
    """A client for the API of one host, as an asynchronous context manager.

    Raises Refused and Missing for what the host refuses, and Unavailable for everything that may
    work later.
    """

    url: str  # of the API, without a slash at the end
    headers: Mapping[str, str] = field(repr=False)
    pages_held: Pages
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    requests: int = 0  # number of requests sent
    budgets: Budgets = field(default_factory=Budgets)  # the host's limits of requests
    withheld: list[str] = field(default_factory=list)  # why lists of readers could not be read
    #: Returns the header Authorization of a request, given the one that the host refused, if any;
    #: None: `headers` have it.
    authorize: Callable[[Host, str], Awaitable[str]] | None = field(default=None, repr=False)

    async def __aenter__(self) -> Host:
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._name = urlsplit(self.url).netloc
        self._client = httpx.AsyncClient(
            headers=dict(self.headers),
            timeout=TIMEOUT_S,
            follow_redirects=False,
            trust_env=not is_loopback(urlsplit(self.url).hostname or ""),
            verify=authorities_for(self.url),
            limits=httpx.Limits(max_connections=AT_ONCE),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @contextmanager
    def list_may_be_withheld(self) -> Iterator[None]:
        """End the block, and note why, when a list is gone or hidden from the token."""
        try:
            yield
        except (Refused, Missing) as exc:
            self.withheld.append(str(exc))

    async def rows(
        self,
        path: str,
        params: Params | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        within: str = "",
    ) -> AsyncIterator[Any]:
        """Yield the rows of a list, page by page. `within`: the field of a page that has them."""
        async for page in self.pages(path, params, headers=headers, within=within):
            for row in page.rows:
                yield row

    async def pages(
        self,
        path: str,
        params: Params | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        within: str = "",
    ) -> AsyncIterator[Page]:
        """Yield the pages of a list. `within`: the field of a page that has the rows."""
        following: Params | None = params or {}
        while following is not None:
            page = await self._page(path, following, headers or {})
            found = page.rows.get(within) if within and isinstance(page.rows, dict) else page.rows
            if not isinstance(found, list):
                raise Unavailable(f"{self._name} answers {path} with something other than a list")
            yield page._replace(rows=found)
            following = page.following or _continued(page.rows, following)

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Any:
        """Return a JSON document."""
        return (await self._page(path, {}, headers or {})).rows

    async def post(self, path: str, body: object) -> Any:
        """Send a JSON document that only queries, as in GraphQL; return the answer."""
        return _json(await self._sent("POST", path, {}, {}, body), self._name)

    async def ask_as(self, authorization: str, method: str, path: str, body: object = None) -> Any:
        """Return a JSON document, requested with other credentials and not cached."""
        headers = {"Authorization": authorization}
        return _json(await self._sent(method, path, {}, headers, body), self._name)

    async def _page(self, path: str, params: Params, headers: Mapping[str, str]) -> Page:
        key = self.url, path, tuple(sorted(params.items())), tuple(sorted(headers.items()))
        held = self.pages_held.get(key)
        conditional = {**headers, "If-None-Match": held.etag} if held else headers
        answer = await self._sent("GET", path, params, conditional)
        if held and answer.status == httpx.codes.NOT_MODIFIED:
            return Page(json.loads(held.content), held.following, _total(answer.headers))
        following, total = _following(answer.headers), _total(answer.headers)
        page = Page(_json(answer, self._name), following, total)
        etag = answer.headers.get("etag")
        if etag and not _may_grow(page, params):
            self.pages_held.put(key, HeldPage(etag, answer.content, page.following))
        return page

    async def _sent(
        self,
        method: str,
        path: str,
        params: Params,
        headers: Mapping[str, str],
        body: object = None,
    ) -> _Answer:
        """Send a request until it is answered or finally refused."""
        refused = ""  # the header that was refused because it may have expired
        for attempt in range(1, ATTEMPTS + 1):
            failure: CodelodeError
            sent = await self._authorized(headers, refused)
            try:
                answer = await self._once(method, path, params, sent, body)
            except (httpx.HTTPError, httpx.InvalidURL) as exc:
                failure, pause_s = Unavailable(f"{self._name} does not answer: {_kind(exc)}"), None
            else:
                if answer.status in _ANSWERED:
                    return answer
                is_refused = answer.status == httpx.codes.UNAUTHORIZED
                if is_refused and sent is not headers and not refused and attempt < ATTEMPTS:
                    refused = sent["Authorization"]
                    continue
                failure, pause_s = _failure(answer, self._name, path), asked_pause(answer.headers)
            if not isinstance(failure, Unavailable) or attempt == ATTEMPTS:
                raise failure
            if isinstance(failure, Unprocessable):
                raise failure
            await self._pause(attempt, pause_s, failure)
        raise AssertionError("the last attempt returns or raises")

    async def _authorized(self, headers: Mapping[str, str], refused: str) -> Mapping[str, str]:
        if self.authorize is None or "Authorization" in headers:
            return headers
        return {**headers, "Authorization": await self.authorize(self, refused)}

    async def _once(
        self,
        method: str,
        path: str,
        params: Params,
        headers: Mapping[str, str],
        body: object,
    ) -> _Answer:
        async with self._slots:
            self.requests += 1
            if self.requests > MAX_REQUESTS:
                raise Unavailable(f"{self._name} would need more than {MAX_REQUESTS:,} requests")
            sending = self._client.stream(
                method, self.url + path, params=dict(params), headers=dict(headers), json=body
            )
            async with sending as answer:
                self.budgets.hear(answer.headers)
                content = bytearray()
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > MAX_BYTES:
                        raise Unavailable(f"{self._name} answers with more than {MAX_BYTES} bytes")
                return _Answer(answer.status_code, answer.headers, bytes(content))

    async def _pause(self, attempt: int, asked_s: float | None, failure: Unavailable) -> None:
        """Wait as long as the host asks, else longer after each attempt; with random jitter."""
        if asked_s is not None and asked_s > MAX_ASKED_PAUSE_S:
            raise Unavailable(f"{failure}; it asks to wait for {asked_s:.0f} s") from failure
        longest_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
        jitter_s = random.uniform(longest_s / 2, longest_s)
        await self.sleep(jitter_s if asked_s is None else asked_s + random.random())


def _failure(answer: _Answer, name: str, path: str) -> CodelodeError:
    status = answer.status
    is_limited = status == httpx.codes.FORBIDDEN and asked_pause(answer.headers) is not None
    what = f"{name} answers {path} with {status} {_quoted(answer)}".rstrip()
    if status == httpx.codes.NOT_FOUND:
        return Missing(what)
    if status in _REFUSED and not is_limited:
        return Refused(what)
    if status == httpx.codes.UNPROCESSABLE_ENTITY:
        return Unprocessable(what)
    return Unavailable(what)


def _quoted(answer: _Answer) -> str:
    """Return the host's own message, if it is printable."""
    try:
        found = json.loads(answer.content)
    except (ValueError, RecursionError):
        return ""
    message = found.get("message") or found.get("error") if isinstance(found, dict) else ""
    text = message[:_QUOTED_CHARS] if isinstance(message, str) else ""
    return f"({text})" if text and text.isprintable() else ""


def _json(answer: _Answer, name: str) -> Any:
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError) as exc:
        raise Unavailable(f"{name} answers with something other than JSON") from exc


def _following(headers: httpx.Headers) -> Params | None:
    """Return the parameters of the next page.

    Only the parameters are taken from the link: its address may be spelt differently, or be that of
    another server, which must not get the token.
    """
    links = httpx.Response(200, headers=headers).links
    url = links.get("next", {}).get("url")
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True)) if url else None


def _total(headers: httpx.Headers) -> int | None:
    """Return the number of rows of a list."""
    told = headers.get("x-total-count", "")
    return int(told) if told.isdecimal() else None


def _continued(document: Any, params: Params) -> Params | None:
    """Return the parameters of the next page from the document, as on Bitbucket."""
    if not isinstance(document, dict):
        return None
    if isinstance(url := document.get("next"), str):
        return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    start = document.get("nextPageStart")
    if document.get("isLastPage", True) or not isinstance(start, int):
        return None
    return {**params, "start": start}


def _may_grow(page: Page, params: Params) -> bool:
    """Return whether a page may be added after this one without changing it.

    The ETag of a full last page stays the same when the list gets more rows.
    """
    is_last = isinstance(page.rows, list) and page.following is None
    return is_last and len(page.rows) >= int(params.get("per_page", 0))


def _kind(exc: Exception) -> str:
    return str(exc) or type(exc).__name__
