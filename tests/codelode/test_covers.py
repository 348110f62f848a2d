"""Prefixes and groups that stand for many names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.covers import MAX_PREFIXES, Cover, Known, cover, group_of, prefixes

TEAMS = frozenset(f"acme/{team}-r{number}" for team in "abcd" for number in range(50))
FLAT = frozenset(f"acme/r{number}" for number in range(200))
NAMES = st.from_regex(r"[ab]([/.-][ab]){0,3}", fullmatch=True)
GROUPS = {short: group_of([short]) for short in "abc"}


def covers(found, name, group=""):
    has_token = any(token in found.tokens for token in (*prefixes(name), group))
    return name in found.names or (has_token and name not in found.but)


@given(
    known=st.dictionaries(NAMES, st.sampled_from(["", *GROUPS.values()])),
    hidden=st.frozensets(NAMES),
    hidden_groups=st.frozensets(st.sampled_from([*GROUPS.values()])),
)
def test_a_cover_is_exact_and_short_or_there_is_none(known, hidden, hidden_groups):
    names = {name for name, group in known.items() if group not in hidden_groups} - hidden
    groups = {name: group for name, group in known.items() if group}
    found = cover(frozenset(names), Known(frozenset(known), groups))
    if found is not None:
        assert {name for name, group in known.items() if covers(found, name, group)} == names
        assert 2 * sum(map(len, found)) <= len(names)


def test_the_prefixes_of_a_name_end_at_its_separators():
    assert prefixes("acme/pay-ments.api") == ["acme/", "acme/pay-", "acme/pay-ments."]
    assert prefixes("plain") == []
    assert len(prefixes("a-" * 90)) == MAX_PREFIXES


def test_what_names_share_stands_for_them():
    teams = {name for name in TEAMS if name.startswith(("acme/a-", "acme/c-"))}
    assert cover(frozenset(teams), Known(TEAMS)) == (("acme/a-", "acme/c-"), (), ())
    assert cover(TEAMS, Known(TEAMS)) == (("acme/",), (), ())


def test_few_hidden_names_are_exceptions_and_few_visible_ones_are_named():
    one, other = "acme/a-r1", "acme/b-r1"
    seen = {name for name in TEAMS if name.startswith("acme/a-")} - {one} | {other}
    assert cover(frozenset(seen), Known(TEAMS)) == Cover(("acme/a-",), (other,), (one,))


def test_names_that_prefixes_do_not_describe_have_no_cover():
    assert cover(frozenset(sorted(TEAMS)[::2]), Known(TEAMS)) is None
    assert cover(frozenset(), Known(TEAMS)) == ((), (), ())


def of_teams(names):
    """The group of each name: that of one of five teams, which no name tells."""
    return {name: group_of([str(int(name.rpartition("r")[2]) % 5)]) for name in names}


def test_what_readers_share_stands_for_names_that_do_not_tell():
    groups = of_teams(FLAT)
    wanted = group_of("0"), group_of("1")
    seen = {name for name in FLAT if groups[name] in wanted}

    assert cover(frozenset(seen), Known(FLAT)) is None
    assert cover(frozenset(seen), Known(FLAT, groups)) == (tuple(sorted(wanted)), (), ())
    changed = seen - {"acme/r0"} | {"acme/r2"}
    assert cover(frozenset(changed), Known(FLAT, groups)) == (
        tuple(sorted(wanted)),
        ("acme/r2",),
        ("acme/r0",),
    )


@pytest.mark.parametrize("are_grouped_alone", [False, True], ids=["all", "alone"])
def test_groups_and_prefixes_describe_together_what_neither_does_alone(are_grouped_alone):
    """The teams have no groups, or each of their repositories has other readers."""
    groups = of_teams(FLAT)
    wanted = {name for name in FLAT if groups[name] in (group_of("0"), group_of("1"))}
    seen = frozenset(wanted | {name for name in TEAMS if name.startswith("acme/a-")})
    alone = {name: group_of([name]) for name in TEAMS} if are_grouped_alone else {}

    found = cover(seen, Known(TEAMS | FLAT, groups | alone))

    assert found == (tuple(sorted(["acme/a-", group_of("0"), group_of("1")])), (), ())


def test_a_group_follows_from_the_readers_and_is_no_prefix():
    assert group_of(["b", "a"]) == group_of(["a", "b"]) != group_of(["ab"])
    assert prefixes(f"{group_of([])}/app") == [f"{group_of([])}/"]
