"""SearchOptions of a request: presets, bounds, and what a choice implies."""

from dataclasses import fields

import pytest
from google.protobuf.json_format import ParseDict

from codelode.errors import InvalidQuery
from codelode.v1 import search_pb2
from gateway.api.rpc import convert
from gateway.options import PRESETS, Mode, Options, Preset, Ranker
from gateway.service import options as choose
from gateway.service.requests import GivenOptions


def options(given=None, **flags):
    return choose.chosen(
        convert.options(ParseDict(given or {}, search_pb2.SearchOptions())), **flags
    )


def test_without_options_the_defaults_apply():
    assert options() == Options() == PRESETS[Preset.BALANCED]


@pytest.mark.parametrize("preset", Preset)
def test_a_preset_is_selected_by_name(preset):
    assert options({"preset": preset.upper()}) == PRESETS[preset]


def test_options_of_a_request_override_its_preset_even_with_zero():
    made = options({"preset": "thorough", "expand": {"related": 0}, "retrieve": {"window": 30}})

    assert (made.expand.related, made.retrieve.window) == (0, 30)
    assert made.rank.duplicate_similarity == 0.98


@pytest.mark.parametrize("preset", Preset)
def test_no_preset_has_an_experimental_option(preset):
    made, default = PRESETS[preset], Options()

    assert made.analyze == default.analyze
    assert (made.retrieve.mode, made.retrieve.fusion, made.retrieve.alpha) == (
        default.retrieve.mode,
        default.retrieve.fusion,
        default.retrieve.alpha,
    )
    assert (made.rank.ranker, made.rank.centrality, made.rank.reranker) == (
        default.rank.ranker,
        default.rank.centrality,
        default.rank.reranker,
    )


@pytest.mark.parametrize("name", choose.BOUNDS)
def test_every_bound_is_kept_and_its_field_is_named(name):
    stage, _, field = name.partition(".")
    low, high = choose.BOUNDS[name]

    for value in (low - 1, high + 1):
        with pytest.raises(InvalidQuery) as caught:
            options({stage: {field: value}})
        assert caught.value.field == f"options.{name}"


@pytest.mark.parametrize("name", ["retrieve.alpha", "rank.confidence"])
def test_nan_is_out_of_bounds(name):
    stage, _, field = name.partition(".")

    with pytest.raises(InvalidQuery, match=field):
        options({stage: {field: "NaN"}})


@pytest.mark.parametrize("name", [*choose.CHOICES, "preset"])
def test_the_error_for_an_unknown_choice_lists_the_known_ones(name):
    stage, _, field = name.partition(".")
    given = {stage: {field: "best"}} if field else {"preset": "best"}

    with pytest.raises(InvalidQuery, match="use one of: ") as caught:
        options(given)

    assert caught.value.field == f"options.{name}"


def test_every_field_of_the_proto_is_an_option_with_bounds_or_choices():
    defaults = Options()
    for stage in convert.STAGES:
        message = search_pb2.SearchOptions.DESCRIPTOR.fields_by_name[stage].message_type
        known = {field.name for field in fields(getattr(defaults, stage))}
        assert {field.name for field in message.fields} == known
        for field in message.fields:
            is_flag = field.type == field.TYPE_BOOL
            name = f"{stage}.{field.name}"
            assert is_flag or name in choose.BOUNDS or name in choose.CHOICES


def test_staged_mode_ranks_more_adds_import_chains_and_collapses_duplicates():
    made = options({"retrieve": {"mode": "staged"}})

    assert made.retrieve.mode is Mode.STAGED
    assert made.retrieve.max_chunks == 100
    assert (made.expand.imports, made.rank.duplicate_similarity) == (3, 0.92)
    assert options({"retrieve": {"mode": "staged"}, "expand": {"imports": 0}}).expand.imports == 0


@pytest.mark.parametrize("given", [{"alpha": 0.4}, {"fusion": "relative"}])
def test_options_of_the_fused_ranker_choose_it(given):
    assert options({"retrieve": given}).rank.ranker is Ranker.FUSED
    linear = {"retrieve": given, "rank": {"ranker": "linear"}}
    assert options(linear).rank.ranker is Ranker.LINEAR


def test_a_context_includes_related_files_and_omits_chunks_of_low_quality():
    made = options(for_context=True)

    assert (made.expand.related, made.assemble.min_quality) == (10, 0.3)
    assert options({"expand": {"related": 0}}, for_context=True).expand.related == 0


def test_the_reserve_must_be_smaller_than_the_budget():
    with pytest.raises(InvalidQuery, match="reserved_tokens"):
        options({"assemble": {"budget_tokens": 2_000}})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("retrieve.windw", 50, "did you mean 'retrieve.window'"),
        ("window", 50, "there is no option"),
        ("retrieve.window", 50.0, "a whole number"),
        ("retrieve.window", True, "a whole number"),
        ("retrieve.alpha", "much", "a number"),
        ("retrieve.mode", 1, "a text"),
        ("expand.enclosing", 1, "true or false"),
    ],
)
def test_an_option_that_a_face_cannot_check_is_refused_by_name(name, value, says):
    with pytest.raises(InvalidQuery, match=says) as caught:
        choose.chosen(GivenOptions(values={name: value}))

    assert caught.value.field == f"options.{name}"
