"""The sources file: what it declares, and what a mistake in it gets."""

from __future__ import annotations

import pytest

from codelode.errors import InvalidSettings
from codelode.sources import Connection, HostKind, PermissionSync, Secret, parse, read

GOOD = """
connections:
  - name: work
    kind: gitea
    url: https://git.example.com/
    token: {env: GITEA_TOKEN}
    permissions: {every: 10m, max_age: 2d, emails: true, claim: gitea_id}
  - name: cloud
    kind: github
    organisation: acme
    token: {file: /run/secrets/github}
"""
ONE = "connections:\n- name: work\n  kind: gitea\n  url: https://h\n  token: {env: T}\n"


def test_a_file_declares_connections():
    assert parse(GOOD, file="f") == (
        Connection(
            "work",
            HostKind.GITEA,
            "https://git.example.com",
            Secret(env="GITEA_TOKEN"),
            permissions=PermissionSync(600, 172_800, emails=True, claim="gitea_id"),
        ),
        Connection(
            "cloud",
            HostKind.GITHUB,
            "https://github.com",
            Secret(file="/run/secrets/github"),
            "acme",
        ),
    )
    (one,) = parse(f"{ONE}  permissions: {{}}\n", file="f")
    assert one.permissions == PermissionSync(300, 86_400)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty; write `connections:`"),
        ("connections: {}\n", 1, "must be a list"),
        ("sources: []\n", 1, "has 'sources'"),
        ("connections:\n- name: a\n  kind: gitea\n", 2, "lacks token"),
        (ONE.replace("work", "a b"), 2, "rename it"),
        (ONE.replace("gitea", "gitee"), 3, "there are: github, gitlab, gitea"),
        (ONE.replace("gitea\n  url: https://h", "gitea"), 2, "needs the url"),
        (ONE.replace("gitea", "github"), 2, "needs its organisation"),
        (ONE.replace("https://h", "http://git.example"), 4, "must start with https://"),
        (ONE.replace("https://h", "https://user:secret@h"), 4, "must be that of a host"),
        (ONE.replace("https://h", "git.example"), 4, "must be that of a host"),
        (ONE.replace("{env: T}", "ghp_secret"), 5, "the file never holds the token"),
        (ONE.replace("{env: T}", "{value: ghp_secret}"), 5, "it may have env and file"),
        (ONE.replace("{env: T}", "{env: T, file: f}"), 5, "write token: {env: VARIABLE}"),
        (f"{ONE}  organisation: 'a b'\n", 6, "its name in the URLs"),
        (f"{ONE}  permissions: {{every: 5}}\n", 6, "write a time such as"),
        (f"{ONE}  permissions: {{every: 0s}}\n", 6, "write a time such as"),
        (f"{ONE}  permissions: {{max_age: 99d}}\n", 6, "at most 30d"),
        (f"{ONE}  permissions: {{every: 1h, max_age: 1h}}\n", 6, "longer than every"),
        (f"{ONE}  permissions: {{emails: maybe}}\n", 6, "write true or false"),
        (f"{ONE}  permissions: {{interval: 5m}}\n", 6, "has 'interval'"),
        (ONE + ONE.partition("\n")[2], 6, "two connections have the name 'work'"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_never_with_a_secret(text, line, message):
    with pytest.raises(InvalidSettings) as caught:
        parse(text, file="/etc/sources.yaml")

    assert str(caught.value).startswith(f"/etc/sources.yaml:{line}: ")
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_secret_is_read_where_the_file_says(tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_text("from-file\n")
    monkeypatch.setenv("GITEA_TOKEN", " from-environment ")

    assert Secret(file=str(path)).value() == "from-file"
    assert Secret(env="GITEA_TOKEN").value() == "from-environment"
    monkeypatch.delenv("GITEA_TOKEN")
    with pytest.raises(InvalidSettings, match="GITEA_TOKEN is not set"):
        Secret(env="GITEA_TOKEN").value()
    with pytest.raises(InvalidSettings, match="missing"):
        Secret(file=str(tmp_path / "missing")).value()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidSettings, match="cannot read the sources file"):
        read(tmp_path / "sources.yaml")
