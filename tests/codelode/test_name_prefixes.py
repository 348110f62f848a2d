"""Prefixes that stand for many names."""

from hypothesis import given
from hypothesis import strategies as st

from codelode.name_prefixes import MAX_PREFIXES, Cover, cover, prefixes

TEAMS = frozenset(f"acme/{team}-r{number}" for team in "abcd" for number in range(50))
NAMES = st.from_regex(r"[ab]([/.-][ab]){0,3}", fullmatch=True)


def covers(found, name):
    is_below = any(prefix in found.prefixes for prefix in prefixes(name))
    return name in found.names or (is_below and name not in found.but)


@given(known=st.frozensets(NAMES), hidden=st.frozensets(NAMES))
def test_a_cover_is_exact_and_short_or_there_is_none(known, hidden):
    names = known - hidden
    found = cover(names, known)
    assert found is None or {name for name in known if covers(found, name)} == names
    assert found is None or 2 * sum(map(len, found)) <= len(names)


def test_the_prefixes_of_a_name_end_at_its_separators():
    assert prefixes("acme/pay-ments.api") == ["acme/", "acme/pay-", "acme/pay-ments."]
    assert prefixes("plain") == []
    assert len(prefixes("a-" * 90)) == MAX_PREFIXES


def test_what_names_share_stands_for_them():
    teams = {name for name in TEAMS if name.startswith(("acme/a-", "acme/c-"))}
    assert cover(frozenset(teams), TEAMS) == (("acme/a-", "acme/c-"), (), ())
    assert cover(TEAMS, TEAMS) == (("acme/",), (), ())


def test_few_hidden_names_are_exceptions_and_few_visible_ones_are_named():
    one, other = "acme/a-r1", "acme/b-r1"
    seen = {name for name in TEAMS if name.startswith("acme/a-")} - {one} | {other}
    assert cover(frozenset(seen), TEAMS) == Cover(("acme/a-",), (other,), (one,))


def test_names_that_prefixes_do_not_describe_have_no_cover():
    assert cover(frozenset(sorted(TEAMS)[::2]), TEAMS) is None
    assert cover(frozenset(), TEAMS) == ((), (), ())
