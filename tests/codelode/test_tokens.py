import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.tokens import (
    MAX_IDENTIFIER_CHARS,
    Memo,
    identifiers,
    may_have,
    runs,
    terms,
    words,
)

SPLITS = {
    "camel": ("getUserById", ["get", "user", "by", "id"]),
    "pascal": ("SearchService", ["search", "service"]),
    "snake": ("max_file_bytes", ["max", "file", "bytes"]),
    "screaming": ("MAX_FILE_BYTES", ["max", "file", "bytes"]),
    "acronym first": ("HTTPResponse", ["http", "response"]),
    "acronym last": ("parseHTTP", ["parse", "http"]),
    "acronym and digits": ("parseHTTPResponse_v2", ["parse", "http", "response", "v", "2"]),
    "plural acronym": ("fetchURLs", ["fetch", "urls"]),
    "plural acronym inside": ("IDsList", ["ids", "list"]),
    "digits": ("sha256sum", ["sha", "256", "sum"]),
    "dunder": ("__init__", ["init"]),
    "only underscores": ("__", []),
    "accents": ("über_naïve", ["über", "naïve"]),
    "accented capitals": ("ÜberNaïve", ["über", "naïve"]),
    "accents written apart": ("e\u0301tatCivil", ["état", "civil"]),
    "sharp s": ("STRASSE_Straße", ["strasse", "strasse"]),
    "cyrillic camel": ("ПриветМир", ["привет", "мир"]),
    "no case": ("日本語Name", ["日本語", "name"]),
    "superscript": ("x²", ["x", "²"]),
}


@pytest.mark.parametrize(("identifier", "expected"), SPLITS.values(), ids=SPLITS.keys())
def test_an_identifier_splits_into_its_words(identifier, expected):
    assert words(identifier) == expected


def test_terms_are_the_words_of_each_identifier_and_then_all_of_it():
    assert terms("getUserById(x)") == ["get", "user", "by", "id", "getuserbyid", "x"]


def test_an_identifier_of_one_word_is_one_term():
    assert terms("Reader") == ["reader"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("加载配置", "加载 载配 配置 加载配置"),
        ("retry処理中はどこ", "retry 処理中はどこ 処理 理中 中は はど どこ retry処理中はどこ"),
        ("토큰을", "토큰 큰을 토큰을"),
        ("配置", "配置"),
        ("загрузка", "загрузка"),
    ],
)
def test_texts_without_spaces_have_all_pairs_of_their_characters_as_terms(text, expected):
    assert terms(text) == expected.split()


def test_identifiers_are_listed_as_written_with_repetitions():
    assert list(identifiers("a._b(A, a) + __c__")) == ["a", "b", "A", "a", "c"]


def test_a_character_run_too_long_for_an_identifier_has_no_terms():
    data = "x" * (MAX_IDENTIFIER_CHARS + 1)
    assert terms(f"key = {data}") == ["key"]
    assert list(identifiers(data)) == []
    assert runs(data) == [data]


def test_a_memo_computes_an_identifier_once():
    asked = []
    memo = Memo(lambda run: asked.append(run) or len(run))
    assert [memo["abc"], memo["abc"], memo["de"]] == [3, 3, 2]
    assert asked == ["abc", "de"]


def test_a_memo_is_bounded_in_entries_and_in_their_length(monkeypatch):
    monkeypatch.setattr("codelode.tokens._MEMO_ENTRIES", 10)
    memo = Memo(len)
    for number in range(100):
        assert memo[f"name{number}"] == len(f"name{number}")
        assert len(memo) <= 10
    long = "x" * (MAX_IDENTIFIER_CHARS + 1)
    assert memo[long] == len(long)
    assert long not in memo


def test_threads_that_share_the_memo_agree():
    texts = [" ".join(f"name{n}Of{n % 7}Things" for n in range(k, k + 300)) for k in range(8)]
    expected = [terms(text) for text in texts]
    found = {}

    def work(worker):
        found[worker] = [terms(text) for text in texts]

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[worker] == expected for worker in range(4))


@given(st.text(), st.text())
def test_terms_of_two_texts_are_the_terms_of_each(first, second):
    assert terms(f"{first} {second}") == terms(first) + terms(second)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_and_other_texts_are_split_into_runs_alike(text):
    assert runs(text) == runs(f"{text} é")[:-1]


@given(st.text())
def test_terms_hold_no_space_and_no_empty_term(text):
    assert all(term and term.split() == [term] for term in terms(text))


@given(st.text())
def test_terms_are_the_terms_of_each_identifier(text):
    assert terms(text) == [term for name in identifiers(text) for term in terms(name)]


@given(st.text())
def test_no_term_of_a_text_is_ruled_out(text):
    assert all(may_have(text, {term}) for term in terms(text))


def test_an_ascii_text_without_the_letters_of_a_term_is_ruled_out():
    assert may_have("x = get_user(id)", {"absent", "getuser"})
    assert not may_have("x = get_user(id)", {"absent", "straße"})
    assert not may_have("x = 1", ())


WORDS = st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8), min_size=1)


@given(WORDS)
def test_snake_camel_and_pascal_spellings_have_the_same_words(parts):
    pascal = "".join(part.capitalize() for part in parts)
    camel = parts[0] + pascal[len(parts[0]) :]
    spellings = ["_".join(parts), "_".join(parts).upper(), pascal, camel]
    assert [words(spelling) for spelling in spellings] == [parts] * 4


@given(st.text(st.characters(categories=["Lu", "Ll"]), min_size=1, max_size=20))
def test_case_does_not_matter_to_a_whole_identifier(name):
    if len(name) <= MAX_IDENTIFIER_CHARS:
        assert "".join(words(name)) == "".join(words(name.casefold()))
