"""A visibility is a value that holds names of repositories, and a principal has one."""

from __future__ import annotations

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.covers import Known


def test_a_visibility_holds_its_names_and_nothing_else():
    some = Visibility.of(["b", "a"])

    assert "a" in some
    assert "c" not in some
    assert "c" in EVERYTHING
    assert "a" not in Visibility.of([])


@pytest.mark.parametrize(
    ("visible", "named", "expected"),
    [
        (EVERYTHING, (), None),
        (EVERYTHING, ("a",), ("a",)),
        (Visibility.of(["b", "a"]), (), ("a", "b")),
        (Visibility.of(["b", "a"]), ("c", "b"), ("b",)),
        (Visibility.of(["a"]), ("c",), ()),
        (Visibility.of([]), (), ()),
    ],
)
def test_among_keeps_only_visible_names(visible, named, expected):
    assert visible.among(named) == expected


def test_equal_visibilities_share_a_digest_and_others_do_not():
    some = [EVERYTHING, *(Visibility.of(names) for names in ([], ["a"], ["a", "b"], ["*"], [""]))]

    assert len({one.digest for one in some}) == len(set(some)) == len(some)
    assert Visibility.of(["b", "a"]).digest == Visibility.of(["a", "b", "a"]).digest


def test_the_cover_of_a_visibility_is_made_of_what_was_known():
    names, all = [f"a/{n}" for n in range(9)], [f"a/{n}" for n in range(10)]
    seen = Visibility.of(names, known=Known(frozenset(all)))
    assert seen.cover() == (("a/",), (), ("a/9",))
    assert seen == Visibility.of(names)
    assert seen.only(all).cover() == seen.cover()
    assert seen.only(all).cover() is seen.only(all).cover()  # computed once
    assert [one.cover() for one in (EVERYTHING, Visibility.of(names))] == [None, None]


def test_a_principal_without_a_visibility_cannot_be_built():
    with pytest.raises(TypeError):
        Principal("somebody", Role.READER)  # type: ignore[call-arg]
