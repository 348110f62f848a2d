"""A cluster reads an organisation as a GitHub App, and shows its key and tokens nowhere."""

from __future__ import annotations

import base64
import subprocess

import pytest
from joserfc.jwk import RSAKey

from tests.end_to_end.runs import said
from tests.end_to_end.surfaces import Flower, collected
from tests.hosts import APP, GitHub


@pytest.fixture
def github(tmp_path, make_git):
    """A server whose repositories git can read only with tokens of the app."""
    server = GitHub()
    server.app, server.git = RSAKey.generate_key(2_048), tmp_path / "git"
    server.repositories = {1: ("app", "PRIVATE", []), 2: ("lib", "PRIVATE", [])}
    for name in ("app", "lib"):
        source = make_git()
        source.commit({"lamp.py": f"def lantern():\n    return {name!r}\n"})
        bare = server.git / "acme" / f"{name}.git"
        subprocess.run(["git", "clone", "-q", "--bare", source.folder, bare], check=True)
    yield server
    server.close()


@pytest.fixture
def cluster(tmp_path, github, cluster_at):
    """A cluster that follows the organisation as the app."""
    (tmp_path / "app.pem").write_bytes(github.app.as_pem(private=True))
    (tmp_path / "sources.yaml").write_text(
        f"connections:\n- name: work\n  kind: github\n  url: {github.url}\n  organisation: acme\n"
        f"  app: {{id: {APP}, private_key: {{file: {tmp_path / 'app.pem'}}}}}\n"
        "  repositories: {}\n  permissions: {emails: true}\n"
    )
    made = cluster_at(tmp_path / "data", sources=str(tmp_path / "sources.yaml"), log_level="debug")
    yield made
    made.kill()


def found(cluster):
    with cluster.client() as client:
        return {hit.repository for hit in client.search("lantern", top_k=20).hits}


def test_an_organisation_is_read_as_an_app_and_its_secrets_appear_nowhere(
    github, cluster, wait_for
):
    cluster.start(flower=True)
    wait_for(lambda: found(cluster) == {"acme/app", "acme/lib"}, "the first listing")
    key = github.app.as_pem(private=True).splitlines()[1]
    with Flower(cluster) as flower:
        wait_for(flower.workers, "the workers at Flower")
        answers = [said(cluster, "index", f"{github.url}/acme/app.git", "--wait")]
        assert answers[0][0] == 0
        wait_for(lambda: "workers.pull" in flower.jobs().values(), "the job at Flower")
        pages = flower.pages()
    github.app = RSAKey.generate_key(2_048)
    answers.append(said(cluster, "sources", "sync", "work", "--wait"))
    assert "could not be decoded" in answers[-1][1]
    commands = (
        *("sources list --json", "sources check", "permissions list --json", "status --json"),
        *("failures", "repos --json"),
    )
    answers += [said(cluster, *command.split()) for command in commands]

    surfaces = collected(cluster, answers)
    surfaces |= {f"Flower {path}": text.encode() for path, text in pages.items()}
    pairs = (base64.b64encode(f"x-access-token:{token}".encode()) for token in github.made)
    canaries = (*(token.encode() for token in github.made), *pairs, key)
    assert len(canaries) > 2
    for canary in canaries:
        assert [name for name, content in surfaces.items() if canary in content] == []
