"""The fields in a message of the gateway are written as the face that shows it names them."""

from __future__ import annotations

import pytest

from codelode.text.fields import reworded

NAMES = {"limit": "--limit", "filters.paths": "--path"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raise `limit`, or `limit` again", "raise --limit, or --limit again"),
        ("filters.paths: 'x' matches nothing", "--path: 'x' matches nothing"),
        ("see filters.paths: it is text here", "see filters.paths: it is text here"),
        ("the limit is 3; see `codelode grep`", "the limit is 3; see `codelode grep`"),
        ("allow `multiline`; filters.kinds: no", "allow `multiline`; filters.kinds: no"),
        ("filters.kinds: has no name here", "filters.kinds: has no name here"),
    ],
)
def test_fields_have_the_names_of_the_face_and_other_words_stay(text, expected):
    assert reworded(text, lambda field: NAMES.get(field, "")) == expected
