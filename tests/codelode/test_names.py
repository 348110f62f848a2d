from hypothesis import given
from hypothesis import strategies as st

from codelode import tokens
from codelode.names import Names, is_constructor, names_of, spelling


def test_names_are_compared_in_one_spelling():
    assert spelling("getUser") == spelling("get_user") == spelling("GetUser") == "getuser"
    assert [spelling(name) for name in ("a.b.c", "absl::StrCat", "Foo#bar()", "x", "::")] == [
        "c",
        "strcat",
        "bar",
        "x",
        "",
    ]


@given(st.text(st.sampled_from("aZ_9.-:(İKſß\u0301é "), max_size=12))
def test_the_spelling_of_a_name_is_its_last_index_term(name):
    assert spelling(name) == (tokens.terms(name) or [""])[-1]


def test_names_are_stored_as_newline_delimited_lists():
    assert names_of("Pool.get_user", ("Pool.get_user", "Pool.putAll")) == Names(
        "getuser", "\ngetuser\nputall\n", "\npool\nget\nuser\ngetuser\nput\nall\nputall\n"
    )
    assert names_of("", ()) == Names("", "", "")


def test_names_outside_ascii_and_operators_are_spelled_too():
    assert names_of("Größe.GRÖSSE", ("+", "Größe")) == Names("grösse", "\ngrösse\n", "\ngrösse\n")


def test_a_constructor_has_the_name_of_its_class():
    assert [is_constructor(name) for name in ("Client.Client", "a.B.B", "B.a", "B", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
