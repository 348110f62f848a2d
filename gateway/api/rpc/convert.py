"""Convert protos to requests, and answers to protos.

Fields of answers have the names of the protos' fields, so one function converts them all. A field
that the message lacks is internal and not sent.

Repeated fields of requests are not copied here, on the event loop, because nothing bounds their
length before the service layer does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from codelode.v1 import access_pb2, graph_pb2, index_pb2, search_pb2
from gateway.service.requests import (
    NO_FILTERS,
    CreateKeyRequest,
    ExplainRequest,
    FailuresRequest,
    FilesRequest,
    GivenFilters,
    GivenOptions,
    GraphRequest,
    GrepRequest,
    ReadRequest,
    ReferencesRequest,
    SearchRequest,
    SimilarRequest,
    StartRequest,
    SymbolsRequest,
)
from gateway.service.results import GrepPart

M = TypeVar("M", bound=Message)

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
    """Convert a part of an answer as `message` does, which takes three times as long for lines."""
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
        """Return the fields that are no messages."""
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


def search_request(given: search_pb2.SearchRequest) -> SearchRequest:
    return SearchRequest(
        query=given.query,
        filters=_filters(given.filters),
        top_k=given.top_k if given.HasField("top_k") else None,
        explain=given.explain,
        skip_cache=given.skip_cache,
        options=options(given.options),
        page_token=given.page_token,
    )


def similar_request(given: search_pb2.SimilarRequest) -> SimilarRequest:
    return SimilarRequest(
        snippet=given.snippet,
        repository=given.repository,
        path=given.path,
        line=given.line,
        ref=given.ref,
        filters=_filters(given.filters),
        top_k=given.top_k if given.HasField("top_k") else None,
    )


def grep_request(given: search_pb2.GrepRequest) -> GrepRequest:
    return GrepRequest(
        pattern=given.pattern,
        filters=_filters(given.filters),
        literal=given.literal,
        ignore_case=given.ignore_case,
        whole_word=given.whole_word,
        multiline=given.multiline,
        before_lines=given.before_lines,
        after_lines=given.after_lines,
        limit=given.limit if given.HasField("limit") else None,
        limit_per_file=given.limit_per_file,
        without_lines=given.without_lines,
    )


def symbols_request(given: search_pb2.ListSymbolsRequest) -> SymbolsRequest:
    return SymbolsRequest(
        name=given.name,
        filters=_filters(given.filters),
        literal=given.literal,
        limit=given.limit if given.HasField("limit") else None,
    )


def references_request(given: search_pb2.ListReferencesRequest) -> ReferencesRequest:
    return ReferencesRequest(
        name=given.name,
        filters=_filters(given.filters),
        limit=given.limit if given.HasField("limit") else None,
    )


def read_request(given: search_pb2.ReadFileRequest) -> ReadRequest:
    return ReadRequest(given.path, given.repository, given.ref, given.start_line, given.end_line)


def files_request(given: search_pb2.ListFilesRequest) -> FilesRequest:
    return FilesRequest(given.repository, given.ref, given.path, given.page_size, given.page_token)


def explain_request(given: search_pb2.ExplainRequest) -> ExplainRequest:
    return ExplainRequest(given.subject, given.repository, given.ref)


def graph_request(given: graph_pb2.GetGraphRequest) -> GraphRequest:
    return GraphRequest(
        subject=given.subject,
        repository=given.repository,
        ref=given.ref,
        relations=given.relations,
        depth=given.depth if given.HasField("depth") else None,
        limit=given.limit if given.HasField("limit") else None,
        reverse=given.reverse,
    )


def start_request(given: index_pb2.StartRunRequest) -> StartRequest:
    return StartRequest(
        url=given.url,
        name=given.name,
        ref=given.ref,
        label=given.label,
        include=given.include.patterns if given.HasField("include") else None,
        exclude=given.exclude.patterns if given.HasField("exclude") else None,
        plan_only=given.plan_only,
    )


def failures_request(given: index_pb2.ListFailuresRequest) -> FailuresRequest:
    return FailuresRequest(
        repository=given.repository,
        include_skipped=given.include_skipped,
        include_partial=given.include_partial,
        page_size=given.page_size,
        page_token=given.page_token,
    )


def key_request(given: access_pb2.CreateKeyRequest) -> CreateKeyRequest:
    return CreateKeyRequest(given.name, given.role, given.repositories, given.expires_in_s)


def options(given: search_pb2.SearchOptions) -> GivenOptions:
    """Return the preset and the options that the request sets, also those set to zero."""
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
