"""Dictionary encoding finds what its patterns match, in whatever steps texts are added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode import globs
from codelode.backends.local import dictionary as module
from codelode.backends.local.dictionary import Dictionary

NAMES = st.lists(st.text("ab.ß", max_size=4), max_size=3).map("\n".join)


def test_neighbours_that_share_a_line_break_are_both_found():
    dictionary = Dictionary(globs.matches_a_name, globs.name_needles)
    dictionary.encode(["a", "a\nb", "c"])

    assert dictionary.matching(["a"]).tolist() == [True, True, False]


def test_a_glob_with_a_line_break_is_not_matched_across_neighbours():
    dictionary = Dictionary(globs.matches_path, globs.path_needles)
    dictionary.encode(["a", "a\na", "b"])

    assert dictionary.matching(["a\na"]).tolist() == [False, True, False]


PATHS = st.text("a/b.\n", max_size=5)


@pytest.fixture(params=["one by one", "joined"], scope="module", autouse=True)
def way(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "joined":
            patch.setattr(module, "MIN_JOINED", 0)
            patch.setattr(module, "MAX_SHARE", 1.0)
        yield


@given(
    batches=st.lists(st.lists(PATHS, max_size=6), max_size=4),
    patterns=st.lists(st.text("a/b.*?\n", max_size=6), min_size=1, max_size=3),
)
def test_a_glob_matches_the_paths_that_its_matcher_does(batches, patterns):
    dictionary = Dictionary(globs.matches_path, globs.path_needles)
    known: list[str] = []
    for batch in batches:
        known += dict.fromkeys(text for text in batch if text not in known)
        dictionary.encode(batch)

        found = dictionary.matching(patterns).tolist()
        matchers = [globs.matches_path(pattern) for pattern in patterns]
        assert found == [any(matches(text) for matches in matchers) for text in known]


@given(
    batches=st.lists(st.lists(NAMES, max_size=6), max_size=4),
    patterns=st.lists(st.text("ab.ß*?\n", max_size=5), min_size=1, max_size=3),
)
def test_a_pattern_matches_the_texts_that_its_matcher_does(batches, patterns):
    dictionary = Dictionary(globs.matches_a_name, globs.name_needles)
    known: list[str] = []
    for batch in batches:
        known += dict.fromkeys(text for text in batch if text not in known)
        dictionary.encode(batch)

        found = dictionary.matching(patterns).tolist()
        matchers = [globs.matches_a_name(pattern) for pattern in patterns]
        assert found == [any(matches(text) for matches in matchers) for text in known]
