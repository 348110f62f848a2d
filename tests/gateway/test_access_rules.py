"""Labels, globs of keys, and the access file, and the one rule that combines them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from codelode.access import EVERYTHING, FRESH_S, Label, Principal, Role, Visibility
from codelode.backends.memory.ledger import MemoryLedger
from codelode.client import AsyncClient
from codelode.disk_use import DiskPart
from codelode.errors import Denied, InvalidQuery, InvalidSettings, NotFound, Unavailable
from codelode.host_permissions import SyncDeclaration
from codelode.model import Repository, RunKind, RunState
from codelode.repository_globs import Within, problem
from codelode.settings import Settings
from gateway import service
from gateway.access import Access, followed
from gateway.access.api_keys import KeyAuthenticator
from gateway.access.identity import Credentials, Identity
from gateway.access.rules import AccessFile, Grant, Rules, parse
from gateway.access.visibility import VISIBILITIES_HELD, Visibilities
from gateway.app import Gateway
from gateway.service.requests import CreateKeyRequest, RegisterRequest, StartRequest
from tests.examples import examples
from tests.waiting import until

ADMIN = Principal("token", Role.ADMIN, EVERYTHING)
GOOD = """
groups:
  payments:
    repositories: [payments/*, "shared/**"]
    role: indexer
people:
  user:ann@example.org:
    repositories: [legal/contracts]
  user:root@example.org: {role: admin}
"""
URL = "https://host.example/x/y"
PAY_URL = "https://host/pay/new"


# The access file


def test_an_access_file_gives_globs_and_roles_to_groups_and_people():
    assert parse(GOOD, file="f") == Rules(
        groups={"payments": Grant(("payments/*", "shared/**"), Role.INDEXER)},
        people={
            "user:ann@example.org": Grant(("legal/contracts",)),
            "user:root@example.org": Grant((), Role.ADMIN),
        },
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty"),
        ("# nothing\n", 1, "is empty"),
        ("- a\n", 1, "must be a mapping"),
        ("groups:\n  a: 1\n", 2, "must be a mapping"),
        ("groups:\n  a: {}\nteams:\n  b: {}\n", 3, "no field 'teams'; it may have: groups, people"),
        ("groups:\n  a:\n    repos: [x]\n", 3, "no field 'repos'; it may have: repositories, role"),
        ("groups:\n  a: {}\n  b: {}\n  a: {}\n", 4, "has 'a' twice"),
        ("groups:\n  a:\n    repositories: x\n", 3, "must be a list of globs"),
        ("groups:\n  a:\n    repositories:\n      - x\n      - 1\n", 5, "write it in quotes"),
        ("groups:\n  a:\n    repositories: ['a b']\n", 3, "holds 'a b'"),
        ("groups:\n  a:\n    role: root\n", 3, "there is no role 'root'; there are: reader"),
        ("groups:\n  a:\n    role: [admin]\n", 3, "role must be a text"),
        ("groups:\n  7: {}\n", 2, "a name in groups must be a text; write it in quotes"),
        ("people:\n  key:ci: {role: admin}\n", 2, "is an API key"),
        (
            "people:\n  ann@example.org:\n    role: admin\n",
            2,
            "here probably 'user:ann@example.org'",
        ),
        ("people:\n  key:ci: {}\n  KEY:ci: {}\n", 3, "here probably 'key:ci'"),
        ("people:\n  User:ann: {}\n", 2, "here probably 'user:ann'"),
        ("people:\n  'user:': {}\n", 2, "matches nobody: write user:NAME"),
        ("people:\n  '': {}\n", 2, "here probably 'user:NAME'"),
        ("people:\n  group:payments: {}\n", 2, "here probably 'user:group:payments'"),
        ("people:\n  key:ci/*: {accounts: {work: '1'}}\n", 2, "names of keys have 1 to 64"),
        ("groups:\n  a: [\n", 3, ""),
        ("groups:\n\ta: {}\n", 2, "a tab is not allowed here; indent with spaces"),
        ("a: &x {}\nb: *y\n", 2, "the file is not valid YAML: found undefined alias"),
        ("groups: {}\n---\npeople: {}\n", 2, "another document"),
        ("groups: " + "[" * 1_000, None, ""),
        ("groups:\n  a: \x00\n", None, ""),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(text, line, message):
    with pytest.raises(InvalidSettings) as caught:
        parse(text, file="/etc/access.yaml")

    assert str(caught.value).startswith(f"/etc/access.yaml:{line or ''}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "user:ann@example.org",
        "user:248289761001",
        "user:key:ci",
        "user:Ann: of payments",
        "certificate:ci.example.org",
        "certificate:spiffe://example.org/ci",
        "certificate:::1",
        "token",
        "loopback",
        "webhook:work",
    ],
)
def test_every_name_that_a_principal_can_have_may_be_in_the_file(name):
    assert list(parse(f"people: {{{name!r}: {{role: reader}}}}", file="f").people) == [name]


def test_groups_may_have_any_name():
    groups = parse("groups: {'key:x': {}, '': {}, ann@example.org: {}}", file="f").groups
    assert list(groups) == ["key:x", "", "ann@example.org"]


def test_aliases_do_not_multiply_the_work():
    levels = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))

    with pytest.raises(InvalidSettings, match="mapping"):
        parse(f"groups:\n  a0: &a0 {{}}\n{levels}", file="f")


def test_the_file_is_followed_and_a_broken_version_keeps_the_last_good_one(tmp_path):
    path = tmp_path / "access.yaml"
    path.write_text(GOOD)
    file = AccessFile(str(path))
    good = file.current()

    with structlog.testing.capture_logs() as lines:
        path.write_text("groups:\n  a:\n    role: root\n")
        assert [file.current(), file.current()] == [good, good]
    assert [line["event"] for line in lines] == ["access_file_rejected"]
    (problem_now,) = file.problems()
    assert f"{path}:3: there is no role 'root'" in problem_now
    assert "last good version" in problem_now
    path.unlink()
    assert file.current() == good
    assert "cannot read the access file" in file.problems()[0]
    path.write_text("people: {}\n")
    assert file.current() == Rules()
    assert file.problems() == ()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"# " + b"x" * 1_000_000, None])
def test_a_gateway_does_not_start_with_an_unusable_file(tmp_path, content):
    path = tmp_path / "access.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InvalidSettings, match=r"access\.yaml"):
        AccessFile(str(path))


def test_a_file_that_is_replaced_in_place_with_equal_size_and_time_is_read_again(tmp_path):
    path = tmp_path / "access.yaml"
    path.write_text("groups:\n  a: {role: admin}\n")
    file, times = AccessFile(str(path)), path.stat()
    path.write_text("groups:\n  b: {role: admin}\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert list(file.current().groups) == ["b"]


async def test_a_broken_file_is_reported_only_to_admins_who_see_everything(dependencies, tmp_path):
    told = replace(dependencies, problems=lambda: ("access.yaml:3: payments/hidden",))

    async def problems(role, visible):
        return (await service.status(told, Principal("p", role, visible))).problems

    assert await problems(Role.ADMIN, EVERYTHING) == ("access.yaml:3: payments/hidden",)
    for role, visible in (
        (Role.ADMIN, Visibility.of(["a"])),
        (Role.INDEXER, EVERYTHING),
        (Role.READER, Visibility.of([])),
    ):
        assert await problems(role, visible) == ()


async def test_disk_use_is_for_admins_who_see_everything_alone(dependencies):
    sizes = (DiskPart("mirrors", 1_234, 5.0),)
    dependencies.disk_use.record("mirrors", sizes)

    async def disk(role, visible):
        return (await service.status(dependencies, Principal("p", role, visible))).disk

    assert await disk(Role.ADMIN, EVERYTHING) == sizes
    for role, visible in (
        (Role.ADMIN, Visibility.of(["a"])),
        (Role.INDEXER, EVERYTHING),
        (Role.READER, Visibility.of([])),
    ):
        assert await disk(role, visible) == ()


async def test_a_gateway_reports_a_broken_file_without_being_asked(
    dependencies, tmp_path, monkeypatch
):
    monkeypatch.setattr(followed, "FOLLOW_INTERVAL_S", 0.01)
    path = tmp_path / "access.yaml"
    path.write_text(GOOD)
    configured = Settings(listen="127.0.0.1:0", data=tmp_path, access_file=str(path))
    gateway = Gateway(replace(dependencies, settings=configured))
    await gateway.start()
    with structlog.testing.capture_logs() as lines:
        path.write_text("groups: 1\n")
        while not any(line["event"] == "access_file_rejected" for line in lines):
            await asyncio.sleep(0.01)
    async with AsyncClient(f"127.0.0.1:{gateway.port}") as client:
        (told,) = (await client.status()).problems
    await gateway.stop(grace_s=0)

    assert f"{path}:1: groups must be a mapping" in told
    with pytest.raises(InvalidSettings, match="must be a mapping"):
        Gateway(replace(dependencies, settings=configured))


async def test_workers_are_told_the_globs_of_the_file_that_form_groups(
    dependencies, tmp_path, monkeypatch
):
    monkeypatch.setattr(followed, "FOLLOW_INTERVAL_S", 0.01)
    ledger = dependencies.ledger
    path = tmp_path / "access.yaml"
    path.write_text(
        "groups: {a: {repositories: [x/*, '*-api']}, b: {repositories: ['*-api', x/*, y/**]}}\n"
        "people: {'user:ann': {repositories: ['*/web']}, 'user:bob': {repositories: [x/y]}}\n"
    )
    configured = Settings(listen="127.0.0.1:0", data=tmp_path, access_file=str(path))
    gateway = Gateway(replace(dependencies, settings=configured))
    await gateway.start()
    try:
        listed = (("*-api",), ("*/web",))
        await until(lambda: ledger.access_globs() == listed, "the globs")
        path.write_text("groups: {a: {repositories: [x/*]}}\n")
        await until(lambda: ledger.access_globs() == (), "the globs of the new version")
    finally:
        await gateway.stop(grace_s=0)


