"""Convert protos to requests, and answers to protos.

Fields of requests and answers have the names of the protos' fields, so one function converts all of
either. A field that the message lacks is internal: it is not sent, or keeps its default.

Repeated fields of requests are not copied here, on the event loop, because nothing bounds their
length before the service layer does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from codelode.v1 import index_pb2, search_pb2
from gateway.service.requests import NO_FILTERS, GivenFilters, GivenOptions
from gateway.service.results import GrepPart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound="DataclassInstance")

#: The messages of SearchOptions that hold options.
STAGES = ("analyze", "retrieve", "rank", "expand", "assemble")

_FILTERS = tuple(field.name for field in fields(GivenFilters))


def message(value: Any, of: type[M]) -> M:
    """Convert a dataclass to a message, field by field; None is left out."""
    shape = _shape_of(value, of)
    given = shape.given(value)
    for name, part, is_repeated in shape.nested:
        found = getattr(value, name)
        if found:
            given[name] = _messages(found, part) if is_repeated else message(found, part)
    return of(**given)


@lru_cache(maxsize=64)
def _messages(values: tuple[Any, ...], of: Any) -> list[Message]:
    """Convert a list of values; cached, because a cached answer is sent many times.

    Sharing the messages is safe: a message that is built from them copies them.
    """
    return [message(one, of) for one in values]


def grep_response(part: GrepPart) -> search_pb2.GrepResponse:
    """Convert a part of an answer as `message` would, which takes three times as long for lines."""
    if part.summary is not None:
        return message(part, search_pb2.GrepResponse)
    made = search_pb2.GrepResponse()
    for file in part.files:
        without_lines = _shape_of(file, search_pb2.MatchingFile).given(file)
        lines = made.files.add(**without_lines).lines
        for line in file.lines:
            given = lines.add(
                number=line.number, text=line.text, is_match=line.is_match, truncated=line.truncated
            )
            for span in line.spans:
                given.spans.add(start=span.start, end=span.end)
    return made


class _Shape(NamedTuple):
    """The fields that a dataclass and a message have in common."""

    plain: tuple[str, ...]
    plain_of: Callable[[object], tuple[Any, ...]]
    nested: tuple[tuple[str, Any, bool], ...]  # name, its message, is it repeated

    def given(self, value: object) -> dict[str, Any]:
        """Return the fields that are not messages."""
        return dict(zip(self.plain, self.plain_of(value), strict=True))


_SHAPES: dict[tuple[type[Any], type[Message]], _Shape] = {}


def _shape_of(value: object, of: type[Message]) -> _Shape:
    key = (type(value), of)
    return _SHAPES.get(key) or _SHAPES.setdefault(key, _shape(*key))


def _shape(value: type[Any], of: type[Message]) -> _Shape:
    names = {field.name for field in fields(value)}
    common = [field for field in of.DESCRIPTOR.fields if field.name in names]
    plain = tuple(field.name for field in common if field.message_type is None)
    getter = attrgetter(*plain) if plain else lambda _: ()
    return _Shape(
        plain,
        getter if len(plain) != 1 else lambda one: (getter(one),),
        tuple(
            (field.name, field.message_type._concrete_class, field.is_repeated)
            for field in common
            if field.message_type is not None
        ),
    )


def request(given: Message, kind: type[R]) -> R:
    """Convert a message to a request, field by field; optional fields that it lacks are None."""
    names = given.DESCRIPTOR.fields_by_name
    common = (names[field.name] for field in fields(kind) if field.name in names)
    return kind(**{field.name: _value(given, field) for field in common})


def _value(given: Message, field: FieldDescriptor) -> Any:
    found = getattr(given, field.name)
    if isinstance(found, search_pb2.Filters):
        return _filters(found)
    if isinstance(found, search_pb2.SearchOptions):
        return options(found)
    if field.has_presence and not given.HasField(field.name):
        return None
    return found.patterns if isinstance(found, index_pb2.Patterns) else found


def options(given: search_pb2.SearchOptions) -> GivenOptions:
    """Return the preset and the options that the request sets, including those set to zero."""
    values = {
        f"{stage}.{field.name}": value
        for stage in STAGES
        for field, value in getattr(given, stage).ListFields()
    }
    return GivenOptions(given.preset, values)


def _filters(given: search_pb2.Filters) -> GivenFilters:
    if not given.ListFields():
        return NO_FILTERS
    return GivenFilters(**{name: getattr(given, name) for name in _FILTERS})
