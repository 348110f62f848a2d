"""`codelode keys` and the methods of both clients, against a gateway over memory."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import pytest

from codelode.cli import main
from codelode.client import AsyncClient, Client
from codelode.errors import Denied, Unauthenticated
from codelode.repository_sources import Action, Change, Mode, SourceDeclaration, SourceOutcome
from tests.contracts.test_faces import Running
from tests.waiting import wait_until


class Answer(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    started = Running(tmp_path_factory.mktemp("gateway"))
    yield started
    started.close()


@pytest.fixture(autouse=True)
def _unlabelled(running):
    yield
    with Client(running.address) as client:
        client.label("**", "")


@pytest.fixture
def codelode(running, capsys, monkeypatch):
    """Run `codelode ARGUMENTS…` as the admin, or with a key."""
    monkeypatch.setenv("CODELODE_SERVER", running.address)

    def run(*args: str, key: str = "") -> Answer:
        monkeypatch.setenv("CODELODE_TOKEN", key)
        with pytest.raises(SystemExit) as ended:
            main(args)
        captured = capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run


def test_a_key_is_created_shown_once_used_listed_and_revoked(codelode):
    created = codelode("keys", "create", "ci", "--repos", "acme/h*", "--expires", "90d")

    key = created.out.strip()
    assert created.status == 0
    codelode("label", "acme/*", "internal")
    assert "cannot be shown again" in created.err
    found = json.loads(codelode("repos", "--json", key=key).out)
    assert [one["name"] for one in found] == ["acme/http"]
    denied = codelode("keys", "list", key=key)
    assert denied.status == 2
    assert denied.err.startswith("codelode: this requires the role admin, and ")
    listed = codelode("keys", "list")
    assert all(word in listed.out for word in ("ci", "reader", "acme/h*"))
    assert key not in listed.out
    (one,) = json.loads(codelode("keys", "list", "--json").out)
    assert one["bounds"] == [["acme/h*"]]
    assert one["expires_at"] - one["created_at"] == pytest.approx(90 * 86_400)
    assert codelode("keys", "revoke", "ci").status == 0
    refused = codelode("repos", key=key)
    assert refused.status == 2
    assert "wrong or was revoked" in refused.err
    assert "no keys yet" in codelode("keys", "list").err


def test_revoking_a_key_names_the_valid_keys_that_it_had_created(codelode, running):
    def made(name, *options, by=""):
        return codelode("keys", "create", name, *options, key=by).out.strip()

    parent = made("parent", "--role", "admin")
    child = made("child", "--role", "admin", by=parent)
    made("grandchild", by=child)
    made("other")
    made("parents-twin", by=made("twin", "--role", "admin"))
    made("expired", by=parent)
    (stored,) = [one for one in running.dependencies.keys.all() if one.name == "expired"]
    running.dependencies.keys.remove(stored.id)
    running.dependencies.keys.add(replace(stored, expires_at=stored.created_at))
    try:
        own = codelode("keys", "revoke", "parent", key=parent)
        assert own.status == 0
        assert own.err == (
            "revoked parent\n"
            "key child is still valid, which key:parent created; to revoke it too: "
            "`codelode keys revoke child`\n"
            "key grandchild is still valid, which key:child created; to revoke it too: "
            "`codelode keys revoke grandchild`\n"
        )
        assert own.out == ""
        assert codelode("keys", "revoke", "other").err == "revoked other\n"
    finally:
        with Client(running.address, token="") as client:
            left = client.keys()
            for key in left:
                client.revoke_key(key.name)


def test_keys_that_have_created_each_other_are_named_once(codelode, running):
    first = codelode("keys", "create", "first", "--role", "admin").out.strip()
    second = codelode("keys", "create", "second", "--role", "admin", key=first).out.strip()
    codelode("keys", "revoke", "first")
    codelode("keys", "create", "first", key=second)  # another key of that name

    assert codelode("keys", "revoke", "second").err.count("is still valid") == 1
    assert codelode("keys", "revoke", "first").err == "revoked first\n"


@pytest.mark.parametrize("time", ["90", "0d", "-1d", "1y", "d", "1.5h"])
def test_a_malformed_time_is_refused_with_an_example(codelode, time):
    answer = codelode("keys", "create", "ci", "--expires", time)

    assert answer.status == 2
    assert "such as 12h, 90d, or 52w" in answer.err


def test_an_unknown_key_is_not_revoked(codelode):
    answer = codelode("keys", "revoke", "nowhere")

    assert answer.status == 2
    assert "there is no key 'nowhere'" in answer.err


async def test_both_clients_create_list_and_revoke(running):
    with Client(running.address) as client:
        created = client.create_key("one", role="indexer", repositories=["acme/*"])
        assert created.key.role == "indexer"
        assert created.text not in repr(created)
        assert client.keys() == (created.key,)
        assert client.label("acme/*", "internal") == ("acme/http", "acme/web")
    async with AsyncClient(running.address, token=created.text) as own:
        assert [one.repository.name for one in await own.repositories()] == [
            "acme/http",
            "acme/web",
        ]
        with pytest.raises(Denied, match="requires the role admin"):
            await own.keys()
        async with AsyncClient(running.address) as admin:
            await admin.revoke_key("one")
        with pytest.raises(Unauthenticated):
            await own.repositories()


def test_a_label_decides_who_sees_a_repository(codelode):
    key = codelode("keys", "create", "reader").out.strip()
    assert "no repositories yet" in codelode("repos", key=key).err

    answer = codelode("label", "acme/h*", "public")

    assert (answer.status, answer.out) == (0, "acme/http  public\n")
    found = json.loads(codelode("repos", "--json", key=key).out)
    assert [(one["name"], one["label"]) for one in found] == [("acme/http", "public")]
    assert "public" in codelode("repos").out
    assert codelode("label", "acme/http", "none").status == 0
    assert "no repositories yet" in codelode("repos", key=key).err
    assert "requires the role admin" in codelode("label", "acme/http", "public", key=key).err
    codelode("keys", "revoke", "reader")


def test_the_creator_of_a_key_is_told_what_it_does_not_see(codelode):
    created = codelode("keys", "create", "web", "--repos", "acme/web")

    assert "1 of the 1 matching repositories: they have no label" in created.err
    codelode("keys", "revoke", "web")


def test_the_permissions_of_hosts_are_listed_and_asked_for(running, codelode):
    from codelode.host_permissions import SyncDeclaration

    assert "see CODELODE_SOURCES" in codelode("permissions", "list").err
    asked = codelode("permissions", "sync")
    assert (asked.status, "declare one with `permissions:`" in asked.err) == (2, True)
    states = running.dependencies.permissions
    declared = SyncDeclaration("work", "gitea", "h.example/", 300, 3600, emails=True, claim="")
    states.declare([declared])
    states.report("/etc/sources.yaml:3: there is no kind 'gitee'")
    try:
        shown = codelode("permissions", "list")
        assert (shown.status, shown.err) == (0, "")
        assert "h.example/" in shown.out
        assert "work: only admins see its repositories, because its permissions" in shown.out
        assert "work: a reading is due or under way" in shown.out
        assert "problem: /etc/sources.yaml:3: there is no kind" in shown.out
        (one,) = json.loads(codelode("permissions", "list", "--json").out)["connections"]
        assert (one["connection"], one["max_age_s"], one["synced_at"]) == ("work", 3600, 0)
        assert "reading the permissions of work" in codelode("permissions", "sync", "work").err
        assert "there is no connection 'x'" in codelode("permissions", "sync", "x").err
    finally:
        states.declare([])
        states.report("")


def test_the_sources_are_checked_listed_planned_and_synced(running, codelode):
    states = running.dependencies.sources
    assert "see CODELODE_SOURCES" in codelode("sources", "list").err
    asked = codelode("sources", "sync")
    assert (asked.status, "declare one with `repositories:`" in asked.err) == (2, True)
    states.declare([SourceDeclaration("work", "gitea", "h.example/", 300, "rules")])
    try:
        assert "work: a listing is due or under way" in codelode("sources", "list").out
        assert "listing the repositories of work" in codelode("sources", "sync", "--yes").err
        assert states.states()[0].mode is Mode.CONFIRM
        assert "there is no connection 'x'" in codelode("sources", "sync", "x").err
        with ThreadPoolExecutor(1) as pool:
            asked = states.states()[0].wanted
            planning = pool.submit(codelode, "sources", "plan")
            wait_until(lambda: states.states()[0].wanted != asked, "the request")
            changes = (
                Change(Action.REGISTER, "acme/a", "https://h/a"),
                Change(Action.MISS, "acme/b", "its host does not list it"),
            )
            outcome = SourceOutcome(planned_at=5.0, listed=2, changes=changes, waiting="much")
            states.hold("work", "me", for_s=60)
            states.finish("work", "me", outcome, None)
            shown = planning.result(30)
        assert shown.out.splitlines() == [
            "register  acme/a  (https://h/a)",
            "miss      acme/b  (its host does not list it)",
            "work: 2 repositories listed, 1 register, 1 miss",
            "work: much",
        ]
        assert "repositories of work: much" in codelode("status").out
        listed = codelode("sources", "list").out
        assert "work: miss acme/b: its host does not list it" in listed
        (one,) = json.loads(codelode("sources", "list", "--json").out)["sources"]
        assert (one["connection"], len(one["changes"]), one["is_due"]) == ("work", 2, True)
    finally:
        states.declare([])


def test_the_sources_file_is_checked_without_a_cluster(codelode, tmp_path, monkeypatch):
    file = tmp_path / "sources.yaml"
    file.write_text(
        "connections:\n- name: work\n  kind: gitea\n  url: https://h\n  token: {env: OF_WORK}\n"
        "  repositories: {}\n- {name: list, kind: urls, urls: ['https://h/a/b']}\n"
    )
    missing = codelode("sources", "check", str(file))
    assert (missing.status, f"{file}:5: work: the environment variable OF_WORK" in missing.err) == (
        2,
        True,
    )
    monkeypatch.setenv("OF_WORK", "canary")
    monkeypatch.setenv("CODELODE_SOURCES", str(file))
    checked = codelode("sources", "check")
    assert (checked.status, checked.err) == (0, "")
    assert "https://h" in checked.out
    assert "1 URL" in checked.out
    assert "canary" not in checked.out

    file.write_text(
        "connections:\n- name: hub\n  kind: github\n  organisation: acme\n"
        "  app:\n    id: 1\n    private_key: {env: OF_WORK}\n  repositories: {}\n"
    )
    no_key = codelode("sources", "check")
    assert (no_key.status, "canary" in no_key.out + no_key.err) == (2, False)
    problem = f"{file}:7: hub: the environment variable OF_WORK holds no private RSA key"
    assert problem in no_key.err
    file.write_text("connections:\n- {name: work, kind: svn}\n")
    wrong = codelode("sources", "check")
    assert (wrong.status, f"{file}:2: there is no kind 'svn'" in wrong.err) == (2, True)
    assert "oneOf" in codelode("sources", "schema").out
