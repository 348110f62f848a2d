"""Every text that a pattern matches has the trigrams that the pattern is said to need."""

from __future__ import annotations

import re

import pytest
import re2
from hypothesis import assume, example, given
from hypothesis import strategies as st

from codelode import grams
from codelode.grams import NOTHING, AllOf, AnyOf
from gateway.exact.needs import MAX_CHARS, MAX_DEPTH, of_expression


def needed(expression, *, ignores_case=False):
    return of_expression(expression, ignores_case=ignores_case)


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("Hello", ["hello"]),
        (r"foo\.bar\(", ["foo.bar("]),
        ("foo.*bar", ["foo", "bar"]),
        ("(?:foo){2}", ["foofoo"]),
        ("(foo)+bar", ["foo", "bar"]),
        ("foo[^x]bar", ["foo", "bar"]),
        (r"foo\dbar", ["foo", "bar"]),
        (r"\Qa.b(c\Ed", ["a.b(cd"]),
        (r"a\x62c\x{64}\145", ["abcde"]),
        ("(?i)straße", ["stra"]),
        (r"\bword\b", ["word"]),
        ("tab\\tend", ["tab\tend"]),
        ("[f]oo[[:space:]]bar", ["foo", "bar"]),
        ("gr{1}een", ["green"]),
        ("x{,3}yz", ["x{,3}yz"]),
        ("(?P<name>abc)def", ["abcdef"]),
        ("a" * (MAX_CHARS + 50), ["aaa"]),
    ],
)
def test_texts_that_every_match_contains_are_needed(expression, texts):
    assert needed(expression) == grams.all_of(map(grams.of_text, texts))


@pytest.mark.parametrize(
    ("expression", "alternatives"),
    [
        ("foo|bar", ["foo", "bar"]),
        ("^import (os|sys)$", ["import os", "import sys"]),
        ("foo(bar)?baz", ["foobarbaz", "foobaz"]),
        ("(foo|bar)d", ["food", "bard"]),
        ("x[abc]yz", ["xayz", "xbyz", "xcyz"]),
        ("colou?r", ["color", "colour"]),
        ("ab(c|d)?ef", ["abef", "abcef", "abdef"]),
    ],
)
def test_alternatives_need_the_trigrams_of_any_one_of_them(expression, alternatives):
    assert needed(expression) == grams.any_of(map(grams.of_text, sorted(alternatives)))


@pytest.mark.parametrize(
    "expression",
    [
        *(
            ".",
            "a|b",
            "foo|b",
            "(foo)*",
            "(foo)?",
            r"\w+",
            "ab",
            "x*",
            "(foo|)",
            "[a-z]{9}",
            "foo{0}",
        ),
        *(r"\pL\pL\pL", r"\p{Greek}+", "^$", r"\b", "(abc){0,5}"),
        f"{'(' * (MAX_DEPTH + 1)}abc{')' * (MAX_DEPTH + 1)}",
    ],
)
def test_an_expression_without_common_trigrams_needs_none(expression):
    assert needed(expression) == NOTHING


def test_many_alternatives_need_not_more_than_their_parts_do():
    wide = needed("(ab|cd|ef|gh|ij|kl)" * 4 + "needle")

    assert isinstance(wide, AllOf | AnyOf)
    assert grams.holds(wide, "ababababneedle".__contains__)
    assert not grams.holds(wide, "ababababneed".__contains__)


LITERALS = st.sampled_from([*"aAbBcCkKsS019_-. \t/#", "é", "ß", "ſ", "\u212a", "你"])
ATOMS = st.one_of(
    LITERALS.map(re.escape),
    st.text("abcABC", min_size=2, max_size=5),
    st.sampled_from(
        [".", r"\w", r"\d", r"\s", "[abc]", "[^a]", "[a-cx]", "[k-t]", r"[\]a]", "[]a]"]
    ),
    st.sampled_from([r"\b", "^", "$", r"\x61", r"\x{62}", r"\141", r"\Qa.b\E", "(?i)", "(?i:kS)"]),
)
SIGNS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "+?", "*?"])


def combined(inner):
    sequences = st.lists(inner, min_size=1, max_size=4).map("".join)
    groups = st.builds(
        "{}{}{}){}".format, st.sampled_from(["(", "(?:"]), sequences, st.just(""), SIGNS
    )
    choices = st.builds("(?:{}|{}){}".format, sequences, sequences, SIGNS)
    return st.one_of(sequences, groups, choices)


EXPRESSIONS = st.recursive(ATOMS, combined, max_leaves=12)


@given(expression=EXPRESSIONS, ignores_case=st.booleans(), data=st.data())
@example("(?i)kelvin", False, None)
def test_every_match_has_what_the_expression_needs(expression, ignores_case, data):
    """The texts are made by Python's engine; those that RE2 matches as well count."""
    options = re2.Options()
    options.case_sensitive, options.log_errors = not ignores_case, False
    try:
        compiled = re2.compile(f"(?m){expression}", options)
    except re2.error:
        assume(False)
    text = "\u212aelvin" if data is None else data.draw(text_for(expression))
    found = compiled.search(text)
    assume(found is not None)

    needs = needed(expression, ignores_case=ignores_case)

    assert grams.holds(needs, grams.folded(found.group()).__contains__), (needs, found.group())


def text_for(expression):
    free = st.text("aAbBcCkKsSxX01 _-.\n\u212aſéß你", max_size=40)
    plain = expression.replace(r"\Qa.b\E", "a[.]b").replace(r"\x{62}", "b").replace("(?i)", "")
    plain = plain.replace("(?i:kS)", "[kK][sS]").replace(r"\b", "")
    try:
        return st.one_of(st.from_regex(re.compile(plain, re.MULTILINE)), free)
    except re.error:
        return free
