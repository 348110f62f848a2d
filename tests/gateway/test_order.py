"""The steps of ranking that a request can switch on."""

import numpy as np
import pytest

from codelode.access import EVERYTHING
from codelode.backends.models.onnx import OnnxCrossEncoder
from codelode.errors import InvalidSettings, Unavailable
from codelode.model import DEFAULT_REF, Candidate, Category, Edge, EdgeKind, RepositoryName
from gateway.analyze.query import analysis
from gateway.options import Centrality, Fusion, Options, Rank, Ranker, Reranker, Retrieve
from gateway.rank import centrality, fused, rank
from gateway.rank.fused import by_similarity, merged
from gateway.rank.linear import ranked
from gateway.rank.rerank import FALLBACK, grade
from gateway.state import AlternateQuery, Backends, SearchQuery, SearchState
from tests import cross_encoder

HTTP = RepositoryName("acme/http")


@pytest.fixture
def candidate(make_chunk):
    def make(path, content="x", *, keyword=1.0, similarity=0.5, vector=None, **fields):
        return Candidate(make_chunk(path, content, **fields), keyword, similarity, vector)

    return make


def paths(ranking):
    return [place.candidate.chunk.path for place in ranking]


async def ordered(backends, candidates, text="retry", *, top_k=10, retrieve=None, **options):
    chosen = Options(rank=Rank(**options), retrieve=retrieve or Retrieve())
    query = SearchQuery(text, top_k=top_k, options=chosen, visible=EVERYTHING)
    state = SearchState(query, analysis=analysis(text), candidates=tuple(candidates))
    return await rank(state, backends)


# By default


async def test_by_default_only_the_linear_ranker_is_used(backends, candidate, model):
    given = [candidate(f"{n}.py", "retry " * n, keyword=n) for n in range(1, 9)]

    state = await ordered(backends, given)

    assert state.ranking == ranked(analysis("retry"), given)
    assert (state.notices, model.asked) == ((), [])


# Fused


def test_the_definition_boost_doubles_the_score_of_a_keyword_only_hit(candidate):
    """A hit without a cosine still has its symbol, and so its boost."""
    given = [
        candidate("use.py", "HttpClient()", keyword=5.0, similarity=0.9),
        candidate("net.py", "class HttpClient:", symbol="HttpClient", keyword=4.0, similarity=None),
    ]

    found = fused.ranked(analysis("HttpClient"), given)

    assert paths(found) == ["net.py", "use.py"]
    assert dict(zip(found[0].names, found[0].parts, strict=True)) == {
        "rank.fused": pytest.approx(0.7 / 62),
        "rank.boost.definition": 2.0,
    }


def test_a_class_is_boosted_before_the_constructor_of_its_name(candidate):
    given = (
        candidate("Client.java", keyword=2.0, symbol="http.Client.Client", start_line=90),
        candidate("Client.java", keyword=1.9, symbol="http.Client", start_line=10),
    )

    ranking = fused.ranked(analysis("Client"), given)

    assert [place.candidate.chunk.symbol for place in ranking] == [
        "http.Client",
        "http.Client.Client",
    ]


def test_keyword_scores_settle_ties(candidate):
    given = [
        candidate("a.py", keyword=None, similarity=0.9),
        candidate("z.py", keyword=3.0, similarity=None),
    ]

    assert paths(fused.ranked(analysis("some words"), given, alpha=0.5)) == ["z.py", "a.py"]


@pytest.mark.parametrize(
    ("query", "first"), [("retryCall", "words.py"), ("how is it retried", "meaning.py")]
)
def test_names_are_weighed_by_words_and_prose_by_meaning(candidate, query, first):
    given = [
        candidate("words.py", keyword=9.0, similarity=0.1),
        candidate("meaning.py", keyword=1.0, similarity=0.9),
    ]

    assert paths(fused.ranked(analysis(query), given))[0] == first


def test_reciprocal_ranks_are_summed_and_a_missing_score_adds_nothing(candidate):
    given = [
        candidate("both.py", keyword=2.0, similarity=0.1),
        candidate("near.py", keyword=None, similarity=0.2),
        candidate("words.py", keyword=9.0, similarity=None),
    ]

    scores = fused.score(given, fusion=Fusion.RRF, alpha=0.5).tolist()
    assert scores == pytest.approx([0.5 / 62 + 0.5 / 62, 0.5 / 61, 0.5 / 61])


@pytest.mark.parametrize("fusion", Fusion)
@pytest.mark.parametrize(("alpha", "first"), [(0.0, "words.py"), (1.0, "meaning.py")])
def test_alpha_is_the_weight_of_vector_scores(candidate, fusion, alpha, first):
    given = [
        candidate("words.py", keyword=9.0, similarity=0.1),
        candidate("meaning.py", keyword=1.0, similarity=0.9),
    ]

    found = fused.ranked(analysis("a b"), given, fusion=fusion, alpha=alpha)

    assert paths(found)[0] == first


