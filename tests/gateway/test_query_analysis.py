"""The intent and entities of a query, and the filters, synonyms, and rewrites that it leads to."""

import pytest

from codelode.access import EVERYTHING
from codelode.errors import Unavailable
from codelode.model import Filters, Kind
from gateway.analyze import analyze
from gateway.analyze.filters import inferred
from gateway.analyze.intent import entities, intent
from gateway.analyze.meaning import literals
from gateway.analyze.query import kind
from gateway.analyze.rewrite import MAX_ALTERNATE_CHARS, NO_ANSWER, NO_MODEL, read
from gateway.analyze.synonyms import MAX_SYNONYMS, SETS, synonyms
from gateway.options import Analyze, Options
from gateway.state import Backends, EntityKind, Intent, SearchQuery, SearchState
from tests.processor_time import processor_time_below


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("where is retry defined", Intent.FIND_DEFINITION),
        ("class HttpClient", Intent.FIND_DEFINITION),
        ("HttpClient", Intent.FIND_DEFINITION),
        ("who calls parse_args", Intent.FIND_USAGE),
        ("where is retry used", Intent.FIND_USAGE),
        ("how does the scheduler work", Intent.UNDERSTAND_MODULE),
        ("explain the http module", Intent.UNDERSTAND_MODULE),
        ("code similar to the retry loop", Intent.FIND_SIMILAR),
        ("for (int i = 0; i < n; i++) { sum += a[i]; }", Intent.FIND_SIMILAR),
        ("retry with back-off", Intent.GENERAL),
    ],
)
def test_a_query_has_one_of_five_intents(query, expected):
    assert intent(query, kind(query)) is expected


def test_entities_are_paths_and_names_in_the_order_of_the_query():
    found = entities(
        "why does src/http/client.py call getUser of HttpClient with max_age, Client.get"
    )

    assert [(one.kind, one.text) for one in found] == [
        (EntityKind.PATH, "src/http/client.py"),
        (EntityKind.CAMEL_CASE, "getUser"),
        (EntityKind.PASCAL_CASE, "HttpClient"),
        (EntityKind.SNAKE_CASE, "max_age"),
    ]


@pytest.mark.parametrize("text", ["aA" * 4_096, "a-" * 4_096, "A" * 8_191 + "_", "a/" * 4_096])
def test_hostile_queries_are_analysed_quickly(text):
    with processor_time_below(0.5):
        entities(text)
        intent(text, kind(text))
        literals(text[:1_000])


@pytest.mark.parametrize(
    ("query", "languages", "kinds"),
    [
        ("function that retries a call in python", ("python",), (Kind.FUNCTION, Kind.METHOD)),
        ("which class for sessions", (), (Kind.CLASS, Kind.STRUCT)),
        ("retry using golang.", ("go",), ()),
        ("function call in a loop", (), ()),
        ("read a file in chunks", (), ()),
    ],
)
def test_filters_are_inferred_from_words_and_each_has_a_notice(query, languages, kinds):
    filters, notices = inferred(query, Filters())

    assert (filters.languages, filters.kinds) == (languages, kinds)
    assert len(notices) == bool(languages) + bool(kinds)


def test_a_filter_of_the_request_wins_over_the_words():
    given = Filters(languages=("go",), kinds=(Kind.STRUCT,))

    assert inferred("function that retries in python", given) == (given, ())


def test_each_word_is_in_one_set_of_synonyms():
    words = [word for row in SETS for word in row]

    assert len(SETS) >= 5
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("word", "among"),
    [
        ("api", {"endpoint", "route", "handler", "controller"}),
        ("throw", {"error", "exception", "catch"}),
        ("session", {"login", "token", "authentication"}),
        ("expect", {"test", "assert"}),
    ],
)
def test_words_of_web_code_errors_sessions_and_tests_have_synonyms(word, among):
    assert among <= set(synonyms([word]))


def test_synonyms_are_the_other_words_of_each_set_in_turn():
    found = synonyms(("retry", "login"))

    assert found[:2] == ("backoff", "auth")
    assert not {"retry", "login"} & set(found)
    assert len(synonyms(row[0] for row in SETS)) == MAX_SYNONYMS


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("1. retry loop\n2) call again later\n3. more", ("retry loop", "call again later")),
        ('- "retry loop"\n\n- retry loop', ("retry loop",)),
        ("retry", ()),
        ("", ()),
        ("x" * 1_000, ("x" * MAX_ALTERNATE_CHARS,)),
    ],
)
def test_alternates_are_the_first_two_distinct_lines(answer, expected):
    assert read(answer, but="retry") == expected


async def analysed(backends, text="retry a call", **options):
    query = SearchQuery(text, options=Options(analyze=Analyze(**options)), visible=EVERYTHING)
    return await analyze(SearchState(query), backends)


async def test_without_options_the_analysis_adds_nothing_and_asks_no_model(backends, model):
    state = await analysed(backends, "function that retries in python")

    assert (state.alternates, state.analysis.synonyms, state.notices) == ((), (), ())
    assert state.query.filters == Filters()
    assert model.asked == []


async def test_a_rewrite_sends_a_bounded_query_as_data(backends, model):
    model.answers = ["call again\nback off"]

    state = await analysed(backends, "q" * 8_000, rewrite=True)

    assert [other.text for other in state.alternates] == ["call again", "back off"]
    assert model.asked[0].count("q") < 600
    assert "<query>" in model.asked[0]


@pytest.mark.parametrize("answer", [Unavailable("away"), "", "retry a call"])
async def test_a_model_without_a_usable_answer_leaves_the_query_as_it_is_with_a_notice(
    backends, model, answer
):
    model.answers = [answer]

    state = await analysed(backends, rewrite=True)

    assert (state.alternates, state.notices) == ((), (NO_ANSWER,))


async def test_without_a_model_a_rewrite_is_noticed(chunks, embedder):
    state = await analysed(Backends(chunks, embedder), rewrite=True)

    assert state.notices == (NO_MODEL,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("retry calls", "retry no calls"),
        ("retry calls", "don't retry calls"),
        ("open http_pool", "open tcp_pool"),
        ('find "a b"', 'find "a c"'),
        ("http error 404", "http error 500"),
        ("parse json in python", "parse json in java"),
        ("convert string to int", "convert int to string"),
        ("copy from the cache to a file", "copy to the cache from a file"),
        ("sort ascending by score", "sort descending by score"),
        ("what runs before a request", "what runs after a request"),
    ],
)
def test_queries_that_differ_in_what_they_ask_never_share_a_cached_answer(one, other):
    assert literals(one) != literals(other)


@pytest.mark.parametrize(
    "other", ["How is a call retried?", "where are calls retried", "how to get a call retried"]
)
def test_queries_with_another_word_never_share_a_cached_answer(other):
    assert literals(other) != literals("how to retry a call")


@pytest.mark.parametrize(
    "other", ["How do I retry the call?", "where can we retry a call", "retry call", "Retry a CALL"]
)
def test_the_same_words_in_another_sentence_may_share_a_cached_answer(other):
    assert literals(other) == literals("how to retry a call")
