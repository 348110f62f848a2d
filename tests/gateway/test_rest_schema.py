"""Every request, valid or not, gets an answer that the OpenAPI document describes.

Each operation is sent random values of the types in its description, mostly with texts that mean
something or break parsers, and bodies that are damaged. The gateway is a real one over the
in-memory twins.
"""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.api.rest import problems
from tests.contracts.test_faces import TOKEN, Running
from tests.gateway.test_malformed import TEXTS
from tests.gateway.test_openapi import FROZEN

jsonschema = pytest.importorskip("jsonschema")

DOCUMENT = json.loads(FROZEN.read_text())
#: The stream of events is tested in test_rest.py.
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if operation["operationId"] != "WatchRun"
}
HTTP_TEXTS = st.one_of(st.sampled_from(TEXTS), st.text(max_size=40))
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HTTP_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HTTP_TEXTS, inner, max_size=3),
    max_leaves=5,
)
DEFECTS = range(500, 600)
#: Maximum length of a parameter, characters; the client refuses longer URLs.
MAX_URL_CHARS = 1_000


def resolved(schema):
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def values(schema):
    """Return a strategy for values of the schema, and now and then for any other value."""
    return st.one_of(*[_valid(resolved(schema))] * 9, ANY)


def _valid(schema):
    if "anyOf" in schema:
        return st.one_of(*map(values, schema["anyOf"]))
    return {
        "string": lambda: HTTP_TEXTS,
        "boolean": st.booleans,
        "integer": lambda: st.integers(-5, 1_000) | st.sampled_from([2**31, -(2**31), 10**30]),
        "number": lambda: st.floats() | st.integers(-5, 1_000),
        "null": st.none,
        "array": lambda: st.lists(values(schema["items"]), max_size=3),
        "object": lambda: _objects(schema),
    }[schema["type"]]()


def _objects(schema):
    if "properties" not in schema:
        return st.dictionaries(HTTP_TEXTS, values(schema["additionalProperties"]), max_size=3)
    fields = {name: values(one) for name, one in schema["properties"].items()}
    needed = {name: fields.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(needed, optional=fields)


def bodies(operation):
    """Return a strategy for bodies: most of them JSON of the schema."""
    content = operation["requestBody"]["content"]["application/json"]
    encoded = values(content["schema"]).map(lambda value: json.dumps(value).encode())
    cut = st.builds(lambda data, at: data[: at % (len(data) + 1)], encoded, st.integers(0, 1_000))
    return st.one_of(encoded, encoded, encoded, cut, st.binary(max_size=60))


def parameters(operation):
    found = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
    needed = {one["name"]: _texts(one["schema"]) for one in found if one["required"]}
    optional = {one["name"]: _texts(one["schema"]) for one in found if not one["required"]}
    return st.fixed_dictionaries(needed, optional=optional)


def _texts(schema):
    """Return a strategy for the texts of a value in a URL, which has a limited length."""
    return values(schema).map(
        lambda one: [_text(part) for part in one] if isinstance(one, list) else _text(one)
    )


def _text(value):
    return str(value)[:MAX_URL_CHARS]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("schema"))
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as opened:
        yield opened
    running.close()


def check(response, operation):
    """Check the status, the kind of content, and the content against the description."""
    described = operation["responses"]
    assert response.status_code not in DEFECTS, response.text
    assert "Traceback" not in response.text
    if response.is_error:
        assert response.headers["content-type"] == problems.MEDIA_TYPE
        assert {"type", "title", "status", "detail"} <= response.json().keys()
        return
    content = described[str(response.status_code)].get("content", {})
    assert bool(content) == bool(response.content)
    for kind, one in content.items():
        assert response.headers["content-type"] == kind
        schema = {**one["schema"], "components": DOCUMENT["components"]}
        jsonschema.validate(response.json(), schema)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_every_request_gets_an_answer_as_described(client, name, data):
    method, path, operation = OPERATIONS[name]
    named = data.draw(HTTP_TEXTS)[:MAX_URL_CHARS]
    path = re.sub(r"{\w+}", quote(named, safe="") or "x", path)
    has_body = "requestBody" in operation
    response = client.request(
        method,
        path,
        params=data.draw(parameters(operation)),
        content=data.draw(bodies(operation)) if has_body else None,
    )

    check(response, operation)
