"""Dictionary encoding finds what its patterns match, in whatever steps texts are added."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codelode import globs
from codelode.backends.local.dictionary import Dictionary

NAMES = st.lists(st.text("ab.ß", max_size=4), max_size=3).map("\n".join)


@given(
    batches=st.lists(st.lists(NAMES, max_size=6), max_size=4),
    patterns=st.lists(st.text("ab.ß*?", max_size=5), min_size=1, max_size=3),
)
def test_a_pattern_matches_the_texts_that_its_matcher_does(batches, patterns):
    dictionary = Dictionary(globs.matches_a_name, globs.name_needle)
    known: list[str] = []
    for batch in batches:
        known += dict.fromkeys(text for text in batch if text not in known)
        dictionary.encode(batch)

        found = dictionary.matching(patterns).tolist()
        matchers = [globs.matches_a_name(pattern) for pattern in patterns]
        assert found == [any(matches(text) for matches in matchers) for text in known]
