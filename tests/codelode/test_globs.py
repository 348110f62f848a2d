"""Globs mean what a naive translation says, and never take more than linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode import globs
from codelode.errors import InvalidQuery
from tests.processor_time import processor_time_below

PATH_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
NAME_WILDCARDS = {"*": "[^\n]*", "?": "[^\n]"}

GLOB = st.text("ab/*?.", max_size=9)
PATH = st.text("ab/.", max_size=9)


def matches(glob, text, wildcards):
    """Match by the naive translation, which backtracks."""
    parts = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", glob)
    expression = "".join(wildcards.get(part) or re.escape(part) for part in parts)
    return re.fullmatch(expression, text, re.DOTALL) is not None


@given(glob=GLOB, path=PATH)
def test_a_path_glob_matches_as_defined(glob, path):
    assert globs.matches_path(glob)(path) == matches(glob, path, PATH_WILDCARDS)


@given(glob=GLOB, names=st.lists(st.text("ab/.", min_size=1, max_size=6), max_size=3))
def test_a_name_glob_matches_one_of_several_names_as_defined(glob, names):
    single = re.sub(r"\*+", "*", glob)
    expected = any(matches(single, name, NAME_WILDCARDS) for name in names)
    assert globs.matches_a_name(glob)("\n".join(names)) == expected


@pytest.mark.parametrize(
    "glob", ["*a" * 20 + "b", "**a" * 20 + "b", "**/a*" * 20 + "b", "a?*" * 20 + "b"]
)
def test_hostile_globs_take_no_longer_than_others(glob):
    """Backtracking over every wildcard would take years."""
    with processor_time_below(1):
        assert not globs.matches_path(glob)("a" * 200)
        assert not globs.matches_a_name(glob)("\n".join(["a" * 200] * 10))


def test_a_glob_with_too_many_interpretations_is_refused():
    with pytest.raises(InvalidQuery, match=r"filters\.paths"):
        globs.matches_path("a**/" * 20)
