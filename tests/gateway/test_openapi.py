"""The OpenAPI document is frozen: what callers may rely on stays, and additions are recorded.

python -m tests.gateway.test_openapi       record the present document after an addition
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from gateway.api.rest.app import application
from gateway.service.capabilities import FUNCTIONS

jsonschema = pytest.importorskip("jsonschema")

FROZEN = Path(__file__).with_name("openapi.json")
PAGE = Path(__file__).parents[2] / "docs/rest.md"
#: What may change: texts, and the defaults of fields, which the service layer decides.
TEXTS = {"description", "summary", "title", "default", "info", "tags"}
REQUESTS = ("Body", "Filters", "Options")


@cache
def written():
    return json.dumps(application().openapi())


def present():
    """Return a copy of the document."""
    return json.loads(written())


def broken(before, now, at=""):
    """Yield the places of what was promised before and does not hold now."""
    if isinstance(before, dict) and isinstance(now, dict):
        yield from _members(before, now, at)
    elif at.endswith("/parameters"):
        yield from _parameters(before, now, at)
    elif at.endswith("/enum"):
        yield from (f"{at}/{one}" for one in before if one not in now)
    elif before != now:
        yield at


def _members(before, now, at):
    if "properties" in before or isinstance(before.get("required"), list):
        yield from _newly_required(before, now, f"{at}/required")
        before = {name: one for name, one in before.items() if name != "required"}
    if before.get("required") is True and now.get("required") is False:
        before = {name: one for name, one in before.items() if name != "required"}
    for name in before.keys() - TEXTS:
        if name in now:
            yield from broken(before[name], now[name], f"{at}/{name}")
        else:
            yield f"{at}/{name}"


def _newly_required(before, now, at):
    """A request may not need more than before, and an answer may not have less."""
    was, is_now = set(before.get("required", ())), set(now.get("required", ()))
    is_request = at.split("/")[-2].endswith(REQUESTS)
    yield from (f"{at}/{name}" for name in (is_now - was if is_request else was - is_now))


def _parameters(before, now, at):
    known = {one["name"]: one for one in now}
    for one in before:
        yield from broken(one, known.pop(one["name"], {}), f"{at}/{one['name']}")
    yield from (f"{at}/{name}" for name, one in known.items() if one["required"])


def test_no_change_breaks_a_caller():
    assert list(broken(json.loads(FROZEN.read_text()), present())) == []


def test_the_frozen_document_is_up_to_date():
    assert json.loads(FROZEN.read_text()) == present(), "run python -m tests.gateway.test_openapi"


def test_the_document_has_an_operation_for_each_capability():
    names = [
        operation["operationId"]
        for methods in present()["paths"].values()
        for operation in methods.values()
    ]

    assert sorted(names) == sorted([*FUNCTIONS, "CheckHealth"])


def test_the_page_lists_every_operation():
    listed = re.findall(r"`([A-Z]+ /[^?`]*)", PAGE.read_text())
    described = [
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in present()["paths"].items()
        for method in methods
    ]

    assert set(described) <= set(listed)


def test_every_schema_is_valid():
    for schema in present()["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


CHANGES = {
    "a removed operation": (lambda d: d["paths"].pop("/api/v1/search"), "/paths//api/v1/search"),
    "a removed method": (lambda d: d["paths"]["/api/v1/keys"].pop("get"), "/get"),
    "a renamed parameter": (lambda d: _parameter(d).update(name="repo"), "/repository"),
    "a parameter that is now required": (lambda d: _parameter(d).update(required=True), "required"),
    "another type of parameter": (lambda d: _parameter(d)["schema"].update(type="integer"), "type"),
    "a removed field of an answer": (lambda d: _properties(d, "Hit").pop("path"), "Hit"),
    "another type of field": (lambda d: _properties(d, "Hit").update(line={}), "line/type"),
    "a removed field of a request": (lambda d: _properties(d, "Filters").pop("paths"), "paths"),
    "a field that is now required": (
        lambda d: _schema(d, "SearchBody").update(required=["query", "top_k"]),
        "required/top_k",
    ),
    "a field that may now be missing": (
        lambda d: _schema(d, "Hit")["required"].remove("score"),
        "required/score",
    ),
    "a removed choice": (lambda d: _schema(d, "RunState")["enum"].pop(), "enum"),
    "another status": (
        lambda d: _responses(d).update({"202": _responses(d).pop("201")}),
        "responses/201",
    ),
}


def _schema(document, name):
    return document["components"]["schemas"][name]


def _properties(document, name):
    return _schema(document, name)["properties"]


def _parameter(document):
    (found,) = [
        one
        for one in document["paths"]["/api/v1/failures"]["get"]["parameters"]
        if one["name"] == "repository"
    ]
    return found


def _responses(document):
    return document["paths"]["/api/v1/runs"]["post"]["responses"]


@pytest.mark.parametrize(("change", "place"), CHANGES.values(), ids=CHANGES.keys())
def test_a_breaking_change_is_found(change, place):
    before = present()
    now = present()
    change(now)

    assert any(place in found for found in broken(before, now))


def test_an_addition_is_not_a_breaking_change():
    before = present()
    now = present()
    _properties(now, "Hit")["new"] = {"type": "string"}
    _properties(now, "Filters")["new"] = {"type": "string"}
    _schema(now, "RunState")["enum"].append("paused")
    now["paths"]["/api/v1/new"] = {"get": {}}

    assert list(broken(before, now)) == []


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(present(), indent=1, ensure_ascii=False) + "\n")
