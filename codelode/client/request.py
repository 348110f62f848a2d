"""What a caller asks → the request message. What only the gateway can check is left to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from codelode import errors
from codelode.v1 import search_pb2

#: Options by stage and name, as in `SearchOptions` of the proto: `{"rank": {"reranker": "judge"}}`.
Options = Mapping[str, Mapping[str, object]]


class Limits(TypedDict, total=False):
    """What a search is limited to; every key may be left out."""

    repositories: Iterable[str]
    languages: Iterable[str]
    paths: Iterable[str]
    kinds: Iterable[str]
    symbols: Iterable[str]
    categories: Iterable[str]
    block_types: Iterable[str]
    ref: str


class Search(Limits, total=False):
    """What a search is limited to and how it is done."""

    explain: bool
    skip_cache: bool
    preset: str
    options: Options | None


def search_request(
    query: str,
    *,
    repositories: Iterable[str] = (),
    languages: Iterable[str] = (),
    paths: Iterable[str] = (),
    kinds: Iterable[str] = (),
    symbols: Iterable[str] = (),
    categories: Iterable[str] = (),
    block_types: Iterable[str] = (),
    ref: str = "",
    explain: bool = False,
    skip_cache: bool = False,
    preset: str = "",
    options: Options | None = None,
) -> search_pb2.SearchRequest:
    """The request without a number of hits."""
    filters = search_pb2.Filters(
        repositories=texts("repositories", repositories),
        languages=texts("languages", languages),
        paths=texts("paths", paths),
        kinds=texts("kinds", kinds),
        symbols=texts("symbols", symbols),
        categories=texts("categories", categories),
        block_types=texts("block_types", block_types),
        ref=ref,
    )
    return search_pb2.SearchRequest(
        query=query,
        filters=filters,
        explain=explain,
        skip_cache=skip_cache,
        options=search_options(preset, options or {}),
    )


def search_options(preset: str, options: Options) -> search_pb2.SearchOptions:
    """InvalidQuery names an option that does not exist or has another type."""
    message = search_pb2.SearchOptions(preset=preset)
    for stage, values in options.items():
        if stage == "preset" or stage not in message.DESCRIPTOR.fields_by_name:
            raise errors.InvalidQuery(f"options.{stage}", "is no stage of a search")
        part = getattr(message, stage)
        for name, value in values.items():
            try:
                setattr(part, name, value)
            except (AttributeError, TypeError, ValueError) as exc:
                raise errors.InvalidQuery(f"options.{stage}.{name}", str(exc)) from exc
    return message


def texts(field: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise errors.InvalidQuery(
            f"filters.{field}", f"is a list of texts, not the text {values!r}"
        )
    return list(values)


def count(field: str, value: int) -> int:
    # The wire's 0 means the default, so asking for nothing has to be refused here.
    if not 0 < value < 2**31:
        raise errors.InvalidQuery(field, f"{value} is out of range; ask for at least 1")
    return value
