"""Translate errors of HTTP and of the Ollama client; no other module does.

The status says what is at fault. With 4xx it is the request: a text that is too long never works, a
wrong key must be changed. With 429, 5xx, and 404 it is the server's present state: a missing model
can be pulled. Messages quote a short part of the answer and never a key.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import ollama
import pydantic

from codelode.backends.models.remote import Garbled, Throttled
from codelode.errors import (
    CodelodeError,
    Corrupt,
    InvalidSettings,
    Rejected,
    TimedOut,
    Unavailable,
)

#: Our error and its message for exceptions that are not an answer with a status. Looked up along
#: the exception's bases, so that a class of a later version uses the row of its parent.
TRANSLATIONS: dict[type[Exception], tuple[type[CodelodeError], str]] = {
    httpx.TimeoutException: (TimedOut, "did not answer in time"),
    httpx.PoolTimeout: (Unavailable, "all connections are in use"),
    httpx.NetworkError: (Unavailable, "does not answer; is it running?"),
    httpx.ProxyError: (Unavailable, "cannot be reached through the proxy"),
    httpx.RemoteProtocolError: (Garbled, "broke off or does not speak HTTP"),
    httpx.LocalProtocolError: (InvalidSettings, "cannot be asked: its URL or key is malformed"),
    httpx.UnsupportedProtocol: (
        InvalidSettings,
        "needs a URL that starts with http:// or https://",
    ),
    httpx.InvalidURL: (InvalidSettings, "has no valid URL"),
    httpx.TooManyRedirects: (InvalidSettings, "redirects in a circle: its URL is wrong"),
    httpx.DecodingError: (Garbled, "sent a body that cannot be decoded"),
    httpx.TransportError: (Unavailable, "does not answer; is it running?"),
    httpx.HTTPError: (Unavailable, "failed"),
    httpx.CookieConflict: (Corrupt, "sent cookies that contradict each other"),
    httpx.StreamError: (Corrupt, "was read in a wrong order"),
    ollama.RequestError: (Corrupt, "was sent a request that its client refused"),
    json.JSONDecodeError: (Garbled, "did not answer with JSON"),
    UnicodeDecodeError: (Garbled, "did not answer with text"),
    pydantic.ValidationError: (Garbled, "answered in an unknown shape"),
    # The Ollama client raises this for JSON that is not an object.
    TypeError: (Garbled, "answered in an unknown shape"),
    AttributeError: (Garbled, "answered in an unknown shape"),
    TimeoutError: (TimedOut, "did not answer in time"),
    OSError: (Unavailable, "does not answer; is it running?"),
}

#: Maximum length of a detail in a message, characters; a server may answer with a whole page.
_DETAIL_CHARS = 200


def may_use_proxy(url: str) -> bool:
    """Return whether the environment's proxy may be used for the server: not for loopback."""
    host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
    return host != "localhost" and not host.startswith("127.") and host != "::1"


def sendable(text: str) -> str:
    """Return the text with invalid UTF-8 replaced by `?`, so that JSON over HTTP can carry it."""
    return text.encode("utf-8", "replace").decode()


@contextmanager
def translated(server: str) -> Iterator[None]:
    """Raise errors of a call to `server` as `codelode.errors`."""
    try:
        yield
    except (httpx.HTTPStatusError, ollama.ResponseError) as exc:
        raise _by_status(server, exc) from exc
    except tuple(TRANSLATIONS) as exc:
        raise translate(server, exc) from exc


def translate(server: str, exc: Exception) -> CodelodeError:
    """Return the error for an exception that is not an answer with a status."""
    bases = type(exc).__mro__
    error, meaning = next(TRANSLATIONS[base] for base in bases if base in TRANSLATIONS)
    detail = "" if error is Garbled else _short(str(exc))
    return error(f"{server} {meaning}{detail}")


def _by_status(server: str, exc: httpx.HTTPStatusError | ollama.ResponseError) -> CodelodeError:
    response = _response(exc)
    if isinstance(exc, ollama.ResponseError):
        status, detail = exc.status_code, _short(str(exc.error))
    else:
        status, detail = exc.response.status_code, _short(_message(exc.response))
    if status == 429:
        after_s = _retry_after_s(response.headers.get("retry-after", "")) if response else 0.0
        return Throttled(f"{server} asks for fewer calls{detail}", retry_after_s=after_s)
    kind = _kind(status)
    meaning = "has no such model or path" if status == 404 else _MEANING[kind]
    return kind(f"{server} {meaning}: {status}{detail}")


def _kind(status: int) -> type[CodelodeError]:
    if status in (401, 403):
        return InvalidSettings
    if status in (408, 504):
        return TimedOut
    if status in (400, 413, 422):
        return Rejected
    return Unavailable


_MEANING: dict[type[CodelodeError], str] = {
    InvalidSettings: "refused the key",
    TimedOut: "did not answer in time",
    Rejected: "refused the text",
    Unavailable: "failed",
}


def _response(exc: httpx.HTTPStatusError | ollama.ResponseError) -> httpx.Response | None:
    """Return the response, whose headers the exception of Ollama's client lacks."""
    origin = exc.__context__ if isinstance(exc, ollama.ResponseError) else exc
    return origin.response if isinstance(origin, httpx.HTTPStatusError) else None


def _message(response: httpx.Response) -> str:
    """Return the error message of an answer: OpenAI's `{"error": {"message": …}}`, or its text."""
    try:
        error = response.json()["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return response.text


def _retry_after_s(value: str) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 if it is neither."""
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0


def _short(detail: str) -> str:
    line = " ".join(detail.split())[:_DETAIL_CHARS]
    return f" ({line})" if line else ""
