"""Answers as protos: every field that callers are promised has a value of the same name."""

from __future__ import annotations

import typing
from dataclasses import fields, is_dataclass

import pytest

from codelode.model import Run
from codelode.v1 import graph_pb2, index_pb2, search_pb2
from gateway.api.rpc.convert import grep_response, message
from gateway.exact.matching import lines, matching
from gateway.exact.pattern import Wanted, compiled
from gateway.service import results

PAIRS = [
    (results.SearchAnswer, search_pb2.SearchResponse),
    (results.ContextAnswer, search_pb2.ContextResponse),
    (results.FileList, search_pb2.ListFilesResponse),
    (results.ExplainAnswer, search_pb2.ExplainResponse),
    (results.MapAnswer, search_pb2.GetMapResponse),
    (results.MapPlaces, search_pb2.ListMapPlacesResponse),
    (results.GraphAnswer, graph_pb2.GetGraphResponse),
    (results.Repository, index_pb2.Repository),
    (results.Status, index_pb2.GetStatusResponse),
    (results.Failures, index_pb2.ListFailuresResponse),
    (Run, index_pb2.Run),
]


def missing(value, of, at=""):
    """Return the fields of the message, and of nested ones, that the values lack."""
    hints = typing.get_type_hints(value)
    for field in of.DESCRIPTOR.fields:
        if field.name not in hints:
            yield f"{at}{field.name}"
        elif field.message_type is not None:
            inner = [hints[field.name], *typing.get_args(hints[field.name])]
            part = next(one for one in inner if is_dataclass(one))
            yield from missing(part, field.message_type._concrete_class, f"{at}{field.name}.")


@pytest.mark.parametrize(("value", "of"), PAIRS, ids=[of.__name__ for _, of in PAIRS])
def test_every_field_of_a_message_has_a_value_of_its_name(value, of):
    assert list(missing(value, of)) == []


def test_values_that_a_message_does_not_have_are_not_for_callers():
    answer = results.SearchAnswer(ranking="abc", tokens=3, notices=("a",), cached=True)

    made = message(answer, search_pb2.SearchResponse)

    assert made == search_pb2.SearchResponse(tokens=3, notices=["a"], cached=True)
    assert "ranking" in {field.name for field in fields(answer)}


def test_each_part_of_an_exact_search_is_converted_completely():
    raw = f"def ünder():\n    pass\n\n{'under ' * 300}\nunder\n".encode()
    pattern = compiled(Wanted("[uü]nder"))
    shown = lines(raw, list(matching(pattern, raw)), before=1, after=1)
    file = results.MatchingFile("acme/app", "a.py", "python", 3, shown, "0f1e", "https://host/a.py")
    summary = results.GrepSummary(1, 3, 1, True, ("a notice",), 1.5, ())

    for part in (results.GrepPart((file,)), results.GrepPart(summary=summary)):
        assert grep_response(part) == message(part, search_pb2.GrepResponse)
    converted = grep_response(results.GrepPart((file,))).files[0].lines
    for field in search_pb2.MatchingLine.DESCRIPTOR.fields:
        assert any(getattr(line, field.name) for line in converted), field.name