def test_relative_fusion_scales_keyword_and_vector_scores_to_their_range(candidate):
    given = [
        candidate(f"{n}.py", keyword=k, similarity=None) for n, k in enumerate((2.0, 3.0, 6.0))
    ]

    assert fused.score(given, fusion=Fusion.RELATIVE, alpha=0.0).tolist() == [0.0, 0.25, 1.0]


def test_a_single_score_has_the_full_weight(candidate):
    given = [candidate("a.py", keyword=2.0), candidate("b.py", keyword=None, similarity=None)]

    assert fused.score(given, fusion=Fusion.RELATIVE, alpha=0.0).tolist() == [1.0, 0.0]


async def test_the_ranker_is_a_choice_of_the_request(backends, candidate):
    given = [candidate("a.py"), candidate("b.py", keyword=2.0)]

    state = await ordered(backends, given, ranker=Ranker.FUSED)

    assert state.ranking[0].names[0] == "rank.fused"


# Alternate queries


def test_rankings_of_alternate_queries_merge_by_the_sum_of_reciprocal_ranks(candidate):
    one, two, three = (candidate(f"{n}.py", keyword=n) for n in (1, 2, 3))
    first, second = ranked(analysis("q"), [one]), ranked(analysis("q"), [two])

    found = merged([by_similarity([one, two]), by_similarity([two, three]), first, second])

    assert paths(found)[0] == "2.py"
    assert found[0].parts == pytest.approx((1 / 62, 1 / 61, 0, 1 / 61))
    assert found[0].score == pytest.approx(sum(found[0].parts))
    assert sorted(paths(found)) == ["1.py", "2.py", "3.py"]


# The gate


async def test_below_the_confidence_threshold_the_search_abstains(backends, candidate):
    state = await ordered(backends, [candidate("a.py", similarity=0.4)], confidence=0.5)

    assert (state.has_abstained, state.ranking) == (True, ())
    assert "0.40" in state.remarks[0]


async def test_the_gate_compares_cosines_and_not_scores(backends, candidate):
    """Scores are relative to the candidates, and a fused score is at most 0.033."""
    given = [candidate("a.py", similarity=0.51), candidate("b.py", similarity=0.1)]

    state = await ordered(backends, given, confidence=0.5, ranker=Ranker.FUSED)

    assert not state.has_abstained
    assert state.ranking[0].score < 0.033
    assert paths(state.ranking) == ["a.py", "b.py"]


async def test_without_vectors_the_gate_stays_open_and_a_notice_is_added(backends, candidate):
    state = await ordered(backends, [candidate("a.py", similarity=None)], confidence=0.5)

    assert not state.has_abstained
    assert "confidence was not checked" in state.notices[0]


async def test_the_result_of_an_alternate_query_can_prevent_abstention(backends, candidate):
    found = AlternateQuery("q", analysis("q"), (candidate("b.py", similarity=0.8),))
    query = SearchQuery("q", options=Options(rank=Rank(confidence=0.5)), visible=EVERYTHING)
    state = SearchState(query, analysis("q"), (found,), (candidate("a.py", similarity=0.1),))

    assert not (await rank(state, backends)).has_abstained


# Duplicates


def vector(*values):
    return np.array(values, np.float32)


async def test_near_duplicates_collapse_under_the_better_one(backends, candidate):
    given = [
        candidate("a.py", "retry one", keyword=9.0, vector=vector(1, 0)),
        candidate("b.py", "retry two", keyword=5.0, vector=vector(0.99, 0.1)),
        candidate("c.py", "retry three", keyword=4.0, vector=vector(0, 1)),
    ]

    state = await ordered(backends, given, duplicate_similarity=0.92)

    assert paths(state.ranking) == ["a.py", "c.py"]
    [left_out] = state.duplicates
    assert (left_out.chunk.path, left_out.of) == ("b.py", given[0].chunk.id)
    assert left_out.similarity == pytest.approx(0.995, abs=0.001)


async def test_equal_texts_collapse_without_vectors(backends, candidate):
    given = [
        candidate("a.py", "def retry():\n  pass", keyword=9.0),
        candidate("b.py", "def retry():\n    pass\n", keyword=5.0),
    ]

    state = await ordered(backends, given, duplicate_similarity=0.92)

    assert len(state.ranking) == 1
    assert state.duplicates[0].similarity == 1.0


