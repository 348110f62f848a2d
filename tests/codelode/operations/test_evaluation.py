import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.operations.evaluation.metrics import (
    Judged,
    SourceLocation,
    average_precision,
    macro_mean,
    macro_means,
    ndcg_at_k,
    percentile,
    precision_at_k,
    recall_at_k,
    reciprocal_rank,
    target_ranks,
)

SECOND = 1 / math.log2(3)
RANKS = st.lists(st.none() | st.integers(1, 30), min_size=1, max_size=12)


def places(*paths):
    return [SourceLocation(path) for path in paths]


def ndcg(hits, targets):
    return ndcg_at_k(target_ranks(hits, targets))


def test_targets_ranked_first_score_one_in_any_order():
    assert ndcg(places("b", "a"), places("a", "b")) == pytest.approx(1)


def test_a_single_target_is_discounted_by_the_logarithm_of_its_rank():
    assert ndcg(places("x", "a"), places("a")) == pytest.approx(SECOND)
    assert ndcg(places("x", "y", "a"), places("a")) == pytest.approx(0.5)


def test_a_missed_target_lowers_the_score_of_a_found_one():
    assert ndcg(places("a"), places("a", "b")) == pytest.approx(1 / (1 + SECOND))


def test_repeated_chunks_of_a_file_take_up_ranks():
    hits = [SourceLocation("x", 1, 9), SourceLocation("x", 10, 20), SourceLocation("a", 1, 5)]
    assert ndcg(hits, places("a")) == pytest.approx(0.5)


def test_a_second_hit_on_a_found_target_gains_nothing():
    assert ndcg(places("a", "a", "b"), places("a", "b")) == pytest.approx((1 + 0.5) / (1 + SECOND))


def test_two_targets_under_one_hit_count_as_one_gain():
    hits = [SourceLocation("a", 1, 50)]
    assert ndcg(hits, [SourceLocation("a", 1, 5), SourceLocation("a", 40, 45)]) == pytest.approx(
        1 / (1 + SECOND)
    )


def test_a_target_with_lines_needs_a_chunk_that_shares_one():
    target = [SourceLocation("a", 10, 20)]
    assert target_ranks([SourceLocation("a", 1, 9), SourceLocation("a", 20, 30)], target) == (2,)
    assert target_ranks([SourceLocation("a", 21, 30)], target) == (None,)
    assert target_ranks([SourceLocation("a", 12, 13)], target) == (1,)


def test_a_hit_without_lines_covers_the_whole_file():
    assert target_ranks(places("a"), [SourceLocation("a", 10, 20)]) == (1,)


def test_a_target_at_rank_eleven_counts_as_missed():
    hits = places(*(f"x{i}" for i in range(10)), "a")
    for metric in (ndcg_at_k, reciprocal_rank, precision_at_k, recall_at_k, average_precision):
        assert metric(target_ranks(hits, places("a"))) == 0


def test_more_targets_than_places_can_still_score_one():
    paths = [f"f{i}" for i in range(12)]
    ranks = target_ranks(places(*paths[:10]), places(*paths))
    assert ndcg_at_k(ranks) == pytest.approx(1)
    assert average_precision(ranks) == pytest.approx(1)
    assert recall_at_k(ranks) == pytest.approx(10 / 12)


def test_the_other_metrics_have_their_known_values():
    ranks = target_ranks(places("x", "a", "y", "b"), places("a", "b", "c"))
    assert ranks == (2, 4, None)
    assert reciprocal_rank(ranks) == pytest.approx(1 / 2)
    assert precision_at_k(ranks, k=4) == pytest.approx(2 / 4)
    assert recall_at_k(ranks, k=4) == pytest.approx(2 / 3)
    assert average_precision(ranks) == pytest.approx((1 / 2 + 2 / 4) / 3)


def test_a_query_without_targets_scores_zero():
    assert [metric(()) for metric in (ndcg_at_k, recall_at_k, average_precision)] == [0, 0, 0]


@given(RANKS)
def test_every_metric_stays_between_zero_and_one(ranks):
    for metric in (ndcg_at_k, reciprocal_rank, precision_at_k, recall_at_k, average_precision):
        assert 0 <= metric(ranks) <= 1 + 1e-12


@given(RANKS, st.integers(0, 11))
def test_ndcg_never_falls_when_a_missed_target_is_found(ranks, index):
    index %= len(ranks)
    free = min(set(range(1, 32)) - {rank for rank in ranks if rank is not None})
    missed = [*ranks[:index], None, *ranks[index + 1 :]]
    found = [*ranks[:index], free, *ranks[index + 1 :]]
    assert ndcg_at_k(found) >= ndcg_at_k(missed)


def test_every_repository_has_the_same_weight_for_any_number_of_queries():
    judged = [Judged("big", "symbol", "go", 0.0)] * 3 + [Judged("small", "symbol", "c", 1.0)]
    assert macro_mean(judged) == 0.5


def test_a_category_is_averaged_over_the_repositories_that_have_it():
    judged = [
        Judged("p", "symbol", "go", 1.0),
        Judged("p", "semantic", "go", 0.0),
        Judged("q", "semantic", "c", 1.0),
    ]
    assert macro_means(judged, by="category") == {"semantic": 0.5, "symbol": 1.0}
    assert macro_means(judged, by="language") == {"c": 1.0, "go": 0.5}


def test_the_mean_of_no_queries_is_nan():
    assert math.isnan(macro_mean([]))


def test_percentiles_are_values_of_the_list():
    values = [float(i) for i in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (
        50,
        99,
        100,
    )
    assert percentile([7.0], 1) == 7
    assert math.isnan(percentile([], 50))
