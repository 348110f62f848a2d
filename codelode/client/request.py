"""Build request messages. Only values that the wire cannot carry are checked here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypedDict, TypeVar, Unpack, cast

from google.protobuf.descriptor import FieldDescriptor

from codelode import errors
from codelode.v1 import search_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from codelode.v1 import index_pb2

#: Options by stage and name, as in `SearchOptions` of the proto: `{"rank": {"reranker": "judge"}}`.
Options = Mapping[str, Mapping[str, object]]

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")


def encodable(build: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """Make a function that builds a request raise InvalidQuery for text that is not Unicode.

    Python reads undecodable bytes of file names as lone surrogates, which UTF-8 cannot encode.
    """

    @wraps(build)
    def built(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        try:
            return build(*args, **kwargs)
        except UnicodeEncodeError as exc:
            raise errors.InvalidQuery(
                "request", f"{exc.object[:100]!a} is not valid Unicode text; decode it as UTF-8"
            ) from exc

    return built


#: Upper bounds that the gateway enforces. Errors about values that the wire cannot carry, and the
#: help of the command line, name them.
MOST = {"top_k": 200, "depth": 5, "limit": 1_000, "budget_tokens": 200_000}

#: Names of the types of search options, for errors.
_KINDS = {
    FieldDescriptor.CPPTYPE_INT32: "a whole number below 2,147,483,648",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_STRING: "text",
}


class Values(TypedDict, total=False):
    """The filters of a search besides its ref; every key may be left out."""

    repositories: Iterable[str]
    languages: Iterable[str]
    paths: Iterable[str]
    kinds: Iterable[str]
    symbols: Iterable[str]
    categories: Iterable[str]
    block_types: Iterable[str]
    not_repositories: Iterable[str]
    not_languages: Iterable[str]
    not_paths: Iterable[str]
    scope: str


class Filters(Values, total=False):
    """The filters of a search; every key may be left out."""

    ref: str


class Search(Filters, total=False):
    """The filters and options of a search."""

    explain: bool
    skip_cache: bool
    preset: str
    options: Options | None


class Grep(Filters, total=False):
    """The filters and options of a search for a pattern."""

    literal: bool
    ignore_case: bool
    whole_word: bool
    multiline: bool
    before_lines: int
    after_lines: int
    limit: int
    limit_per_file: int
    without_lines: bool


def search_request(
    query: str,
    *,
    ref: str = "",
    explain: bool = False,
    skip_cache: bool = False,
    preset: str = "",
    options: Options | None = None,
    **values: Unpack[Values],
) -> search_pb2.SearchRequest:
    """Build the request, except for its number of hits."""
    return search_pb2.SearchRequest(
        query=query,
        filters=filters(ref, **values),
        explain=explain,
        skip_cache=skip_cache,
        options=search_options(preset, options or {}),
    )


def grep_request(
    pattern: str,
    *,
    ref: str = "",
    literal: bool = False,
    ignore_case: bool = False,
    whole_word: bool = False,
    multiline: bool = False,
    before_lines: int = 0,
    after_lines: int = 0,
    limit: int = 1_000,
    limit_per_file: int = 0,
    without_lines: bool = False,
    **values: Unpack[Values],
) -> search_pb2.GrepRequest:
    """Build the request of a search for a pattern."""
    return search_pb2.GrepRequest(
        pattern=pattern,
        filters=filters(ref, **values),
        literal=literal,
        ignore_case=ignore_case,
        whole_word=whole_word,
        multiline=multiline,
        before_lines=natural("before_lines", before_lines),
        after_lines=natural("after_lines", after_lines),
        limit=natural("limit", limit),
        limit_per_file=natural("limit_per_file", limit_per_file),
        without_lines=without_lines,
    )


def filters(ref: str, **values: Unpack[Values]) -> search_pb2.Filters:
    """Build the filters. Raises InvalidQuery for a text where a list of texts is expected."""
    scope = values.pop("scope", "")
    given = cast(Mapping[str, Iterable[str]], values)
    lists = {name: texts(f"filters.{name}", some) for name, some in given.items()}
    return search_pb2.Filters(ref=ref, scope=scope, **lists)


def search_options(preset: str, options: Options) -> search_pb2.SearchOptions:
    """Build the options. Raises InvalidQuery for an unknown option or a value of a wrong type."""
    message = search_pb2.SearchOptions(preset=preset)
    stages = [name for name in message.DESCRIPTOR.fields_by_name if name != "preset"]
    for stage, values in options.items():
        if stage not in stages:
            told = f"is not a stage of a search; {_instead(stage, stages)}"
            raise errors.InvalidQuery(f"options.{stage}", told)
        for name, value in values.items():
            _set(getattr(message, stage), stage, name, value)
    return message


def _set(part: Message, stage: str, name: str, value: object) -> None:
    fields = part.DESCRIPTOR.fields_by_name
    if name not in fields:
        told = f"is not an option of {stage}; {_instead(name, list(fields))}"
        raise errors.InvalidQuery(f"options.{stage}.{name}", told)
    try:
        setattr(part, name, value)
    except (TypeError, ValueError) as exc:
        told = f"{value!r} is not {_KINDS[fields[name].cpp_type]}"
        raise errors.InvalidQuery(f"options.{stage}.{name}", told) from exc


def _instead(name: str, known: list[str]) -> str:
    """Return `did you mean 'rank'?`, or all known names if none is similar."""
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), known)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"there are: {', '.join(known)}"


def run_request(
    url: str,
    *,
    name: str = "",
    ref: str = "",
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
) -> index_pb2.StartRunRequest:
    """Build the request. It leaves out patterns that are None, and has those that are empty."""
    from codelode.addresses import FORMS
    from codelode.v1 import index_pb2

    if not url.strip():
        raise errors.InvalidQuery("url", f"it is empty; {FORMS}")
    return index_pb2.StartRunRequest(
        url=url,
        name=name,
        ref=ref,
        include=_patterns("include", include),
        exclude=_patterns("exclude", exclude),
    )


def _patterns(field: str, values: Iterable[str] | None) -> index_pb2.Patterns | None:
    from codelode.v1 import index_pb2

    if values is None:
        return None
    try:
        return index_pb2.Patterns(patterns=texts(field, values))
    except (TypeError, ValueError) as exc:
        raise errors.InvalidQuery(field, f"contains a value that is not text: {exc}") from exc


def texts(field: str, values: Iterable[str]) -> list[str]:
    """Return the values as a list. Raises InvalidQuery for a text, not a list of texts."""
    if isinstance(values, str):
        raise errors.InvalidQuery(field, f"is a list of texts, not the text {values!r}")
    return list(values)


def count(field: str, value: int) -> int:
    # The wire cannot carry more than 32 bits; the gateway refuses other values out of bounds.
    if not 0 < value < 2**31:
        raise errors.InvalidQuery(field, f"is {value:,}; it must be 1 to {MOST[field]:,}")
    return value


def natural(field: str, value: int) -> int:
    """Return the number. Raises InvalidQuery if the wire cannot carry it."""
    if not 0 <= value < 2**31:
        raise errors.InvalidQuery(field, f"is {value:,}; it must be from 0 to {2**31 - 1:,}")
    return value