async def test_only_all_copies_are_compared_across_repositories(backends, candidate):
    """Otherwise a near-duplicate in another repository is a copy, or a hit of its own."""
    given = [
        candidate("a.py", "retry one", keyword=9.0, vector=vector(1, 0)),
        candidate("b.py", "retry two", vector=vector(1, 0), repository="acme/fork"),
    ]

    apart = await ordered(backends, given, duplicate_similarity=0.92)
    together = await ordered(backends, given, duplicate_similarity=0.92, collapse_copies=False)

    assert (len(apart.ranking), apart.duplicates) == (2, ())
    assert (len(together.ranking), len(together.duplicates)) == (1, 1)


async def test_texts_with_only_an_equal_beginning_are_not_duplicates(backends, candidate):
    given = [candidate(f"{n}.py", f"def retry ( call{n} ): ...") for n in range(3)]

    state = await ordered(backends, given, duplicate_similarity=0.92)

    assert (len(state.ranking), state.duplicates) == (3, ())


async def test_duplicates_stay_if_collapsing_is_off(backends, candidate):
    given = [candidate(f"{n}.py", "retry", vector=vector(1, 0)) for n in range(3)]

    assert len((await ordered(backends, given)).ranking) == 3


# Centrality


def imports(*pairs):
    edges = {}
    for source, target in pairs:
        edges.setdefault(source, []).append(Edge(source, target, EdgeKind.IMPORTS))
    return edges


def hub(path, count):
    return [(f"user{n}.py", path) for n in range(count)]


@pytest.mark.parametrize("mix", [Centrality.RRF, Centrality.BLEND])
async def test_a_file_that_many_import_rises(backends, graph, candidate, mix):
    middle = [f"middle{n}.py" for n in range(10)]
    known = [(path, f"{path}{n}") for path in middle for n in range(3)]
    graph.replace(HTTP, [DEFAULT_REF], imports(*hub("hub.py", 40), *known))
    given = [
        candidate("leaf.py", "retry", keyword=5.001),
        candidate("hub.py", "retry", keyword=5.0),
        *(candidate(path, "retry", keyword=1.0) for path in middle),
    ]

    state = await ordered(backends, given, centrality=mix)

    assert paths((await ordered(backends, given)).ranking)[:2] == ["leaf.py", "hub.py"]
    assert paths(state.ranking)[0] == "hub.py"
    assert "rank.centrality" in state.ranking[0].names


@pytest.mark.parametrize("mix", [Centrality.RRF, Centrality.BLEND])
async def test_a_low_ranked_file_does_not_rise_because_of_its_importers(
    backends, graph, candidate, mix
):
    graph.replace(
        HTTP,
        [DEFAULT_REF],
        imports(*hub("hub.py", 40), *((f"{n}.py", f"x{n}.py") for n in range(9))),
    )
    given = [candidate(f"{n}.py", "retry", keyword=9.0 - n) for n in range(4)]
    given.append(candidate("hub.py", "nothing of it", keyword=0.1, similarity=0.0))

    state = await ordered(backends, given, top_k=2, centrality=mix)

    assert paths(state.ranking)[-1] == "hub.py"
    scores = [place.score for place in state.ranking]
    assert scores == sorted(scores, reverse=True)


def test_centrality_by_rank_has_half_the_weight_of_the_ranking(candidate):
    ranking = by_similarity([candidate("a.py", similarity=0.9), candidate("b.py", similarity=0.1)])

    found = centrality.fused(ranking, {(HTTP, "a.py"): 1, (HTTP, "b.py"): 30})

    assert [place.score for place in found] == pytest.approx([1 / 61 + 0.5 / 62, 1 / 62 + 0.5 / 61])


def test_blended_centrality_weighs_similarity_six_to_four(candidate):
    ranking = by_similarity([candidate("a.py", similarity=0.9), candidate("b.py", similarity=0.1)])

    found = centrality.blended(ranking, {(HTTP, "a.py"): 3, (HTTP, "b.py"): 30})

    assert [place.score for place in found] == pytest.approx([0.6 + 0.4 * 0.1, 0.4])


async def test_on_a_sparse_graph_centrality_is_off_and_a_notice_is_added(
    backends, graph, candidate
):
    graph.replace(HTTP, [DEFAULT_REF], imports(("a.py", "b.py")))
    given = [candidate("a.py", keyword=2.0), candidate("b.py")]

    state = await ordered(backends, given, centrality=Centrality.RRF)

    assert state.ranking == (await ordered(backends, given)).ranking
    assert "1.0 links" in state.remarks[0]


async def test_without_a_graph_centrality_is_noticed(chunks, embedder, candidate):
    state = await ordered(
        Backends(chunks, embedder), [candidate("a.py")], centrality=Centrality.RRF
    )

    assert state.notices == (centrality.NO_GRAPH,)


async def test_the_paths_of_another_repository_are_other_files(backends, graph, candidate):
    """The graph is read by repository and path; a path alone would match other repositories."""
    graph.replace(RepositoryName("acme/other"), [DEFAULT_REF], imports(*hub("a.py", 40)))

    state = await ordered(backends, [candidate("a.py")], centrality=Centrality.RRF)

    assert "0.0 links" in state.remarks[0]


