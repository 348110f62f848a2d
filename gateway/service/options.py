"""Check the options of a request, and complete them from its preset and from what they imply.

One table has all bounds, by the names of options that errors show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from codelode.errors import InvalidQuery
from gateway.options import PRESETS, Centrality, Fusion, Mode, Options, Preset, Ranker, Reranker
from gateway.service.catalog import unknown
from gateway.service.requests import GivenOptions

CHOICES: dict[str, type[StrEnum]] = {
    "retrieve.mode": Mode,
    "retrieve.fusion": Fusion,
    "rank.ranker": Ranker,
    "rank.centrality": Centrality,
    "rank.reranker": Reranker,
}

#: The values of a switch in a form.
SWITCH = {"on": True, "off": False}

#: Minimum and maximum allowed value of each numeric option, inclusive.
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

#: Defaults of staged retrieval and of contexts, for options that neither request nor preset sets.
STAGED = {
    "retrieve.max_chunks": 100,
    "expand.imports": 3,
    "rank.duplicate_similarity": 0.92,
}
CONTEXT = {"expand.related": 10, "assemble.min_quality": 0.3}


#: The names of all options, stage and field: `retrieve.window`.
NAMES = tuple(
    f"{stage.name}.{option.name}"
    for stage in fields(Options)
    for option in fields(getattr(Options(), stage.name))
)


@dataclass(frozen=True, slots=True)
class OptionField:
    """An option as a form shows it: a list of choices or, without choices, a bounded number."""

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    is_whole: bool = False


def described(name: str) -> OptionField:
    """Return the description of the option. Raises KeyError for an unknown name."""
    default = _value(Options(), name)
    if name in CHOICES:
        return OptionField(name, tuple(CHOICES[name]))
    if isinstance(default, bool):
        return OptionField(name, tuple(SWITCH))
    return OptionField(name, (), *BOUNDS[name], is_whole=isinstance(default, int))


def from_text(name: str, text: str) -> object:
    """Return the value of a text in a form; keep an invalid text, so that `chosen` refuses it."""
    if described(name).choices:
        return SWITCH.get(text, text) if name not in CHOICES else text
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text


def value_of(options: Options, name: str) -> str:
    """Return the value of an option as a form shows it; empty if it depends on the search."""
    value = _value(options, name)
    if isinstance(value, bool):
        return next(text for text, meant in SWITCH.items() if meant is value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def chosen(given: GivenOptions, *, for_context: bool = False) -> Options:
    """Return the complete options of a request. Raises InvalidQuery with the invalid field."""
    preset = PRESETS[_preset(given.preset)]
    if not given.values and not for_context:
        return preset
    values = {name: _checked(name, value) for name, value in given.values.items()}
    made = _with(_with(preset, _open(_implied(values, for_context=for_context), preset)), values)
    if made.assemble.reserved_tokens >= made.assemble.budget_tokens:
        raise InvalidQuery(
            "options.assemble.reserved_tokens",
            f"is {made.assemble.reserved_tokens:,}; it must be less than budget_tokens, "
            f"{made.assemble.budget_tokens:,}",
        )
    return made


def _preset(name: str) -> Preset:
    try:
        return Preset(name.lower() or Preset.BALANCED)
    except ValueError as exc:
        raise _no_member("preset", name, Preset) from exc


def _checked(name: str, value: object) -> object:
    if name not in NAMES:
        raise InvalidQuery(f"options.{name[:100]}", unknown("option", name, NAMES))
    if name in CHOICES:
        return _member(name, _typed(name, value, str))
    if name not in BOUNDS:
        return _typed(name, value, bool)
    low, high = BOUNDS[name]
    number = _number(name, value)
    # Not `number < low or number > high`, which is false for NaN.
    if not low <= number <= high:
        raise InvalidQuery(f"options.{name}", f"is {number:,}; it must be {low:g} to {high:,g}")
    return number


def _number(name: str, value: object) -> float:
    kinds = (int,) if isinstance(_value(Options(), name), int) else (int, float)
    number: float = _typed(name, value, *kinds)
    return number


def _typed(name: str, value: Any, *kinds: type) -> Any:
    if isinstance(value, kinds) and isinstance(value, bool) == (kinds == (bool,)):
        return value
    names = {str: "a text", bool: "true or false", int: "a whole number"}
    what = "a number" if float in kinds else names[kinds[0]]
    raise InvalidQuery(f"options.{name}", f"must be {what}")


def _member(name: str, value: str) -> StrEnum:
    try:
        return CHOICES[name](value.lower())
    except ValueError as exc:
        raise _no_member(name, value, CHOICES[name]) from exc


def _no_member(name: str, value: str, members: type[StrEnum]) -> InvalidQuery:
    known = ", ".join(members)
    return InvalidQuery(f"options.{name}", f"{value[:100]!r} is not a choice; use one of: {known}")


def _implied(values: Mapping[str, object], *, for_context: bool) -> dict[str, object]:
    """Return the options that the choices of the request imply."""
    implied: dict[str, object] = dict(CONTEXT) if for_context else {}
    if values.get("retrieve.mode") is Mode.STAGED:
        implied |= STAGED
    if {"retrieve.alpha", "retrieve.fusion"} & values.keys():
        implied["rank.ranker"] = Ranker.FUSED
    return implied


def _open(implied: Mapping[str, object], preset: Options) -> dict[str, object]:
    """Return the implied options that the preset leaves at their defaults."""
    default = Options()
    return {
        name: value
        for name, value in implied.items()
        if _value(preset, name) == _value(default, name)
    }


def _value(of: Options, name: str) -> object:
    stage, _, field = name.partition(".")
    return getattr(getattr(of, stage), field)


def _with(of: Options, values: Mapping[str, object]) -> Options:
    for name, value in values.items():
        stage, _, field = name.partition(".")
        changed: Any = replace(getattr(of, stage), **{field: value})
        of = replace(of, **{stage: changed})
    return of