# Globs


@pytest.mark.parametrize(
    ("bounds", "name", "is_within"),
    [
        ((), "anything/at/all", True),
        ((("payments/*",),), "payments/api", True),
        ((("payments/*",),), "payments/team/api", False),
        ((("payments/**",),), "payments/team/api", True),
        ((("payments/*",),), "payments", False),
        ((("*",),), "payments/api", False),
        ((("**",),), "payments/api", True),
        ((("payments/api",),), "payments/api", True),
        ((("payments/api",),), "payments/api2", False),
        ((("payments/ap?",),), "payments/api", True),
        ((("a.b",),), "axb", False),
        ((("x", "payments/*"),), "payments/api", True),
        ((("payments/*",), ("*/web",)), "payments/api", False),
        ((("payments/*",), ("*/web",)), "payments/web", True),
        (((),), "x", False),
    ],
)
def test_a_name_is_within_bounds_if_it_matches_a_glob_of_each(bounds, name, is_within):
    assert (name in Within(bounds)) is is_within


def test_globs_are_checked_in_number_length_and_characters():
    assert problem(["payments/*", "**", "a-b_c.d/?"]) == ""
    for globs in (["x"] * 101, ["x" * 201], ["a b"], [""], ["[ab]"], ["!x"], ["***"], ["é"]):
        assert problem(globs)


