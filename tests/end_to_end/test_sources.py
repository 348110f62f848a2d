"""A real cluster follows an organisation on a real Gitea, and leaks none of its secrets."""

from __future__ import annotations

import base64
from pathlib import Path

import httpx
import pytest

from codelode.cluster import token_file
from tests.end_to_end.runs import said
from tests.end_to_end.surfaces import Flower, collected
from tests.gitea import PASSWORD, Gitea
from tests.ssh_keys import new_ssh_key

SECRET = "canary-of-the-webhooks"
#: A repository that git cannot reach, for which it is given the ssh key.
UNREACHABLE = "ssh://git@127.0.0.1:1/acme/elsewhere"


@pytest.fixture
def gitea(tmp_path, program_of):
    server = Gitea(program_of("gitea"), tmp_path)
    server.start()
    server.call("POST", "/orgs", username="acme", visibility="private")
    yield server
    server.stop()


@pytest.fixture
def cluster(tmp_path, gitea, cluster_at):
    """A cluster that follows the organisation with a token, as a user without credentials."""
    (tmp_path / "token").write_text(gitea.admin_token)
    (tmp_path / "secret").write_text(SECRET)
    private, public = new_ssh_key()
    (tmp_path / "key").write_text(private)
    (tmp_path / "sources.yaml").write_text(
        f"connections:\n- name: work\n  kind: gitea\n  url: {gitea.url}\n  organisation: acme\n"
        f"  token: {{file: {tmp_path / 'token'}}}\n"
        f"  webhook_secret: {{file: {tmp_path / 'secret'}}}\n"
        "  repositories: {exclude: ['**/old'], every: 1h}\n"
        f"- name: over-ssh\n  kind: urls\n  urls: ['{UNREACHABLE}']\n"
        f"  ssh: {{private_key: {{file: {tmp_path / 'key'}}}, known_hosts: 'h.example {public}'}}\n"
    )
    made = cluster_at(tmp_path / "data", sources=str(tmp_path / "sources.yaml"), log_level="debug")
    yield made
    made.kill()


def rest(cluster, path):
    """Return the text of an answer of the REST API."""
    token = token_file(cluster.data).read_text()
    headers = {"authorization": f"Bearer {token}"}
    answer = httpx.get(f"{cluster.facts['http']}{path}", headers=headers, trust_env=False)
    assert answer.status_code == 200
    return answer.text


def refused_delivery(cluster):
    """Return the text of the answer to a delivery with a wrong signature."""
    url, signature = f"{cluster.facts['http']}/webhooks/work", {"x-gitea-signature": "0" * 64}
    answer = httpx.post(url, json={"ref": "refs/heads/main"}, headers=signature, trust_env=False)
    assert answer.status_code == 401
    return answer.text


def failed_runs(cluster):
    """Return the repositories whose runs have failed, with the reasons, as text."""
    with cluster.client() as client:
        runs = client.status().runs
    return " ".join(f"{one.repository} {one.error}" for one in runs if one.error)


def found(cluster, word):
    with cluster.client() as client:
        return {hit.repository for hit in client.search(word, top_k=20).hits}


