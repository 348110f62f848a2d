"""Columns are counted as a terminal draws the text."""

from __future__ import annotations

import pytest

from codelode.text.columns import cells, prefix


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param("abc", 3, id="ascii"),
        pytest.param("漢字", 4, id="ideographs"),
        pytest.param("e\u0301", 1, id="accent"),
        pytest.param("न\u0941", 1, id="vowel sign of combining class 0"),
        pytest.param("a\u20dd", 1, id="enclosing circle"),
        pytest.param("a\u200bb", 2, id="zero-width space"),
        pytest.param("a\u200db", 2, id="zero-width joiner"),
        pytest.param("❤\ufe0f", 1, id="variation selector"),
    ],
)
def test_marks_and_format_characters_take_no_column(text, columns):
    assert cells(text) == columns


def test_a_prefix_keeps_the_marks_of_its_last_character():
    assert prefix("न\u0941न\u0941न\u0941", 2) == "न\u0941न\u0941"
