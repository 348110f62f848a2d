from dataclasses import replace

import pytest

from codelode.access import EVERYTHING, Visibility
from codelode.model import Category, Filters, Kind, RefName, RepositoryName
from gateway import pipeline
from gateway.options import PRESETS, Preset
from gateway.retrieve import KEYWORDS_ONLY
from gateway.state import Backends, SearchQuery

SHAPE = pipeline.Shape(store="local", embedder="m-1", generation=7)


def key(query, **changes):
    return pipeline.cache_key(query, replace(SHAPE, **changes))


FILTERS = Filters(repositories=(RepositoryName("a"), RepositoryName("b")))
QUERY = SearchQuery("retry", 10, FILTERS, visible=EVERYTHING)
ASKED = SearchQuery("how is a thing cached", 10, FILTERS, visible=EVERYTHING)


def near(query, **changes):
    return pipeline.semantic_key(query, replace(SHAPE, **changes))


@pytest.mark.parametrize(
    "other",
    [
        replace(QUERY, text="retries"),
        replace(QUERY, top_k=11),
        replace(QUERY, filters=replace(FILTERS, repositories=(RepositoryName("a"),))),
        replace(QUERY, filters=replace(FILTERS, languages=("go",))),
        replace(QUERY, filters=replace(FILTERS, paths=("src/**",))),
        replace(QUERY, filters=replace(FILTERS, symbols=("src/**",))),
        replace(QUERY, filters=replace(FILTERS, kinds=(Kind.CLASS,))),
        replace(QUERY, filters=replace(FILTERS, categories=(Category.TEST,))),
        replace(QUERY, filters=replace(FILTERS, ref=RefName("main"))),
        replace(QUERY, visible=Visibility.of(["a"])),
        replace(QUERY, offset=10),
        replace(QUERY, options=PRESETS[Preset.FAST]),
    ],
)
def test_every_parameter_is_part_of_the_cache_key(other):
    assert key(other) != key(QUERY)


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, top_k=11),
        replace(ASKED, filters=replace(FILTERS, languages=("go",))),
        replace(ASKED, filters=replace(FILTERS, repositories=(RepositoryName("a"),))),
        replace(ASKED, visible=Visibility.of(["a"])),
        replace(ASKED, options=PRESETS[Preset.FAST]),
        replace(ASKED, text="how is max_age cached"),
    ],
)
def test_queries_of_the_same_meaning_share_filters_visibility_options_and_names(other):
    assert near(other) != near(ASKED)
    assert near(replace(ASKED, text="where is the thing cached?")) == near(ASKED)


@pytest.mark.parametrize("change", [{"embedder": "m-2"}, {"generation": 8}, {"explain": True}])
def test_semantic_cache_buckets_depend_on_embedder_generation_and_explain(change):
    assert near(ASKED, **change) != near(ASKED)


@pytest.mark.parametrize(
    "query",
    [
        replace(QUERY, text="HttpClient"),
        replace(QUERY, text="if (a == b) { return c; }"),
        replace(QUERY, text="how is it cached", offset=10),
    ],
)
def test_names_code_and_later_pages_never_use_the_semantic_cache(query):
    assert near(query) is None


@pytest.mark.parametrize(
    "change", [{"store": "weaviate"}, {"embedder": "m-2"}, {"generation": 8}, {"explain": True}]
)
def test_store_embedder_generation_and_explain_are_part_of_the_cache_key(change):
    assert key(QUERY, **change) != key(QUERY)


def test_the_order_of_alternatives_is_not_part_of_the_cache_key():
    swapped = replace(QUERY, filters=replace(FILTERS, repositories=FILTERS.repositories[::-1]))

    assert key(swapped) == key(QUERY)


async def test_every_stage_is_timed_in_order(chunks, embedder):
    _, timings = await pipeline.search(QUERY, Backends(chunks, embedder))

    assert [timing.stage for timing in timings] == [
        "analyze",
        "retrieve",
        "rank",
        "expand",
        "assemble",
    ]
    assert all(timing.took_ms >= 0 for timing in timings)


async def test_without_the_embedder_keywords_are_searched_and_a_notice_is_added(
    index, chunks, away_embedder, make_chunk
):
    index(make_chunk("retry.py", "def retry(): ..."))

    state, _ = await pipeline.search(
        SearchQuery("retry", visible=EVERYTHING), Backends(chunks, away_embedder)
    )

    assert [hit.match for hit in state.hits] == ["keyword"]
    assert state.notices == (KEYWORDS_ONLY,)


async def test_an_empty_index_answers_with_no_hits(chunks, embedder):
    state, _ = await pipeline.search(
        SearchQuery("retry", visible=EVERYTHING), Backends(chunks, embedder)
    )

    assert state.hits == ()
