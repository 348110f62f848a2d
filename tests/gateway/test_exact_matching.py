"""Lines that match, with their marks, equal those that Python's own engine finds line by line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.errors import InvalidQuery
from gateway.exact.matching import MAX_LINE_CHARS, MAX_SPANS, lines, matching
from gateway.exact.pattern import MAX_CHARS, MAX_INSTRUCTIONS, Wanted, compiled


def found(pattern, text, *, before=0, after=0, **options):
    """Return the lines as `number sign text`."""
    raw = text.encode()
    matched = list(matching(compiled(Wanted(pattern, **options)), raw))
    return lines(raw, matched, before=before, after=after)


def shown(*args, **options):
    return [
        f"{one.number}{':' if one.is_match else '-'}{one.text}" for one in found(*args, **options)
    ]


def marked(line):
    return [line.text[span.start : span.end] for span in line.spans]


TEXT = "alpha Beta\n\nbeta_gamma beta\n  délta beta.\nend\n"


@pytest.mark.parametrize(
    ("pattern", "options", "expected"),
    [
        ("beta", {}, [3, 4]),
        ("beta", {"ignores_case": True}, [1, 3, 4]),
        ("beta", {"whole_words": True, "ignores_case": True}, [1, 3, 4]),
        ("gamma", {"whole_words": True}, []),
        ("beta.", {"is_literal": True}, [4]),
        ("^b", {}, [3]),
        ("a$", {"ignores_case": True}, [1, 3]),
        ("^$", {}, [2]),
        (r"\s+d\S+a", {}, [4]),
        ("a[^x]*b", {}, [3, 4]),
        ("Beta\\n\\n", {"multiline": True}, [1, 2]),
        ("(?s)Beta.*delta", {"multiline": True}, []),
        ("(?s)Beta.*délta", {"multiline": True}, [1, 2, 3, 4]),
        ("end|alpha", {}, [1, 5]),
        ("", {"is_literal": True}, None),
        ("x*", {}, [1, 2, 3, 4, 5]),
    ],
)
def test_the_matching_lines_are_found(pattern, options, expected):
    if expected is None:
        with pytest.raises(InvalidQuery, match="is empty"):
            found(pattern, TEXT, **options)
        return
    assert [one.number for one in found(pattern, TEXT, **options)] == expected


def test_lines_around_a_match_are_shown_once():
    text = "".join(f"line {number}\n" for number in range(1, 10))

    assert shown("3|4|9", text, before=1, after=1) == [
        *("2-line 2", "3:line 3", "4:line 4", "5-line 5", "8-line 8", "9:line 9")
    ]


def test_matches_are_marked_by_characters():
    (line,) = found("é+|ü", "aéé ü\n")

    assert marked(line) == ["éé", "ü"]
    assert [(span.start, span.end) for span in line.spans] == [(1, 3), (4, 5)]


def test_a_match_of_several_lines_is_marked_in_each():
    assert [marked(line) for line in found("b\\nc", "ab\ncd\n", multiline=True)] == [["b"], ["c"]]


def test_long_lines_are_cut_and_marks_are_bounded():
    (line,) = found("ab", "ab" * MAX_LINE_CHARS)

    assert (len(line.text), line.truncated, len(line.spans)) == (
        MAX_LINE_CHARS,
        True,
        MAX_SPANS + 1,
    )


WORDS = st.sampled_from(["a", "ab", "b", "ba", "é", " ", "\n", "\n\n", "x", "ax"])


@given(
    text=st.lists(WORDS, max_size=30).map("".join),
    pattern=st.sampled_from(
        ["a", "ab?", "a+b", "[^a]b", "^a", "b$", r"\ba", "é|x", "(a|x)b*", "b "]
    ),
)
def test_each_line_matches_as_if_it_was_searched_alone(text, pattern):
    """As in grep, an empty last line does not count as a line."""
    expected = {
        number: [one.group() for one in re.finditer(pattern, line, re.ASCII) if one.group()]
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1)
        if re.search(pattern, line, re.ASCII)
    }

    assert {one.number: marked(one) for one in found(pattern, text)} == expected


@given(
    text=st.lists(WORDS, max_size=30).map("".join),
    pattern=st.sampled_from(["a", "ab", "aa", "é", " ", "b\n", "\n\n", "a\nb", "x a"]),
    around=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_a_literal_finds_the_same_lines_as_the_equal_expression(text, pattern, around):
    before, after = around
    how = {"before": before, "after": after, "multiline": True}

    assert found(pattern, text, **how, is_literal=True) == found(f"(?:{pattern})", text, **how)
    assert found(pattern, text, **how) == found(f"(?:{pattern})", text, **how)


@given(
    text=st.lists(WORDS, max_size=30).map("".join),
    around=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_the_lines_around_matches_are_those_of_the_file(text, around):
    before, after = around
    all_lines = dict(enumerate(text.removesuffix("\n").split("\n"), 1))
    matched = [number for number, line in all_lines.items() if "ab" in line]
    expected = {
        near: all_lines[near]
        for number in matched
        for near in range(number - before, number + after + 1)
        if near in all_lines
    }

    shown = found("ab", text, before=before, after=after)
    assert [(one.number, one.text) for one in shown] == sorted(expected.items())
    assert [one.number for one in shown if one.is_match] == matched


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(", "missing ): (; to find the pattern as it is written, use `literal`"),
        ("a(?=b)", "look-around and backreferences are not possible"),
        (r"(a)\1", "invalid escape sequence"),
        ("*", "no argument for repetition"),
        ("a" * (MAX_CHARS + 1), "at most 1,000"),
        (r"\pL{40}", f"at most {MAX_INSTRUCTIONS:,}"),
        ("(a{1000}){1000}", "repetition size"),
        ("(a{100}){19}", "inside each other multiplied, is at most 1,000: repeat less"),
        ("a\nb", "allow `multiline`"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_a_remedy(pattern, told):
    with pytest.raises(InvalidQuery, match=r"^pattern") as refused:
        compiled(Wanted(pattern))
    assert told in str(refused.value)
    assert "(?m)" not in str(refused.value)
