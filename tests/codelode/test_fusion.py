"""Candidates are chosen by their ranks in both result lists, and by their category."""

from __future__ import annotations

from codelode.fusion import shortlist


def short(*sides, most, secondary=()):
    return shortlist([side.split() for side in sides], most, is_secondary=lambda k: k in secondary)


def test_without_a_limit_every_item_is_kept_once():
    assert short("a b", "b c", most=None) == ["a", "b", "c"]
    assert short("a b", "b c", most=3) == ["a", "b", "c"]


def test_items_in_both_rankings_come_before_the_best_of_one():
    assert short("a both", "b both", most=1) == ["both"]


def test_a_secondary_item_must_be_the_best_of_both_rankings():
    keyword, near = "best-test test code more-code", "best-test code more-code"
    tests = ("best-test", "test")

    assert short(keyword, near, most=3) == ["best-test", "code", "more-code"]
    assert short(keyword, near, most=3, secondary=tests) == ["code", "more-code", "best-test"]
    assert short("best-test x", "best-test y", most=1, secondary=tests) == ["best-test"]


def test_with_one_ranking_the_best_secondary_item_is_still_kept():
    code = [f"code{number}" for number in range(90)]
    found = short(" ".join(("test", *code)), "", most=72, secondary=("test",))

    assert found[:60] == code[:60]
    assert "test" in found
