"""The groups of a repository, from everything that decides who sees it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.access import Label, Role
from codelode.api_keys import ApiKey
from codelode.backends.memory.api_keys import MemoryApiKeys
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.covers import Grouped, Known, cover, prefixes
from codelode.grouping import FEW_NAMES, MAX_LISTS, MAX_MATCHING, Rights, rights, undescribed
from codelode.host_permissions import (
    HostPermissions,
    PermissionsBuilder,
    SyncDeclaration,
    SyncOutcome,
    SyncState,
)
from codelode.model import Repository, RepositoryName
from codelode.repository_globs import matcher

NAMES = [f"acme{number % 4}/r{number}" for number in range(400)]


def repository(name, label=Label.INTERNAL):
    return Repository(RepositoryName(name), f"https://git.example/{name}", label=label)


def grouped(of: Rights, names=NAMES):
    return {name: Grouped(of.groups_of(repository(name))) for name in names}


@pytest.mark.parametrize(
    ("globs", "left"),
    [
        (["**", "*", "acme/*", "acme/**", "acme/pay-*", "acme/app"], []),
        (["a/*-api", "a*", "*/x", "a?/b", "**/x/*"], ["**/x/*", "*/x", "a*", "a/*-api", "a?/b"]),
        (["acme/*", *NAMES[:FEW_NAMES]], []),
        (["acme/*", *NAMES[: FEW_NAMES + 1]], sorted(NAMES[: FEW_NAMES + 1])),
    ],
    ids=["prefixes", "wildcards", "few names", "many names"],
)  # fmt: skip
def test_globs_that_a_filter_describes_in_few_terms_form_no_group(globs, left):
    assert undescribed([globs, globs[::-1]]) == ((tuple(left),) if left else ())


@given(st.from_regex(r"[ab]([/.-][ab]){0,2}[/._-]?\*{1,2}", fullmatch=True), st.data())
def test_names_matched_by_a_glob_without_a_group_share_its_prefix(glob, data):
    name = data.draw(st.from_regex(r"[ab]([/.-][ab]){0,4}", fullmatch=True))
    if not undescribed([[glob]]) and matcher((glob,))(name):
        assert glob.rstrip("*") in prefixes(name)


def test_a_random_half_granted_by_the_access_file_is_covered_by_its_entries():
    drawn = random.Random(1).sample(NAMES, 200)
    entries = [drawn[start : start + 50] for start in range(0, 200, 50)]
    groups = grouped(Rights(lists=undescribed(entries)))
    half = frozenset(drawn)

    found = cover(half, Known(frozenset(NAMES), groups))

    assert len({groups[name] for name in NAMES}) == len(entries) + 1
    assert (len(found.tokens), found.names, found.but) == (len(entries), (), ())
    assert cover(half, Known(frozenset(NAMES))) is None


def test_many_keys_with_random_bounds_do_not_change_the_groups_of_others():
    """Most repositories match more keys than give groups, and hardly two match the same ones."""
    listed = (("**1", "**2", "**3", "**4", "**5"),)
    of_keys = undescribed([f"**{number % 97}", f"**{number % 89}?"] for number in range(10_000))
    groups = grouped(Rights(lists=(*listed, *of_keys)))
    assert len(of_keys) == MAX_LISTS
    assert max(len(one.written) for one in groups.values()) == 1 + MAX_MATCHING

    seen = frozenset(filter(matcher(listed[0]), NAMES))
    found = cover(seen, Known(frozenset(NAMES), groups))
    assert len(seen) > len(NAMES) / 3
    assert sum(map(len, found)) == 1


def test_label_readers_entries_and_keys_decide_about_the_groups():
    builder = PermissionsBuilder()
    for account in ("17", "23"):
        builder.account(account)
    for name in ("a", "b", "c"):
        builder.repository(name, [f"https://git.example/{name}"])
    builder.grant("17", ["a", "b"])
    builder.grant("23", ["c"])
    permissions = builder.built()
    declared = SyncDeclaration("work", "gitea", "git.example/", 300, 3600, emails=False, claim="")

    def groups(name, label=None, *, url="https://git.example/", **more):
        states = [SyncState(declared, SyncOutcome(version="1"))]

        def of(connection: str, version: str) -> HostPermissions | None:
            return permissions if (connection, version) == ("work", "1") else None

        given = Repository(RepositoryName(name), f"{url}{name}", label=label)
        return Rights(states, of, **more).groups_of(given)

    assert groups("a") == groups("b") != groups("c")
    assert len({groups("a"), groups("a", Label.PUBLIC), groups("b", Label.PRIVATE)}) == 3
    assert groups("d") == groups("a", url="https://elsewhere.example/") == ()
    assert groups("d", Label.PUBLIC) == groups("d", Label.PUBLIC, url="https://elsewhere.example/")
    lists = (("a*",), ("*",), ("b*",))
    (in_a, in_all), (_, in_b) = (groups(name, lists=lists)[1:] for name in "ab")
    assert len({in_a, in_all, in_b, *groups("a")}) == 4
    assert groups("b", lists=lists) == (*groups("b"), in_all, in_b)
    assert groups("d", lists=lists) == groups("d", lists=(("d", "*"), ("*",)))[1:] == (in_all,)
    labelled = groups("a", Label.PRIVATE, lists=lists)
    assert (labelled[0], labelled[1:]) != (groups("a")[0], (in_a, in_all))


def test_the_bounds_of_a_key_form_groups_unless_they_are_names_or_prefixes():
    ledger, keys = MemoryLedger(), MemoryApiKeys()
    ledger.set_access_globs([("*-api",)])
    bounds = [(), (("acme/*", "*-web"), ("*s",)), (tuple(NAMES[:100]),), (("*-api",),)]
    for number, one in enumerate(bounds):
        assert keys.add(ApiKey(str(number), f"k{number}", "", Role.READER, one, 0.0, "root"))

    found = rights(ledger, keys, MemoryPermissionStates(), lambda *_: None)

    assert found.lists == (("*-api",), ("*-web",), ("*s",))
