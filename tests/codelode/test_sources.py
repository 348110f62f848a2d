"""The sources file is read, and errors in it name the line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from codelode.access import Label
from codelode.errors import InvalidSettings
from codelode.repository_rules import FIELDS as RULES
from codelode.repository_rules import HostVisibility, RepositoryRules, RunPriority
from codelode.sources import FIELDS, App, Connection, HostKind, PermissionSync, Secret, parse, read
from codelode.sources_schema import schema
from tests.ssh_keys import new_ssh_key

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
FOLLOWED = """
connections:
  - name: cloud
    kind: github
    organisation: acme
    token: {env: T}
    repositories:
      include: ["acme/*"]
      exclude: ["acme/*-archive"]
      topics: [search]
      visibility: [private, internal]
      forks: false
      archived: false
      max_size: 2GB
      branches: ["release/*"]
      tags: ["v*"]
      newest_tags: 5
      label: internal
      every: 15m
      at_least_every: 2h
      grace: 3d
      paused: ["acme/huge*"]
      priority: low
      weights: {"acme/App": 3, "acme/*": 2}
  - {name: list, kind: urls, urls: [https://h/a/b/, "git@h:a/c"]}
  - {name: here, kind: folder, path: /srv/git/, repositories: {every: 1m}}
"""
AS_APP = """
connections:
  - name: cloud
    kind: github
    organisation: acme
    app: {id: 123456, private_key: {file: /run/secrets/app.pem}, installation: "77"}
  - {name: two, kind: github, organisation: b, app: {id: Iv1.8a61f9b3, private_key: {env: KEY}}}
"""
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsABgH5C9okWi0dh2l9GKJl"
OVER_SSH = f"""
connections:
  - name: over-ssh
    kind: urls
    urls: [git@h.example:a/b]
    ssh:
      private_key: {{env: KEY}}
      known_hosts: |
        # published by the host
        h.example {HOST_KEY}
        @cert-authority *.h.example {HOST_KEY} a comment
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


def test_a_sources_file_declares_which_repositories_to_follow():
    cloud, urls, folder = parse(FOLLOWED, file="f")

    assert cloud.repositories == RepositoryRules(
        include=("acme/*",),
        exclude=("acme/*-archive",),
        topics=("search",),
        visibility=(HostVisibility.PRIVATE, HostVisibility.INTERNAL),
        forks=False,
        archived=False,
        max_size_bytes=2 * 10**9,
        branches=("release/*",),
        tags=("v*",),
        newest_tags=5,
        label=Label.INTERNAL,
        every_s=900,
        at_least_every_s=7_200,
        grace_s=3 * 86_400,
        paused=("acme/huge*",),
        priority=RunPriority.LOW,
        weights=(("acme/App", 3), ("acme/*", 2)),
    )
    assert (urls.urls, urls.repositories) == (("https://h/a/b", "git@h:a/c"), RepositoryRules())
    assert (folder.url, folder.repositories.every_s) == ("/srv/git", 60)
    assert folder.repositories.at_least_every_s == 240
    assert [one.secret() for one in (urls, folder)] == ["", ""]


def test_the_first_glob_that_matches_says_what_a_repository_weighs():
    rules = parse(FOLLOWED, file="f")[0].repositories
    names = ("acme/app", "acme/other", "else/where")
    assert [rules.weight(name) for name in names] == [3, 2, 1]


def test_a_file_declares_apps_in_the_place_of_tokens():
    cloud, two = parse(AS_APP, file="f")

    assert (cloud.token, two.token) == (None, None)
    assert cloud.app == App("123456", Secret(file="/run/secrets/app.pem"), "77")
    assert two.app == App("Iv1.8a61f9b3", Secret(env="KEY"))
    assert [one.line for one in (*cloud.secrets, *two.secrets)] == [6, 7]


def test_a_file_declares_the_key_and_the_host_keys_of_urls_over_ssh():
    (one,) = parse(OVER_SSH, file="f")

    assert (one.ssh.private_key, one.credential.line) == (Secret(env="KEY"), 7)
    assert one.ssh.known_hosts.splitlines()[1] == f"h.example {HOST_KEY}"


@pytest.mark.parametrize(
    ("kind", "more", "url"),
    [
        ("gitea", ", url: 'ssh://git@h.example:2222/'", "ssh://git@h.example:2222"),
        ("gitlab", "", "ssh://git@h.example"),
        ("bitbucket-server", "", "ssh://git@h.example:7999"),
    ],
)
def test_git_can_read_the_repositories_of_a_code_host_over_ssh(kind, more, url):
    ssh = f"{{private_key: {{env: KEY}}, known_hosts: h.example {HOST_KEY}{more}}}"
    text = f"kind: {kind}, url: 'https://h.example/x', token: {{env: TOKEN}}, ssh: {ssh}"
    (one,) = parse(f"connections:\n  - {{name: over, {text}}}\n", file="f")

    assert one.ssh.url == url
    assert [secret.env for secret in one.secrets] == ["TOKEN", "KEY"]
    assert one.credential.env == "TOKEN"  # the host itself is asked with it


def test_services_have_their_own_hosts_of_ssh():
    ssh = f"{{private_key: {{env: KEY}}, known_hosts: h.example {HOST_KEY}}}"
    rest = f"organisation: a, token: {{env: TOKEN}}, ssh: {ssh}}}\n"
    kinds = ("github", "bitbucket", "azure")
    lines = [f"  - {{name: {kind}, kind: {kind}, {rest}" for kind in kinds]
    found = [one.ssh.url for one in parse("connections:\n" + "".join(lines), file="f")]

    assert found == [
        f"ssh://git@{one}" for one in ("github.com", "bitbucket.org", "ssh.dev.azure.com")
    ]


@pytest.mark.parametrize("url", ["https://DEV.azure.com/", "https://dev.azure.com:443"])
def test_every_spelling_of_a_service_is_the_service(url):
    ssh = f"{{private_key: {{env: KEY}}, known_hosts: h.example {HOST_KEY}}}"
    rest = f"organisation: a, token: {{env: TOKEN}}, ssh: {ssh}"
    (one,) = parse(f"connections: [{{name: a, kind: azure, url: '{url}', {rest}}}]", file="f")

    assert (one.url, one.ssh.url) == ("https://dev.azure.com", "ssh://git@ssh.dev.azure.com")


def test_the_digest_of_the_rules_changes_with_them_alone():
    cloud, urls, _ = parse(FOLLOWED, file="f")
    slower, more, _ = parse(
        FOLLOWED.replace("15m", "16m").replace('"git@h:a/c"', '"git@h:a/d"'), file="f"
    )

    assert cloud.rules_digest != slower.rules_digest
    assert urls.rules_digest != more.rules_digest
    renewed, *_ = parse(FOLLOWED.replace("{env: T}", "{env: U}"), file="f")
    assert cloud.rules_digest == renewed.rules_digest


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty; write `connections: []`"),
        ("connections: {}\n", 1, "must be a list"),
        ("sources: []\n", 1, "the file has no field 'sources'; it may have: connections"),
        ("connections:\n- name: a\n  kind: gitea\n", 2, "lacks token"),
        (ONE.replace("work", "a b"), 2, "rename it"),
        (
            ONE.replace("gitea", "gitee"),
            3,
            "github, gitlab, gitea, bitbucket, bitbucket-server",
        ),
        (ONE.replace("gitea", "azure"), 2, "of kind azure needs its organisation"),
        (f"{ONE.replace('gitea', 'bitbucket')}  permissions: {{}}\n", 6, "no field 'permissions'"),
        (
            ONE.replace("gitea", "urls"),
            4,
            "of kind urls has no field 'url'; it may have: urls, ssh, repositories",
        ),
        ("connections:\n- {name: a, kind: urls}\n", 2, "lacks urls"),
        ("connections:\n- {name: a, kind: urls, urls: x}\n", 2, "urls must be a list"),
        ("connections:\n- {name: a, kind: urls, urls: [/srv/git]}\n", 2, "of kind folder"),
        (
            "connections:\n- {name: a, kind: urls, urls: ['https://u:secret@h/a']}\n",
            *(2, "holds a password or token"),
        ),
        ("connections:\n- {name: a, kind: folder, path: git}\n", 2, "from the root"),
        (f"{ONE}  repositories: {{refs: [main]}}\n", 6, "has no field 'refs'; it may have: "),
        (f"{ONE}  repositories:\n", 6, "must be a mapping: lines of the form `name: …`, or {}"),
        (f"{ONE}  repositories: {{include: acme}}\n", 6, "must be a list of globs"),
        (f"{ONE}  repositories: {{exclude: ['a b']}}\n", 6, "exclude holds 'a b'"),
        (f"{ONE}  repositories: {{visibility: [open]}}\n", 6, "public, internal, private"),
        (f"{ONE}  repositories: {{at_least_every: 59m}}\n", 6, "must not be shorter than every"),
        (f"{ONE}  repositories: {{max_size: 5}}\n", 6, "max_size must be a size such as 500MB"),
        (f"{ONE}  repositories: {{label: secret-label}}\n".replace("secret-", ""), 6, "no label"),
        (f"{ONE}  repositories: {{forks: some}}\n", 6, "forks must be true or false"),
        (f"{ONE}  repositories: {{newest_tags: 0}}\n", 6, "newest_tags must be a number from 1 to"),
        (f"{ONE}  repositories: {{priority: top}}\n", 6, "there are: high, normal, low"),
        (f"{ONE}  repositories: {{weights: 3}}\n", 6, "weights must be a mapping"),
        (f"{ONE}  repositories: {{weights: {{'a/*': 0}}}}\n", 6, "the weight of 'a/*' must be a n"),
        (f"{ONE}  repositories: {{newest_tags: many}}\n", 6, "must be a number from 1 to 100"),
        (f"{ONE}  repositories: {{newest_tags: {'1' * 5_000}}}\n", 6, "must be a number from 1 to"),
        (f'{ONE}  repositories: {{exclude: ["a\\uD800"]}}\n', 6, "has half of a character"),
        (f"{ONE}  repositories: {{tags: ['a b']}}\n", 6, "write names of tags with letters"),
        (ONE.replace("gitea\n  url: https://h", "gitea"), 2, "needs the url"),
        (ONE.replace("gitea", "github"), 2, "needs its organisation"),
        (ONE.replace("https://h", "http://git.example"), 4, "must start with https://"),
        (ONE.replace("https://h", "https://user:secret@h"), 4, "url must be the URL of a host"),
        (ONE.replace("https://h", "git.example"), 4, "url must be the URL of a host"),
        (ONE.replace("{env: T}", "ghp_secret"), 5, "the file never holds the token"),
        (ONE.replace("{env: T}", "{value: ghp_secret}"), 5, "it may have: env, file"),
        (ONE.replace("{env: T}", "{env: T, file: f}"), 5, "write token: {env: VARIABLE}"),
        (f"{ONE.replace('gitea', 'bitbucket')}  app: {{id: 1}}\n", 6, "has no field 'app'"),
        (AS_APP.replace("    app:", "    token: {env: T}\n    app:"), 6, "a token and an app"),
        (AS_APP.replace("id: 123456, ", ""), 6, "the app lacks id"),
        (AS_APP.replace("123456", "[secret]"), 6, "the number that the settings of the app show"),
        (AS_APP.replace("{env: KEY}", "secret"), 7, "the file never holds the key"),
        (AS_APP.replace("app: {", "app: {name: a, "), 6, "the app has no field 'name'"),
        (AS_APP.partition("    app:")[0], 3, "lacks token or app"),
        (OVER_SSH.replace(HOST_KEY, "ssh-ed25519 AAAA"), 8, "line 2 of known_hosts holds no host"),
        (OVER_SSH.replace(f"h.example {HOST_KEY}\n", "secret\n"), 8, "line 2 of known_hosts"),
        (OVER_SSH.partition("      known_hosts")[0], 7, "ssh lacks known_hosts"),
        (OVER_SSH.partition("|")[0] + "''\n", 8, "known_hosts is empty"),
        (OVER_SSH.replace("{env: KEY}", "secret"), 7, "the file never holds the key"),
        (f"{ONE.replace('gitea', 'azure')}  app: {{}}\n", 6, "has no field 'app'"),
        (f"{ONE}  organisation: 'a b'\n", 6, "its name in the URLs"),
        (f"{ONE}  permissions: {{every: 5}}\n", 6, "every must be a time such as"),
        (f"{ONE}  permissions: {{every: 0s}}\n", 6, "every must be a time such as"),
        (f"{ONE}  permissions: {{max_age: 99d}}\n", 6, "at most 30d"),
        (f"{ONE}  permissions: {{every: 1h, max_age: 1h}}\n", 6, "longer than every"),
        (f"{ONE}  permissions: {{emails: maybe}}\n", 6, "emails must be true or false"),
        (f"{ONE}  permissions: {{interval: 5m}}\n", 6, "has no field 'interval'"),
        (ONE + ONE.partition("\n")[2], 6, "two connections have the name 'work'"),
    ],
)
def test_an_error_in_the_file_names_its_line_and_no_secret(text, line, message):
    with pytest.raises(InvalidSettings) as caught:
        parse(text, file="/etc/sources.yaml")

    assert str(caught.value).startswith(f"/etc/sources.yaml:{line}: ")
    assert message in str(caught.value)
    assert "secret" not in str(caught.value).replace("webhook_secret", "")  # the field


