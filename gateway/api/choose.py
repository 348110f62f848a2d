"""SearchOptions → Options: the preset, what the request sets itself, and what that implies.

Every field's bounds stand in one table, by the name that a refusal shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from codelode.errors import InvalidQuery
from codelode.v1 import search_pb2
from gateway.options import PRESETS, Centrality, Fusion, Mode, Options, Preset, Ranker, Reranker

if TYPE_CHECKING:
    from google.protobuf.message import Message

STAGES = ("analyze", "retrieve", "rank", "expand", "assemble")

CHOICES: dict[str, type[StrEnum]] = {
    "retrieve.mode": Mode,
    "retrieve.fusion": Fusion,
    "rank.ranker": Ranker,
    "rank.centrality": Centrality,
    "rank.reranker": Reranker,
}

#: Least and most, both allowed.
BOUNDS: dict[str, tuple[float, float]] = {
    "retrieve.window": (10, 500),
    "retrieve.alpha": (0, 1),
    "retrieve.file_similarity": (0, 1),
    "retrieve.max_files": (1, 100),
    "retrieve.chunk_similarity": (0, 1),
    "retrieve.max_chunks": (1, 500),
    "rank.definition_boost": (1, 10),
    "rank.confidence": (0, 1),
    "rank.duplicate_similarity": (0, 1),
    "expand.related": (0, 50),
    "expand.hops": (1, 2),
    "expand.imports": (0, 5),
    "expand.before_lines": (0, 200),
    "expand.after_lines": (0, 200),
    "expand.max_lines": (1, 1_000),
    "expand.max_line_chars": (20, 10_000),
    "assemble.budget_tokens": (100, 200_000),
    "assemble.reserved_tokens": (0, 200_000),
    "assemble.min_quality": (0, 1),
}

#: What a choice brings with it where neither request nor preset says otherwise.
STAGED = {
    "retrieve.max_chunks": 100,
    "expand.imports": 3,
    "rank.duplicate_similarity": 0.92,
}
CONTEXT = {"expand.related": 10, "assemble.min_quality": 0.3}


def options(given: search_pb2.SearchOptions, *, for_context: bool = False) -> Options:
    """The options of a request. InvalidQuery names the field that is out of bounds."""
    preset = PRESETS[_preset(given.preset)]
    chosen = {name: _checked(name, value) for name, value in _given(given)}
    implied: dict[str, object] = dict(CONTEXT) if for_context else {}
    if chosen.get("retrieve.mode") is Mode.STAGED:
        implied |= STAGED
    if {"retrieve.alpha", "retrieve.fusion"} & chosen.keys():
        implied["rank.ranker"] = Ranker.FUSED
    made = _with(_with(preset, _unsaid(implied, preset)), chosen)
    if made.assemble.reserved_tokens >= made.assemble.budget_tokens:
        raise InvalidQuery(
            "options.assemble.reserved_tokens",
            f"is {made.assemble.reserved_tokens:,}; it must leave something of the budget of "
            f"{made.assemble.budget_tokens:,}",
        )
    return made


def _given(given: search_pb2.SearchOptions) -> Iterator[tuple[str, Any]]:
    """The fields that the request sets, also those it sets to zero."""
    for stage in STAGES:
        message: Message = getattr(given, stage)
        for field, value in message.ListFields():
            yield f"{stage}.{field.name}", value


def _preset(name: str) -> Preset:
    try:
        return Preset(name.lower() or Preset.BALANCED)
    except ValueError as exc:
        raise _no_member("preset", name, Preset) from exc


def _checked(name: str, value: Any) -> object:
    if name in CHOICES:
        return _member(name, value)
    if name in BOUNDS:
        low, high = BOUNDS[name]
        # Written so that NaN is out of bounds.
        if not low <= value <= high:
            raise InvalidQuery(f"options.{name}", f"is {value:,}; it must be {low:g} to {high:,g}")
    return value


def _member(name: str, value: str) -> StrEnum:
    try:
        return CHOICES[name](value.lower())
    except ValueError as exc:
        raise _no_member(name, value, CHOICES[name]) from exc


def _no_member(name: str, value: str, members: type[StrEnum]) -> InvalidQuery:
    known = ", ".join(members)
    return InvalidQuery(f"options.{name}", f"{value[:100]!r} is none; there are: {known}")


def _unsaid(implied: dict[str, object], preset: Options) -> dict[str, object]:
    """Those that the preset leaves at their defaults."""
    default = Options()
    return {
        name: value
        for name, value in implied.items()
        if _value(preset, name) == _value(default, name)
    }


def _value(of: Options, name: str) -> object:
    stage, _, field = name.partition(".")
    return getattr(getattr(of, stage), field)


def _with(of: Options, values: dict[str, object]) -> Options:
    for name, value in values.items():
        stage, _, field = name.partition(".")
        changed: Any = replace(getattr(of, stage), **{field: value})
        of = replace(of, **{stage: changed})
    return of
