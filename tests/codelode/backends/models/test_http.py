"""Errors of HTTP and of the Ollama client are translated into ours."""

from __future__ import annotations

import inspect
import json
from email.utils import formatdate

import httpx
import ollama
import pydantic
import pytest

from codelode.backends.models.http import TRANSLATIONS, translated
from codelode.backends.models.remote import Garbled, Throttled
from codelode.errors import (
    CodelodeError,
    InvalidSettings,
    Rejected,
    TimedOut,
    Unavailable,
)

BY_STATUS = (httpx.HTTPStatusError, ollama.ResponseError)
LIBRARY_ERRORS = [
    value
    for library in (httpx, ollama)
    for _, value in inspect.getmembers(library, inspect.isclass)
    if issubclass(value, Exception)
]
REQUEST = httpx.Request("POST", "http://server/v1/embeddings")


def raised(exc):
    """Return the error that `translated` makes of an exception."""
    with pytest.raises(CodelodeError) as caught, translated("the server"):
        raise exc
    return caught.value


def status_error(status, body="", **headers):
    response = httpx.Response(status, text=body, headers=headers, request=REQUEST)
    return httpx.HTTPStatusError("bad", request=REQUEST, response=response)


@pytest.mark.parametrize("error", LIBRARY_ERRORS, ids=lambda error: error.__name__)
def test_every_exception_of_the_libraries_is_mapped(error):
    assert issubclass(error, (*TRANSLATIONS, *BY_STATUS))


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (httpx.ConnectError("refused"), Unavailable),
        (httpx.ReadTimeout("slow"), TimedOut),
        (httpx.ConnectTimeout("slow"), TimedOut),
        (httpx.ReadError("reset"), Unavailable),
        (httpx.RemoteProtocolError("not http"), Garbled),
        (httpx.UnsupportedProtocol("no scheme"), InvalidSettings),
        (httpx.InvalidURL("port"), InvalidSettings),
        (ConnectionError("refused"), Unavailable),
        (TimeoutError("slow"), TimedOut),
        (json.JSONDecodeError("no", "<html>", 0), Garbled),
        (TypeError("argument after ** must be a mapping"), Garbled),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_an_exception_becomes_the_error_for_what_the_caller_can_do(exc, expected):
    error = raised(exc)
    assert type(error) is expected
    assert str(error).startswith("the server ")


def test_an_answer_with_the_wrong_shape_is_garbled():
    with pytest.raises(pydantic.ValidationError) as caught:
        ollama.EmbedResponse(embeddings="no")
    assert type(raised(caught.value)) is Garbled


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, Rejected),
        (401, InvalidSettings),
        (403, InvalidSettings),
        (404, Unavailable),
        (408, TimedOut),
        (413, Rejected),
        (422, Rejected),
        (429, Throttled),
        (500, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
        (504, TimedOut),
        (301, Unavailable),
    ],
)
def test_an_http_status_decides_the_kind_of_error(status, expected):
    assert type(raised(status_error(status))) is expected
    assert type(raised(ollama.ResponseError("bad", status))) is expected


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ('{"error": {"message": "too many tokens"}}', "too many tokens"),
        ('{"error": "no such model"}', "no such model"),
        ("<html>\n <b>Bad</b> gateway", "<html> <b>Bad</b> gateway"),
        ("[1]", "[1]"),
        ("", ""),
    ],
)
def test_the_servers_own_words_are_quoted(body, detail):
    error = raised(status_error(500, body))
    assert str(error) == f"the server failed: 500{f' ({detail})' if detail else ''}"


def test_a_web_page_in_place_of_an_answer_is_cut_short():
    assert len(str(raised(status_error(500, "x" * 100_000)))) < 400


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("7", 7, 7),
        pytest.param(formatdate(usegmt=True), 0, 1, id="now"),
        ("soon", 0, 0),
        ("", 0, 0),
        ("-3", 0, 0),
    ],
)
def test_retry_after_is_read_as_number_or_date(header, low, high):
    error = raised(status_error(429, **{"Retry-After": header}))
    assert low <= error.retry_after_s <= high


def test_retry_after_survives_the_ollama_client(model_server):
    model_server.always = model_server.json({"error": "busy"}, 429, Retry_After="5")
    client = ollama.Client(host=model_server.url)
    with client, pytest.raises(Throttled) as caught, translated("the server"):
        client.embed(model="embed", input="text")
    assert caught.value.retry_after_s == 5
