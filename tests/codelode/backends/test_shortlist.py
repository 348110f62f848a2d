"""Which candidates are worth reading: what the two sides say of them, and what they are."""

from __future__ import annotations

from codelode.backends.shortlist import shortlist


def short(keyword=(), near=(), *, most, secondary=()):
    return shortlist(dict(keyword), dict(near), most, is_secondary=lambda key: key in secondary)


def test_without_a_bound_everything_is_worth_reading_once():
    assert short({"a": 2.0, "b": 1.0}, {"b": 0.9, "c": 0.1}, most=None) == ["a", "b", "c"]
    assert short({"a": 2.0, "b": 1.0}, {"b": 0.9, "c": 0.1}, most=3) == ["a", "b", "c"]


def test_scores_decide_and_not_ranks():
    keyword = {"far ahead": 20.0, "second": 3.0, "third": 2.9, "last": 0.1}
    near = {"nearest": 0.9, "third": 0.31, "second": 0.3}

    assert short(keyword, near, most=2) == ["far ahead", "nearest"]


def test_both_sides_count_alike_whatever_their_scales():
    keyword, near = {"w": 8.0, "both": 6.0, "v": 2.0}, {"n": 0.9, "both": 0.8, "m": 0.5}
    rough = {key: 1_000 * score for key, score in near.items()}

    assert short(keyword, near, most=1) == short(keyword, rough, most=1) == ["both"]


def test_something_secondary_must_be_the_best_of_both_sides():
    keyword = {"best test": 9.0, "test": 8.0, "code": 2.0, "more code": 1.0}
    near = {"best test": 0.9, "code": 0.2, "more code": 0.1}
    tests = ("best test", "test")

    assert short(keyword, near, most=3) == ["best test", "test", "code"]
    assert short(keyword, near, most=3, secondary=tests) == ["best test", "code", "more code"]


def test_one_side_alone_is_enough():
    assert short(keyword={"a": 3.0, "b": 2.0, "c": 1.0}, most=2) == ["a", "b"]
    assert short(near={"a": 0.3, "b": 0.2, "c": -0.1}, most=2) == ["a", "b"]
    assert short(near={"a": 0.3, "b": 0.3}, most=1) == ["a"]
