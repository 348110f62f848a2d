"""Counts agree with their nouns."""

from __future__ import annotations

import pytest

from codelode.counts import counted, plural


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "file", "0 files"),
        (1, "file", "1 file"),
        (2, "repository", "2 repositories"),
        (1, "summary", "1 summary"),
        (2, "day", "2 days"),
        (1204, "chunk", "1,204 chunks"),
    ],
)
def test_a_noun_agrees_with_its_count(count, noun, text):
    assert counted(count, noun) == text
    assert text.endswith(f" {plural(count, noun)}")