# The rule


@pytest.fixture
def ledger():
    return MemoryLedger()


def registered(ledger, **labels):
    for name, label in labels.items():
        name = name.replace("__", "/")
        ledger.register(Repository(name, f"https://host.example/{name}"))
        ledger.set_label(name, label)


@pytest.fixture
def labelled(ledger):
    registered(
        ledger,
        pay__open=Label.PUBLIC,
        pay__inner=Label.INTERNAL,
        pay__secret=Label.PRIVATE,
        pay__bare=None,
        web__open=Label.PUBLIC,
        web__inner=Label.INTERNAL,
        web__secret=Label.PRIVATE,
        web__bare=None,
    )
    return ledger


ALL = [f"{a}/{b}" for a in ("pay", "web") for b in ("open", "inner", "secret", "bare")]
OPEN = {"pay/open", "web/open"}
RULES = Rules(
    groups={"pay": Grant(("pay/*",), Role.INDEXER), "boss": Grant((), Role.ADMIN)},
    people={"user:ann": Grant(("web/secret", "web/bare"))},
)


@pytest.mark.parametrize(
    ("identity", "role", "names"),
    [
        (Identity("token", Role.ADMIN), Role.ADMIN, None),
        (Identity("user:bob", Role.READER), Role.READER, OPEN),
        (Identity("user:bob", Role.READER, frozenset({"x"})), Role.READER, OPEN),
        (
            Identity("user:bob", Role.READER, frozenset({"pay"})),
            Role.INDEXER,
            {*OPEN, "pay/inner"},
        ),
        (Identity("user:ann", Role.READER), Role.READER, {*OPEN, "web/secret"}),
        (
            Identity("user:ann", Role.READER, frozenset({"pay"})),
            Role.INDEXER,
            {*OPEN, "web/secret", "pay/inner"},
        ),
        (Identity("user:bob", Role.READER, frozenset({"boss"})), Role.ADMIN, None),
        (Identity("key:k", Role.READER), Role.READER, OPEN),
        (
            Identity("key:k", Role.READER, bounds=(("pay/*",),)),
            Role.READER,
            {"pay/open", "pay/inner"},
        ),
        (
            Identity("key:k", Role.READER, bounds=(("pay/*", "pay/secret"),)),
            Role.READER,
            {"pay/open", "pay/inner", "pay/secret"},
        ),
        (
            Identity("key:k", Role.READER, bounds=(("**",), ("web/secret", "pay/inner"))),
            Role.READER,
            {"web/secret", "pay/inner"},
        ),
        (Identity("key:k", Role.READER, bounds=(("pay/*",), ("web/*",))), Role.READER, set()),
        (
            Identity("key:k", Role.ADMIN, bounds=(("pay/*",),)),
            Role.ADMIN,
            {"pay/open", "pay/inner", "pay/secret", "pay/bare"},
        ),
    ],
)
async def test_a_caller_sees_what_labels_and_access_file_allow(labelled, identity, role, names):
    expected = EVERYTHING if names is None else Visibility.of(names)

    assert await Visibilities(labelled, lambda: RULES).of(identity) == (role, expected)