def test_an_organisation_is_followed_and_its_secrets_appear_nowhere(gitea, cluster, wait_for):
    word = "def lantern():\n    return 1\n"
    for name in ("app", "lib", "old"):
        gitea.repository(f"acme/{name}", content=word)
    cluster.start(flower=True)
    gitea.webhook("acme", f"{cluster.facts['http']}/webhooks/work", SECRET)
    wait_for(lambda: found(cluster, "lantern") == {"acme/app", "acme/lib"}, "the first listing")

    gitea.repository("acme/new", content=word)  # webhooks report it and its first commit
    wait_for(lambda: "acme/new" in found(cluster, "lantern"), "the new repository")
    gitea.call("PATCH", "/repos/acme/lib", name="library")  # Gitea reports no renames
    planned = said(cluster, "sources", "plan")
    assert "rename    acme/library  (was acme/lib)" in planned[1]
    synced = said(cluster, "sources", "sync", "work", "--wait")
    assert "1 rename" in synced[1]
    wait_for(
        lambda: found(cluster, "lantern") == {"acme/app", "acme/library", "acme/new"}, "the rename"
    )
    gitea.call("DELETE", "/repos/acme/new")
    wait_for(lambda: "miss acme/new" in said(cluster, "sources", "list")[1], "the deletion")
    assert "acme/new" in found(cluster, "lantern")  # during the grace period

    token = Path(cluster.data.parent / "token")
    token.write_text("wrong")
    refused = said(cluster, "sources", "sync", "work", "--wait")
    assert "401" in refused[1]
    answers = [planned, synced, refused]
    commands = ("sources list --json", "sources check", "status --json", "failures", "repos --json")
    answers += [said(cluster, *command.split()) for command in commands]
    wait_for(lambda: "elsewhere" in failed_runs(cluster), "git to be given the ssh key")
    pages = {path: rest(cluster, f"/api/v1{path}") for path in ("/sources", "/status")}
    pages["/webhooks"] = refused_delivery(cluster)
    with Flower(cluster) as flower:
        wait_for(flower.workers, "the workers at Flower")
        pages |= flower.pages()
    surfaces = collected(cluster, answers) | {path: text.encode() for path, text in pages.items()}
    pair = base64.b64encode(f"token:{gitea.admin_token}".encode()).rstrip(b"=")
    key = (cluster.data.parent / "key").read_bytes().splitlines()[2]
    for canary in (gitea.admin_token.encode(), pair, SECRET.encode(), key):
        assert [name for name, content in surfaces.items() if canary in content] == []


def paths(cluster, word):
    """Return the files that a search finds, including those that are only similar."""
    with cluster.client() as client:
        return {hit.path for hit in client.search(word, top_k=20).hits}


def refs(cluster, name):
    """Return the default ref and the indexed refs of a repository; None if it is not registered."""
    with cluster.client() as client:
        known = {one.repository.name: one for one in client.repositories()}
    one = known.get(name)
    return one and (one.repository.default_ref, [each.ref for each in one.refs if each.indexed])


def push(git, url, branch, files):
    """Push files to a branch at the host."""
    git.run("fetch", "--quiet", url, branch)
    git.run("checkout", "--quiet", "-B", branch, "FETCH_HEAD")
    git.commit(files)
    git.run("push", "--quiet", url, branch)


def test_a_change_of_the_default_branch_at_the_host_is_followed(gitea, cluster, git, wait_for):
    url = gitea.url.replace("://", f"://root:{PASSWORD}@") + "/acme/app.git"
    gitea.repository("acme/app", content="def lantern():\n    return 1\n")
    cluster.start()
    gitea.webhook("acme", f"{cluster.facts['http']}/webhooks/work", SECRET)
    wait_for(lambda: refs(cluster, "acme/app") == ("main", ["main"]), "the first listing")

    for name in ("trunk", "next"):
        gitea.call("POST", "/repos/acme/app/branches", new_branch_name=name)
    gitea.call("PATCH", "/repos/acme/app", default_branch="trunk")  # no webhook reports it
    push(git, url, "trunk", {"more.py": "def beacon():\n    return 2\n"})
    wait_for(lambda: refs(cluster, "acme/app") == ("trunk", ["trunk"]), "the push to the new one")
    wait_for(lambda: "more.py" in paths(cluster, "beacon"), "its file")

    gitea.call("PATCH", "/repos/acme/app", default_branch="next")
    assert "default branch is next" in said(cluster, "sources", "sync", "work", "--wait")[1]
    wait_for(lambda: refs(cluster, "acme/app") == ("next", ["next"]), "the listing")
    wait_for(lambda: "more.py" not in paths(cluster, "beacon"), "the file to leave")
