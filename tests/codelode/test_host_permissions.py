"""Addresses of repositories, and permissions as they are stored."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.host_permissions import (
    HostPermissions,
    PermissionsBuilder,
    SyncDeclaration,
    SyncOutcome,
    SyncState,
    address,
    email_key,
    has_prefix,
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://git.example/acme/app", "git.example/acme/app"),
        ("https://Git.Example/Acme/App.git/", "git.example/acme/app"),
        ("https://git.example:443/acme/app.git", "git.example/acme/app"),
        ("http://127.0.0.1:3000/acme/app.git", "127.0.0.1:3000/acme/app"),
        ("git@git.example:acme/app.git", "git.example/acme/app"),
        ("ssh://git@git.example/acme/app", "git.example/acme/app"),
        ("ssh://git@git.example:2222/acme/app", "git.example:2222/acme/app"),
        ("https://git.example/a%62c/app", "git.example/abc/app"),
        ("https://git.example/group/sub/app", "git.example/group/sub/app"),
        ("/srv/git/app", ""),
        ("nonsense", ""),
    ],
)
def test_spellings_of_a_url_have_one_address(url, expected):
    assert address(url) == expected


@pytest.mark.parametrize(
    ("url", "is_below"),
    [
        ("https://git.example:8443/acme/app", True),
        ("git@git.example:acme/app", True),
        ("ssh://git@git.example:2222/acme/app", True),
        ("https://git.example/acme/app", False),  # another server on that machine
        ("https://git.example:8443/acmes/app", False),
        ("https://git.example.org:8443/acme/app", False),
        ("/acme/app", False),
    ],
)
def test_a_url_of_ssh_is_compared_without_its_port(url, is_below):
    assert has_prefix(url, "git.example:8443/acme/") == is_below


names = st.text("abc01", min_size=1, max_size=3)
grants = st.dictionaries(names, st.sets(st.integers(0, 40)))


@given(st.integers(0, 41), grants, st.dictionaries(names, names))
def test_permissions_are_unpacked_as_they_were_packed(count, granted, emails):
    built = PermissionsBuilder()
    for number in range(count):
        built.repository(str(number), [f"https://h/a/r{number}"])
    for account, numbers in granted.items():
        built.account(account, [email for email, of in emails.items() if of == account])
        built.grant(account, map(str, numbers))
    found = built.built()
    packed = found.packed()

    assert HostPermissions.unpacked(packed) == found
    assert HostPermissions.unpacked(packed).packed() == packed
    for account, bits in found.readers.items():
        known = {number for number in granted[account] if number < count}
        assert {number for number in range(count) if bits >> number & 1} == known


def test_readers_of_a_repository_are_found_by_any_spelling_of_its_url():
    built = PermissionsBuilder()
    for name in ("app", "lib"):
        built.repository(name, [f"https://host/acme/{name}.git", f"git@host:acme/{name}.git"])
    for account, names in {"ann": ["app", "lib"], "bob": ["lib"], "carl": []}.items():
        built.account(account)
        built.grant(account, names)
    found = built.built()

    assert found.readers_of("https://Host/Acme/App") == frozenset({"ann"})
    assert found.readers_of("git@host:acme/lib") == frozenset({"ann", "bob"})
    assert found.readers_of("https://host/acme/other") is None
    assert found.readers_of("/srv/git/app") is None


def test_an_account_that_is_not_known_is_granted_nothing():
    built = PermissionsBuilder()
    built.repository("1", ["https://h/a/b"])
    built.grant("ghost", ["1"])

    assert built.built().readers == {}


def test_an_address_that_two_accounts_have_verified_belongs_to_neither():
    built = PermissionsBuilder()
    built.account("1", ["Ann@Example.org", "ann@example.org", "only@example.org"])
    built.account("2", ["ANN@example.org"])

    accounts = built.built().accounts
    assert accounts == {email_key("ann@example.org"): "", email_key("only@example.org"): "1"}


def state(**outcome):
    declared = SyncDeclaration("work", "gitea", "h/", 300, 3600, emails=False, claim="")
    return SyncState(declared, SyncOutcome(**outcome))


def test_permissions_are_closed_before_the_first_reading_and_beyond_the_age_limit():
    assert "have not been read yet" in state().closed_because(0.0)
    read = state(version="v", synced_at=1000.0, attempted_at=1000.0)
    assert read.closed_because(4599.0) == ""
    assert "max_age is 3600 s" in read.closed_because(4600.0)
    refused = state(version="v", attempted_at=2000.0, error="401")
    assert refused.closed_because(2001.0) == "401"


def test_a_failed_attempt_is_repeated_sooner():
    good = state(version="v", synced_at=1000.0, attempted_at=1000.0)
    bad = state(attempted_at=1000.0, error="host is down")

    assert [good.is_due(at) for at in (1060.0, 1299.0, 1300.0)] == [False, False, True]
    assert [bad.is_due(at) for at in (1059.0, 1060.0)] == [False, True]


def test_ten_thousand_repositories_and_a_thousand_people_take_less_than_two_megabytes():
    dice = random.Random(1)
    addresses = [(f"git.example/team{n % 97}/service-{n}",) for n in range(10_000)]
    readers = {str(person): dice.getrandbits(10_000) for person in range(1_000)}
    accounts = {email_key(f"person{person}@example.org"): person for person in readers}

    assert len(HostPermissions(tuple(addresses), readers, accounts).packed()) < 2_000_000