names = st.sampled_from(["a", "b", "pay/a", "pay/b", "pay/x/c"])
globs = st.sampled_from(["a", "*", "**", "pay/*", "pay/a", "pay/**"])


@settings(max_examples=examples(200, short=60), deadline=None)
@given(
    labels=st.dictionaries(names, st.sampled_from([None, *Label])),
    role=st.sampled_from(Role),
    bounds=st.lists(st.lists(globs, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    entry=st.lists(globs, max_size=2).map(tuple),
)
async def test_only_admins_see_unlabelled_repositories_and_nobody_exceeds_the_bounds_of_a_key(
    labels, role, bounds, entry
):
    ledger = MemoryLedger()
    for name, label in labels.items():
        registered(ledger, **{name.replace("/", "__"): label})
    rules = Rules(people={"user:ann": Grant(entry)})
    identity = Identity("user:ann", role, bounds=bounds)

    _, visible = await Visibilities(ledger, lambda: rules).of(identity)

    for name, label in labels.items():
        is_matched = bool(bounds) or name in Within((entry,))
        is_named = name in entry or any(name in one for one in bounds)
        expected = name in Within(bounds) and (
            role is Role.ADMIN
            or label is Label.PUBLIC
            or (label is Label.INTERNAL and is_matched)
            or (label is Label.PRIVATE and is_named)
        )
        assert (name in visible) == expected


async def test_changes_of_labels_repositories_and_rules_are_followed(ledger):
    now, rules = [0.0], [Rules()]
    found = Visibilities(ledger, lambda: rules[0])
    found._fresh._clock = lambda: now[0]
    ann = Identity("user:ann", Role.READER)

    async def seen():
        now[0] += FRESH_S
        return set((await found.of(ann))[1].ordered)

    assert await seen() == set()
    registered(ledger, a=Label.INTERNAL, b=None)
    assert await seen() == set()
    rules[0] = Rules(people={"user:ann": Grant(("*",))})
    assert await seen() == {"a"}
    ledger.set_label("b", Label.PUBLIC)
    assert await seen() == {"a", "b"}
    rules[0] = Rules()
    assert await seen() == {"b"}
    ledger.unregister("b")
    assert await seen() == set()


async def test_a_cover_names_the_owner_until_one_of_its_repositories_is_hidden(
    ledger,
):
    names = [f"pay__r{number}" for number in range(9)]
    registered(ledger, **dict.fromkeys(names, Label.INTERNAL), other__r=Label.INTERNAL)
    ann = Identity("user:ann", Role.READER)
    found = Visibilities(ledger, lambda: Rules(people={"user:ann": Grant(("pay/*",))}))
    found._fresh._clock = iter(range(9)).__next__

    _, before = await found.of(ann)
    registered(ledger, pay__hidden=None)
    _, after = await found.of(ann)

    assert before.cover() == (("pay/",), (), ())
    assert after == before
    assert after.cover() == (("pay/",), (), ("pay/hidden",))


async def test_admins_are_served_without_a_look_at_the_catalog():
    class Away(MemoryLedger):
        def labels(self):
            raise Unavailable("Redis does not answer")

    found = Visibilities(Away())

    assert await found.of(Identity("token", Role.ADMIN)) == (Role.ADMIN, EVERYTHING)
    with pytest.raises(Unavailable):
        await found.of(Identity("user:ann", Role.READER))


async def test_visibilities_are_computed_once_for_equal_rights_and_few_are_held(labelled):
    found = Visibilities(labelled)
    bounds = [((f"pay/x{number}",),) for number in range(2 * VISIBILITIES_HELD)]

    one, other = [
        (await found.of(Identity(f"key:{name}", Role.READER, bounds=(("pay/*",),))))[1]
        for name in ("a", "b")
    ]
    assert one is other
    for each in bounds:
        await found.of(Identity("key:x", Role.READER, bounds=each))
    assert len(found._held) == VISIBILITIES_HELD


# Registration and labels


BOSS = Principal("key:boss", Role.ADMIN, Visibility.of(["pay/a"]), (("pay/*",),))


@pytest.mark.parametrize("function", ["register", "start"])
async def test_an_indexer_cannot_tell_a_hidden_name_from_a_free_one(dependencies, function):
    registered(dependencies.ledger, pay__a=Label.INTERNAL, pay__hidden=None)
    indexer = Principal("key:i", Role.INDEXER, Visibility.of(["pay/a"]), (("pay/*",),))

    async def refusal(name, url):
        kind = {"register": RegisterRequest, "start": StartRequest}[function]
        with pytest.raises(Denied) as caught:
            await getattr(service, function)(dependencies, indexer, kind(url, name))
        return str(caught.value).replace(name, "NAME")

    known = "https://host.example/pay/hidden"
    refusals = {
        await refusal("pay/hidden", known),
        await refusal("pay/hidden", URL),
        await refusal("pay/free", URL),
    }
    assert len(refusals) == 1
    assert "ask an admin to register it" in refusals.pop()
    assert set(dependencies.ledger.labels()) == {"pay/a", "pay/hidden"}
    run = await service.start(
        dependencies, indexer, StartRequest("https://host.example/pay/a", "pay/a")
    )
    assert run.repository == "pay/a"


async def test_an_admin_with_globs_registers_new_names_within_them_and_sees_them(dependencies):
    given = Access([KeyAuthenticator(dependencies.keys)], Visibilities(dependencies.ledger))
    request = CreateKeyRequest("boss", "admin", repositories=("pay/*",))
    created = await service.create_key(dependencies, ADMIN, request)
    credentials = Credentials(f"Bearer {created.key}")
    boss = await given.principal(credentials)

    run = await service.start(dependencies, boss, StartRequest(PAY_URL, "pay/new"))
    with pytest.raises(Denied, match="ask an admin to register"):
        await service.start(dependencies, boss, StartRequest(PAY_URL, "web/new"))
    with pytest.raises(Denied, match="globs of your key do not match the path 'x/y'"):
        await service.start(dependencies, boss, StartRequest(URL, "pay/other"))

    again = await given.principal(credentials)
    await service.cancel(dependencies, again, run.id)
    assert [seen.id async for seen in service.watch(dependencies, again, run.id)] == [run.id]


async def test_an_admin_with_globs_is_told_why_a_repository_was_not_kept(dependencies, ledger):
    run = await service.start(dependencies, BOSS, StartRequest(PAY_URL, "pay/new"))
    other = await service.start(dependencies, ADMIN, StartRequest(URL, "web/new"))
    for one in (run, other):
        ledger.end(one.id, RunState.FAILED, "the host refused", withdraws=True)
    assert not ledger.names()

    boss = replace(BOSS, visible=Visibility.of([]))
    assert [one.error async for one in service.watch(dependencies, boss, run.id)] == [
        "the host refused"
    ]
    reader = replace(boss, role=Role.READER)
    for who, id in ((boss, other.id), (reader, run.id)):
        with pytest.raises(NotFound, match="there is no run"):
            await anext(service.watch(dependencies, who, id))


async def test_labels_are_set_by_name_and_by_glob_within_what_is_visible(dependencies):
    ledger = dependencies.ledger
    registered(ledger, pay__a=None, pay__b=None, web__a=None)

    assert await service.label(dependencies, BOSS, "**", "public") == ("pay/a",)
    assert await service.label(dependencies, ADMIN, "pay/*", "internal") == ("pay/a", "pay/b")
    assert await service.label(dependencies, ADMIN, "pay/b", "") == ("pay/b",)
    assert ledger.labels() == {"pay/a": Label.INTERNAL, "pay/b": None, "web/a": None}
    for name in ("web/a", "web/nowhere"):
        with pytest.raises(NotFound, match="there is no repository"):
            await service.label(dependencies, BOSS, name, "public")
    with pytest.raises(InvalidQuery, match="there is no label 'secret'; there are: public"):
        await service.label(dependencies, ADMIN, "pay/a", "secret")
    with pytest.raises(InvalidQuery, match="holds 'a b'"):
        await service.label(dependencies, ADMIN, "a b", "public")


async def test_a_label_at_index_time_is_for_admins_and_stored_with_the_repository(dependencies):
    ledger = dependencies.ledger
    await service.start(dependencies, ADMIN, StartRequest(URL, "x/y", label="internal"))
    assert ledger.labels() == {"x/y": Label.INTERNAL}
    await service.start(dependencies, ADMIN, StartRequest(URL, "x/y"))
    assert ledger.labels() == {"x/y": Label.INTERNAL}

    indexer = Principal("key:i", Role.INDEXER, Visibility.of(["x/y"]))
    with pytest.raises(Denied, match=r"^a label requires the role admin"):
        await service.start(dependencies, indexer, StartRequest(URL, "x/y", label="public"))
    with pytest.raises(InvalidQuery, match="there is no label"):
        await service.start(dependencies, ADMIN, StartRequest(URL, "new", label="secret"))
    assert ledger.labels() == {"x/y": Label.INTERNAL}


async def test_a_plan_does_not_change_a_registered_repository(dependencies):
    ledger = dependencies.ledger
    await service.start(dependencies, ADMIN, StartRequest(URL, "x/y", exclude=["gen/"]))
    before = ledger.get("x/y")
    for field, value in (("include", ["src/"]), ("exclude", []), ("label", "public")):
        request = StartRequest(URL, "x/y", plan_only=True, **{field: value})
        with pytest.raises(InvalidQuery) as refused:
            await service.start(dependencies, ADMIN, request)
        assert refused.value.field == field
    run = await service.start(dependencies, ADMIN, StartRequest(URL, "x/y", plan_only=True))
    assert (run.kind, ledger.get("x/y")) == (RunKind.PLAN, before)


async def test_a_repository_that_is_planned_is_registered_until_the_plan_is_over(dependencies):
    ledger = dependencies.ledger
    request = StartRequest(URL, "x/new", include=["src/"], plan_only=True)
    run = await service.start(dependencies, ADMIN, request)
    assert (run.kind, run.state) == (RunKind.TRIAL, RunState.PULLING)
    assert ledger.get("x/new").patterns.include == ("src/",)
    cancelled = await service.cancel(dependencies, ADMIN, run.id)
    assert (cancelled.state, ledger.get("x/new")) == (RunState.CANCELLED, None)


async def test_a_plan_cannot_tell_a_hidden_name_from_a_free_one(dependencies):
    registered(dependencies.ledger, pay__a=Label.INTERNAL, pay__hidden=None)
    indexer = Principal("key:i", Role.INDEXER, Visibility.of(["pay/a"]), (("pay/*",),))
    refusals = set()
    for name in ("pay/hidden", "pay/free"):
        request = StartRequest(URL, name, exclude=["gen/"], plan_only=True)
        with pytest.raises(Denied) as refused:
            await service.start(dependencies, indexer, request)
        refusals.add(str(refused.value).replace(name, "NAME"))
    assert len(refusals) == 1


async def test_a_plan_cannot_tell_a_local_folder_from_none(dependencies, tmp_path):
    (tmp_path / "hidden").mkdir()
    indexer = Principal("key:i", Role.INDEXER, Visibility.of(["pay/a"]), (("pay/*",),))
    refusals = set()
    for name in ("hidden", "absent"):
        request = StartRequest(str(tmp_path / name), exclude=["gen/"], plan_only=True)
        with pytest.raises(Denied) as refused:
            await service.start(dependencies, indexer, request)
        refusals.add(str(refused.value).replace(name, "NAME"))
    assert len(refusals) == 1


async def test_the_answer_for_a_new_key_says_what_it_does_not_see(dependencies):
    registered(
        dependencies.ledger,
        pay__a=Label.INTERNAL,
        pay__b=None,
        pay__c=None,
        pay__d=Label.PRIVATE,
        web__a=None,
    )

    async def notices(name, *globs, role="reader"):
        request = CreateKeyRequest(name, role, repositories=globs)
        return (await service.create_key(dependencies, ADMIN, request)).notices

    bare, private = await notices("one", "pay/*")
    assert "2 of the 4 matching repositories: they have no label" in bare
    assert "1 of the 4 matching repositories: they are private" in private
    assert await notices("two", "pay/a", "pay/d") == ()
    assert await notices("three", role="admin") == ()
    for name, role in (("five", "reader"), ("six", "admin")):
        assert await notices(name, "pya/*", role=role) == (
            "the globs of the key match no repository so far",
        )
    (wide,) = await notices("four")
    assert "only repositories with the label public, and those that the account" in wide
    assert "gives to key:four" in wide

    sync = SyncDeclaration("work", "gitea", "host.example/web", 300, 3600, emails=False, claim="")
    dependencies.permissions.declare([sync])
    (of_host,) = await notices("seven", "web/*")
    assert "1 of the 1 matching repositories are under permission sync" in of_host
    assert "gives to key:seven" in of_host
    _, of_host = await notices("eight")
    assert "1 of the 5 repositories are under permission sync" in of_host
    assert "gives to key:eight" in of_host
