"""Define the parameters of the lab, and arrange the options of both sides as rows of its form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic import ConfigDict, Field

from codelode.errors import InvalidQuery
from gateway.api.rest.bodies import Whole
from gateway.api.web.labels import SIDES, option_label
from gateway.api.web.links import link
from gateway.api.web.parameters import SearchParameters
from gateway.options import Options, Preset
from gateway.service.options import OptionField, chosen, described, from_text, value_of
from gateway.service.requests import GivenOptions, SearchRequest

#: Default number of hits of each side, and the numbers that the page offers.
TOP_K = 20
TOPS = (10, TOP_K, 50)

PRESET = "preset"
#: The options that the page offers: those that decide which hits are found, and in which order.
MAIN = (
    "retrieve.mode",
    "retrieve.window",
    "retrieve.max_chunks",
    "retrieve.alpha",
    "rank.ranker",
    "rank.reranker",
)
MORE = (
    "analyze.synonyms",
    "analyze.infer_filters",
    "analyze.rewrite",
    "retrieve.fusion",
    "retrieve.file_similarity",
    "retrieve.max_files",
    "retrieve.chunk_similarity",
    "rank.definition_boost",
    "rank.centrality",
    "rank.confidence",
    "rank.duplicate_similarity",
    "rank.collapse_copies",
)
OFFERED = (PRESET, *MAIN, *MORE)


class LabParameters(SearchParameters):
    """The query and filters of a search, and the options of each side: `a.retrieve.window`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    top: Whole = Field(default=0, description="Number of hits of each side; 0: 20.")

    def url(self, **changes: Any) -> str:
        return link("/lab", **{**dict(self), **changes})

    def set_options(self, side: str) -> dict[str, str]:
        """Return the options that are set on a side, by name."""
        extra = self.model_extra or {}
        found = {name: str(extra.get(f"{side}.{name}", "")) for name in OFFERED}
        return {name: text for name, text in found.items() if text}

    def options(self, side: str) -> GivenOptions:
        texts = self.set_options(side)
        preset = texts.pop(PRESET, "")
        return GivenOptions(preset, {name: from_text(name, text) for name, text in texts.items()})

    def request(self, side: str) -> SearchRequest:
        """Return the request of a side, which skips the cache so that its time is comparable."""
        return replace(
            self.given(),
            top_k=self.top or TOP_K,
            explain=True,
            skip_cache=True,
            options=self.options(side),
            page_token="",
        )

    def warm_up(self) -> SearchRequest:
        """Return a request for the same query that skips the cache and uses no language model."""
        return replace(self.given(), top_k=1, skip_cache=True, page_token="")

    def check(self) -> None:
        """Raise InvalidQuery, with its name in the URL, for the first invalid option."""
        known = {f"{side}.{name}" for side in SIDES for name in OFFERED}
        for name in self.model_extra or {}:
            if name not in known:
                raise InvalidQuery(name[:100], "is not a parameter of the lab")
        for side in SIDES:
            self._check(side)

    def _check(self, side: str) -> None:
        try:
            chosen(self.options(side))
        except InvalidQuery as error:
            name = error.field.removeprefix("options.")
            raise InvalidQuery(f"{side}.{name}", error.message) from error

    def swapped_url(self) -> str:
        """Return the URL of the page with the settings of both sides swapped."""
        a, b = map(self.set_options, SIDES)
        changed = {f"a.{name}": b.get(name, "") for name in OFFERED}
        return self.url(**changed, **{f"b.{name}": a.get(name, "") for name in OFFERED})

    def reset_url(self) -> str:
        """Return the URL of the page without settings."""
        return self.url(**dict.fromkeys(self.model_extra or {}, ""))


@dataclass(frozen=True, slots=True)
class Cell:
    """An option of a side in the form. `usual`: its value if it is not set; `text`: the set one."""

    name: str
    label: str
    usual: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """An option in the form."""

    label: str
    field: OptionField
    cells: tuple[Cell, ...]


def preset_row(asked: LabParameters) -> Row:
    return _row(asked, OptionField(PRESET, tuple(Preset)))


def rows(asked: LabParameters, names: tuple[str, ...]) -> tuple[Row, ...]:
    return tuple(_row(asked, described(name)) for name in names)


def _row(asked: LabParameters, field: OptionField) -> Row:
    cells = tuple(_cell(asked, side, field.name) for side in SIDES)
    return Row(option_label(field.name), field, cells)


def _cell(asked: LabParameters, side: str, name: str) -> Cell:
    field = f"{side}.{name}"
    text = asked.set_options(side).get(name, "")
    return Cell(field, option_label(field), _usual(asked.options(side), name), text)


def _usual(given: GivenOptions, name: str) -> str:
    """Return the value of an option that is not set, given the preset and the other options."""
    if name == PRESET:
        return Preset.BALANCED
    others = {each: value for each, value in given.values.items() if each != name}
    try:
        return value_of(chosen(replace(given, values=others)), name)
    except InvalidQuery:
        return value_of(Options(), name)