# The judge


async def test_the_judge_orders_twice_as_many_candidates_as_are_wanted(backends, model, candidate):
    given = [candidate(f"{n}.py", f"retry {n}", keyword=10 - n) for n in range(6)]
    model.answers = [lambda prompt: "90" if "3.py" in prompt else "10"]

    state = await ordered(backends, given, top_k=2, reranker=Reranker.JUDGE)

    assert len(model.asked) == 4
    assert paths(state.ranking)[0] == "3.py"
    assert (
        dict(zip(state.ranking[0].names, state.ranking[0].parts, strict=True))["rank.judge"] == 90
    )
    scores = [place.score for place in state.ranking]
    assert scores == sorted(scores, reverse=True)
    assert len(state.ranking) == 6


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("85", 85),
        ("Score: 7/100", 7),
        ("100", 100),
        ("0", 0),
        ("101", None),
        ("-5", None),
        ("very well", None),
        ("1000", None),
        ("", None),
    ],
)
def test_a_grade_is_a_number_from_0_to_100(answer, expected):
    assert grade(answer) == expected


async def test_an_answer_that_is_not_a_number_counts_as_50(backends, model, candidate):
    model.answers = [lambda prompt: "fine" if "a.py" in prompt else "20"]

    state = await ordered(
        backends, [candidate("a.py"), candidate("b.py", keyword=9.0)], reranker=Reranker.JUDGE
    )

    assert [place.score for place in state.ranking] == [FALLBACK, 20]
    assert "1 of 2" in state.notices[0]


async def test_a_judge_that_cannot_be_reached_is_an_error_at_the_first_call(
    backends, model, candidate
):
    model.answers = [Unavailable("the model does not answer")]

    with pytest.raises(Unavailable):
        await ordered(backends, [candidate(f"{n}.py") for n in range(9)], reranker=Reranker.JUDGE)

    assert len(model.asked) == 1


async def test_a_judge_that_fails_later_gives_a_grade_of_50(backends, model, candidate):
    model.answers = ["80", Unavailable("gone")]
    given = [candidate("a.py", keyword=9.0), candidate("b.py")]

    state = await ordered(backends, given, reranker=Reranker.JUDGE)

    assert sorted(place.score for place in state.ranking) == [50, 80]


async def test_a_judge_without_a_language_model_is_an_error(chunks, embedder, candidate):
    with pytest.raises(Unavailable, match="CODELODE_LANGUAGE_MODEL"):
        await ordered(Backends(chunks, embedder), [candidate("a.py")], reranker=Reranker.JUDGE)


# The cross-encoder


class Lengths:
    """Score longer texts higher."""

    identity = "lengths"

    def scores(self, query, texts):
        return [min(1.0, len(text) / 1_000) for text in texts]


async def test_the_cross_encoder_orders_the_best_candidates(chunks, embedder, candidate):
    backends = Backends(chunks, embedder, cross_encoder=Lengths())
    given = [candidate("a.py", "x", keyword=9.0), candidate("b.py", "x" * 500)]

    state = await ordered(backends, given, reranker=Reranker.CROSS_ENCODER)

    assert paths(state.ranking) == ["b.py", "a.py"]


async def test_an_onnx_model_reads_query_and_code_together(chunks, embedder, candidate, tmp_path):
    model = OnnxCrossEncoder(cross_encoder.write(tmp_path, ("open", "session", "close", "pool")))
    given = [
        candidate("a.py", "close pool", keyword=9.0, similarity=0.9),
        candidate("b.py", "open session pool", keyword=1.0, similarity=0.1),
        candidate("c.py", "session", keyword=5.0),
    ]

    state = await ordered(
        Backends(chunks, embedder, cross_encoder=model),
        given,
        "open session",
        reranker=Reranker.CROSS_ENCODER,
    )

    assert paths(state.ranking) == ["b.py", "c.py", "a.py"]
    assert state.notices == ()


class Missing:
    identity = "missing"

    def scores(self, query, texts):
        raise InvalidSettings("the package is missing")


@pytest.mark.parametrize("encoder", [None, Missing()], ids=["not configured", "not installed"])
async def test_without_the_cross_encoder_the_order_stays_and_a_notice_is_added(
    chunks, embedder, candidate, encoder
):
    backends = Backends(chunks, embedder, cross_encoder=encoder)
    given = [candidate("a.py", keyword=9.0), candidate("b.py", category=Category.DOCS)]

    state = await ordered(backends, given, reranker=Reranker.CROSS_ENCODER)

    assert state.ranking == ranked(analysis("retry"), given)
    assert "not reranked" in state.notices[0]
