"""Prefixes and groups replace many names."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.covers import MAX_PREFIXES, Cover, Grouped, Known, cover, group_of, prefixes

TEAMS = frozenset(f"acme/{team}-r{number}" for team in "abcd" for number in range(50))
FLAT = frozenset(f"acme/r{number}" for number in range(200))
NAMES = st.from_regex(r"[ab]([/.-][ab]){0,3}", fullmatch=True)
GROUPS = [tuple(map(group_of, some)) for some in ("a", "b", "ab", "bc", "abc")]


def covers(found, name, groups=()):
    has_token = any(token in found.tokens for token in (*prefixes(name), *groups))
    return name in found.names or (has_token and name not in found.but)


@given(
    known=st.dictionaries(NAMES, st.sampled_from([(), *GROUPS])),
    suspended=st.dictionaries(NAMES, st.sampled_from([(), *GROUPS])),
    hidden=st.frozensets(NAMES),
    hidden_groups=st.frozensets(st.sampled_from(GROUPS)),
    data=st.data(),
)
def test_a_cover_is_either_exact_and_short_or_absent(known, suspended, hidden, hidden_groups, data):
    """A chunk of a repository with suspended groups may have any of the former and later ones."""
    names = {name for name, some in known.items() if some not in hidden_groups} - hidden
    groups = {name: Grouped(some, suspended.get(name)) for name, some in known.items() if some}
    found = cover(frozenset(names), Known(frozenset(known), groups))
    if found is not None:
        of_chunk = {
            name: data.draw(
                st.sets(st.sampled_from(one.possible)) if one.is_suspended else st.just(one.written)
            )
            for name, one in groups.items()
        }
        assert {name for name in known if covers(found, name, of_chunk.get(name, ()))} == names
        assert 2 * sum(map(len, found)) <= len(names)


def test_prefixes_of_a_name_end_at_its_separators():
    assert prefixes("acme/pay-ments.api") == ["acme/", "acme/pay-", "acme/pay-ments."]
    assert prefixes("plain") == []
    assert len(prefixes("a-" * 90)) == MAX_PREFIXES


def test_a_common_prefix_replaces_names():
    teams = {name for name in TEAMS if name.startswith(("acme/a-", "acme/c-"))}
    assert cover(frozenset(teams), Known(TEAMS)) == (("acme/a-", "acme/c-"), (), ())
    assert cover(TEAMS, Known(TEAMS)) == (("acme/",), (), ())


def test_a_cover_lists_few_hidden_names_as_exceptions_and_few_visible_ones_by_name():
    one, other = "acme/a-r1", "acme/b-r1"
    seen = {name for name in TEAMS if name.startswith("acme/a-")} - {one} | {other}
    assert cover(frozenset(seen), Known(TEAMS)) == Cover(("acme/a-",), (other,), (one,))


def test_names_that_prefixes_do_not_describe_have_no_cover():
    assert cover(frozenset(sorted(TEAMS)[::2]), Known(TEAMS)) is None
    assert cover(frozenset(), Known(TEAMS)) == ((), (), ())


def only(fact):
    return Grouped((group_of([fact]),))


def of_teams(names):
    """Return the groups of each name: one of five teams, which does not follow from the name."""
    return {name: only(str(int(name.rpartition("r")[2]) % 5)) for name in names}


def test_groups_replace_names_without_a_common_prefix():
    groups = of_teams(FLAT)
    wanted = group_of("0"), group_of("1")
    seen = {name for name in FLAT if groups[name] in map(only, "01")}

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
    wanted = {name for name in FLAT if groups[name] in map(only, "01")}
    seen = frozenset(wanted | {name for name in TEAMS if name.startswith("acme/a-")})
    alone = {name: only(name) for name in TEAMS} if are_grouped_alone else {}

    found = cover(seen, Known(TEAMS | FLAT, groups | alone))

    assert found == (tuple(sorted(["acme/a-", group_of("0"), group_of("1")])), (), ())


def test_a_group_depends_on_the_readers_and_is_not_a_prefix():
    assert group_of(["b", "a"]) == group_of(["a", "b"]) != group_of(["ab"])
    assert prefixes(f"{group_of([])}/app") == [f"{group_of([])}/"]


def test_overlapping_groups_describe_what_each_of_their_readers_sees():
    """40 readers see a random fifth each, so hardly two repositories have the same readers."""
    drawn = random.Random(1)
    seen = {reader: {*drawn.sample(sorted(FLAT), 40)} for reader in map(str, range(40))}
    groups = {
        name: Grouped(tuple(group_of([one]) for one, names in seen.items() if name in names))
        for name in FLAT
    }
    assert len({*groups.values()}) > len(FLAT) - 3

    for reader, names in seen.items():
        assert cover(frozenset(names), Known(FLAT, groups)) == ((group_of([reader]),), (), ())
    both = cover(frozenset(seen["0"] | seen["1"] - {"acme/r1"}), Known(FLAT, groups))
    assert {group_of(["0"]), group_of(["1"])} == {*both.tokens}
    assert sum(map(len, both)) <= 3


def test_repositories_with_suspended_groups_are_named_and_excepted():
    groups = of_teams(FLAT)
    seen = {name for name in FLAT if groups[name] == only("0")}
    moving = {"acme/r0": Grouped(only("0").written, only("0").written)}  # visible
    moving |= {"acme/r1": Grouped(only("1").written, only("0").written)}  # hidden
    found = cover(frozenset(seen), Known(FLAT, groups | moving))
    assert found == (only("0").written, ("acme/r0",), ("acme/r1",))