def test_a_secret_is_read_from_where_the_file_says(tmp_path, monkeypatch):
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


def test_the_path_of_a_secret_starts_at_the_folder_of_the_file(tmp_path, monkeypatch):
    (tmp_path / "sources.yaml").write_text(
        "connections:\n"
        "- name: work\n  kind: gitea\n  url: https://h.example\n  token: {file: secrets/token}\n"
        "  webhook_secret: {file: ../hooks}\n"
        f"  ssh: {{private_key: {{file: key}}, known_hosts: 'h.example {new_ssh_key()[1]}'}}\n"
        "- {name: app, kind: github, organisation: acme,\n"
        "   app: {id: 1, private_key: {file: /run/app.pem}}, webhook_secret: {file: ~/hooks}}\n"
        "- {name: odd, kind: gitea, url: 'https://h.example', token: {file: ~no-such-user/t}}\n"
    )
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir("/")
    work, app, odd = read(tmp_path / "sources.yaml")

    assert (work.token.file, work.token.line) == (str(tmp_path / "secrets/token"), 5)
    assert work.webhook_secret.file == str(tmp_path / "../hooks")
    assert work.ssh.private_key.file == str(tmp_path / "key")
    assert app.app.private_key.file == "/run/app.pem"
    assert app.webhook_secret.file == "/home/somebody/hooks"
    monkeypatch.chdir(tmp_path)
    assert odd.token.file == str(tmp_path / "~no-such-user/t")
    assert read(Path("sources.yaml")) == (work, app, odd)
    with pytest.raises(InvalidSettings, match=str(tmp_path / "secrets/token")):
        work.token.value()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidSettings, match="cannot read the sources file"):
        read(tmp_path / "sources.yaml")


def test_the_schema_knows_each_field_and_accepts_what_the_parser_accepts():
    jsonschema = pytest.importorskip("jsonschema")
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    validate = jsonschema.Draft202012Validator(made).is_valid

    for text in (GOOD, FOLLOWED, ONE, AS_APP, OVER_SSH):
        assert validate(yaml.safe_load(text))
    for text in (
        *(ONE.replace("gitea", "gitee"), ONE.replace("{env: T}", "ghp_secret")),
        AS_APP.replace("    app:", "    token: {env: T}\n    app:"),
        AS_APP.partition("    app:")[0],
        *(f"{ONE}  more: 1\n", f"{ONE}  repositories: {{refs: [main]}}\n"),
    ):
        assert not validate(yaml.safe_load(text))
    by_kind = made["properties"]["connections"]["items"]["oneOf"]
    for one in by_kind:
        fields = FIELDS[HostKind(one["properties"]["kind"]["const"])]
        assert one["properties"].keys() == {"name", "kind", *fields}
        assert one["properties"]["repositories"]["properties"].keys() == {*RULES}
