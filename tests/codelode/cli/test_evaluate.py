"""`codelode eval`: figures, the grep baseline, the gate, queries from a history."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from codelode.errors import InvalidSettings
from codelode.operations.evaluation import grep
from codelode.operations.evaluation import history as history_of
from codelode.v1 import search_pb2


def hit(path, content="x" * 40, repository="acme/http", **fields):
    place = {"repository": repository, "path": path, "start_line": 1, "end_line": 9}
    return search_pb2.Hit(**place, content=content, **fields)


@pytest.fixture
def queries(tmp_path):
    file = tmp_path / "queries.json"
    entry = {
        "repo": "acme/http",
        "language": "python",
        "queries": [
            {"query": "retry a call", "category": "semantic", "relevant": ["src/retry.py"]},
            {
                "query": "Client",
                "category": "symbol",
                "relevant": [{"path": "src/client.py", "start_line": 100, "end_line": 120}],
            },
        ],
    }
    file.write_text(json.dumps([entry]))
    return str(file)


def figures(answer):
    return json.loads(answer.out)


def test_metrics_are_over_all_queries_and_by_group(served, gateway, queries):
    gateway.hits = [hit("other.py"), hit("src/retry.py"), hit("src/client.py")]

    found = figures(served("eval", queries, "--json"))

    assert (found["queries"], found["repositories"]) == (2, 1)
    assert found["metrics"]["mrr"] == 0.25  # second place, and the wrong lines of the file
    assert found["metrics"]["r@5"] == 0.5
    assert found["by_category"] == {"semantic": 0.6309, "symbol": 0.0}
    assert found["tokens_to_first"] == (20 + 30) / 2
    assert found["found"] == 0.5


def test_queries_search_their_repository_and_skip_the_cache(served, gateway, queries):
    served("eval", queries, "--preset", "fast")
    served("eval", queries, "--scope", "all", "--set", "rank.ranker=fused")

    assert [list(request.filters.repositories) for request in gateway.requests] == [
        ["acme/http"],
        ["acme/http"],
        [],
        [],
    ]
    assert all(request.skip_cache for request in gateway.requests)
    assert gateway.requests[0].options.preset == "fast"
    assert gateway.requests[2].options.rank.ranker == "fused"


def test_a_hit_in_another_repository_matches_no_target(served, gateway, queries):
    gateway.hits = [hit("src/retry.py", repository="fork")]

    assert figures(served("eval", queries, "--json"))["metrics"]["ndcg@10"] == 0


def test_a_hit_counts_if_its_copy_is_the_target(served, gateway, queries):
    copy = search_pb2.Copy(
        repository="acme/http", path="src/retry.py", start_line=1, end_line=9, similarity=1.0
    )
    gateway.hits = [hit("lib/again.py", repository="fork", copies=[copy])]

    assert figures(served("eval", queries, "--json"))["metrics"]["ndcg@10"] > 0


def test_grep_reads_whole_files_of_a_checkout(served, gateway, queries, tmp_path):
    source = tmp_path / "checkouts/acme/http/src"
    source.mkdir(parents=True)
    (source / "retry.py").write_text("def retry(call): ...\n" * 40)
    (source / "call.py").write_text("call\n" * 400)
    (source / "image.png").write_bytes(b"retry call \0")
    (tmp_path / "checkouts/acme/http/.git").mkdir()
    (tmp_path / "checkouts/acme/http/.git/retry").write_text("retry a call")

    answer = served("eval", queries, "--json", "--grep", str(tmp_path / "checkouts"))

    grep = figures(answer)["grep"]
    assert grep["metrics"]["mrr"] == 0.5
    assert grep["tokens_to_first"] == (40 * 21 // 4) / 2
    text = served("eval", queries, "--grep", str(tmp_path / "checkouts")).out
    assert text.splitlines()[0].split() == ["search", "grep"]


@pytest.fixture
def committed(tmp_path):
    """Make a repository with a changed work tree, and return the commit with the answer."""
    folder = tmp_path / "work"
    folder.mkdir()

    def git(*arguments):
        who = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
        command = ["git", "-C", folder, *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (folder / "src").mkdir()
    (folder / "src/retry.py").write_text("def retry(call): ...\n" * 40)
    (folder / "image.png").write_bytes(b"retry call \0")
    (folder / "link.py").symlink_to("src/retry.py")
    (folder / "äö.py").write_text("")
    git("add", "-A")
    git("commit", "-qm", "answer")
    answer = git("rev-parse", "HEAD")
    git("rm", "-q", "src/retry.py")
    git("commit", "-qm", "gone")
    (folder / "ignored.py").write_text("retry call\n" * 400)
    return folder, answer


@pytest.mark.parametrize("name", ["acme/http", "acme/http.git", "acme-http-b850f78637.git"])
def test_grep_reads_the_commit_out_of_git_objects(
    served, gateway, queries, tmp_path, committed, name
):
    folder, answer = committed
    bare = tmp_path / "mirrors" / name
    subprocess.run(["git", "clone", "-q", "--bare", folder, bare], check=True)
    [entry] = json.loads(Path(queries).read_text())
    Path(queries).write_text(json.dumps([entry | {"revision": answer}]))

    found = figures(served("eval", queries, "--json", "--grep", str(tmp_path / "mirrors")))

    assert found["grep"]["metrics"]["mrr"] == 0.5
    assert found["grep"]["tokens_to_first"] == (40 * 21 // 4) / 2


def test_grep_leaves_out_what_is_not_committed(committed):
    folder, answer = committed

    assert sorted(grep.read(folder, answer)) == ["src/retry.py", "äö.py"]
    assert sorted(grep.read(folder)) == ["äö.py"]


@pytest.mark.parametrize("revision", ["0" * 40, "--help"])
def test_a_commit_that_is_not_there_is_refused_by_name(committed, revision):
    with pytest.raises(InvalidSettings, match=revision):
        grep.read(committed[0], revision)


def test_a_repository_that_is_not_there_is_refused(served, gateway, queries, tmp_path):
    answer = served("eval", queries, "--grep", str(tmp_path))

    assert answer.status == 2
    assert "acme/http" in answer.err


def test_the_gate_fails_if_quality_drops_too_much(served, gateway, queries, tmp_path):
    gateway.hits = [hit("src/retry.py")]
    saved = str(tmp_path / "result.json")
    assert served("eval", queries, "--save", saved).status == 0

    same = served("eval", queries, "--baseline", saved)
    gateway.hits = [hit("other.py"), hit("src/retry.py")]
    worse = served("eval", queries, "--baseline", saved)
    allowed = served("eval", queries, "--baseline", saved, "--max-drop", "0.5")

    assert (same.status, worse.status, allowed.status) == (0, 1, 0)
    assert "ndcg@10 fell by 36.9%, worse than allowed (5%)" in worse.err


@pytest.mark.parametrize("content", ["", "{}", "[{}]", '[{"repo": "a", "queries": [1]}]', "[]"])
def test_a_file_without_queries_is_refused(served, tmp_path, content):
    file = tmp_path / "bad.json"
    file.write_text(content)

    answer = served("eval", str(file))

    assert answer.status == 2
    assert "bad.json contains no" in answer.err


#: Signs and verifies as gpg does, as far as git can tell.
SIGNER = r"""#!/bin/sh
cat > /dev/null
printf '\na good signature\n[GNUPG:] SIG_CREATED \n' >&2
printf -- '-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----\n'
"""


class Checkout:
    """A git repository whose files are named by a letter."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments):
        who = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
        command = ["git", "-C", self.folder, *who, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, subject, **files):
        for name, content in files.items():
            (self.folder / f"{name}.py").write_text(content)
        self.git("add", "-A")
        self.git("commit", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path):
    return Checkout(tmp_path / "project")


@pytest.fixture
def checkout(history):
    history.commit("The very first commit", a="1", b="1", c="1")
    history.commit("Retry calls that failed", a="2", b="2")
    history.commit("Add a new file", d="1")
    history.commit("typo", c="2")
    history.commit("Wait between two calls (#12)", c="3")
    return history.folder


def asked(file):
    [entry] = json.loads(file.read_text())
    return [(one["query"], one["relevant"]) for one in entry["queries"]]


def test_queries_are_made_from_a_history(served, gateway, checkout, tmp_path):
    file = tmp_path / "mine.json"

    answer = served(
        "eval", str(file), "--from-history", str(checkout), "--repo", "me/it", "--commits", "4"
    )

    assert answer.status == 0
    [entry] = json.loads(file.read_text())
    assert entry["repo"] == "me/it"
    assert asked(file) == [
        ("Wait between two calls", ["c.py"]),
        ("Retry calls that failed", ["a.py", "b.py"]),
    ]
    assert entry["revision"] in answer.err
    assert served("eval", str(file)).status == 0


def test_merges_reverts_and_bulk_changes_give_no_queries(served, history, tmp_path):
    file = tmp_path / "mine.json"
    history.commit("The very first commit", **dict.fromkeys("abcdefgh", "1"))
    history.git("checkout", "-q", "-b", "feature")
    history.commit("Count the calls that failed", a="2")
    history.git("checkout", "-q", "main")
    history.commit("Rename everything at once", **dict.fromkeys("bcdefgh", "2"))
    history.git("merge", "-q", "--no-ff", "-m", "Merge branch feature into main", "feature")
    history.git("revert", "--no-edit", "-m", "1", "HEAD")
    history.commit("Merge equal entries of the table", b="3")

    served("eval", str(file), "--from-history", str(history.folder))

    assert asked(file) == [
        ("Merge equal entries of the table", ["b.py"]),
        ("Count the calls that failed", ["a.py"]),
    ]


def test_the_history_gives_the_files_of_each_commit_whatever_their_names(served, history, tmp_path):
    file = tmp_path / "mine.json"
    odd = {"line\nbreak": "1", "ümlaut and blank": "1"}
    history.commit("The very first commit", a="1", **odd)
    history.git("commit", "--allow-empty", "-m", "Nothing was changed here")
    history.commit("Change the odd names", **dict.fromkeys(odd, "2"))
    history.git("commit", "--allow-empty", "--allow-empty-message", "-m", "")
    history.git("mv", "a.py", "b.py")
    history.git("commit", "-m", "Give it another name")
    history.git("mv", "b.py", "a.py")
    history.commit("Give it the old name")

    served("eval", str(file), "--from-history", str(history.folder))

    assert asked(file) == [("Change the odd names", ["line\nbreak.py", "ümlaut and blank.py"])]


def test_a_history_is_read_alike_under_any_git_configuration(served, history, tmp_path):
    file, signer = tmp_path / "mine.json", tmp_path / "signer"
    signer.write_text(SIGNER)
    signer.chmod(0o755)
    history.git("config", "gpg.program", str(signer))
    history.git("config", "log.showSignature", "true")
    history.git("config", "diff.relative", "true")
    (history.folder / "sub").mkdir()
    history.commit("The very first commit", **{"a": "1", "sub/b": "1"})
    history.commit("Retry calls that failed", **{"a": "2", "sub/b": "2"})
    history.git("commit", "--amend", "--no-edit", "-S")
    history.commit("Wait between two calls", a="3")
    history.git("commit", "--amend", "--no-edit", "-S")
    assert "a good signature" in history.git("log")

    served("eval", str(file), "--from-history", str(history.folder / "sub"))

    assert asked(file) == [
        ("Wait between two calls", ["a.py"]),
        ("Retry calls that failed", ["a.py", "sub/b.py"]),
    ]


def test_only_the_newest_commits_of_a_long_history_are_read(served, history, tmp_path, monkeypatch):
    monkeypatch.setattr(history_of, "MAX_READ", 1)
    file = tmp_path / "mine.json"
    history.commit("The very first commit", a="1")
    history.commit("Retry calls that failed", a="2")
    history.commit("Wait between two calls", a="3")

    served("eval", str(file), "--from-history", str(history.folder))

    assert asked(file) == [("Wait between two calls", ["a.py"])]


def test_a_history_can_begin_after_a_named_revision(served, history, tmp_path):
    file = tmp_path / "mine.json"
    history.commit("The very first commit", a="1")
    history.commit("Retry calls that failed", a="2")
    released = history.git("rev-parse", "HEAD")
    history.git("tag", "v1")
    history.commit("Wait between two calls", a="3")

    served("eval", str(file), "--from-history", str(history.folder), "--since", "v1")

    assert asked(file) == [("Wait between two calls", ["a.py"])]
    assert json.loads(file.read_text())[0]["revision"] == released


@pytest.mark.parametrize("since", ["v9", "other"])
def test_a_history_that_does_not_follow_a_revision_is_refused(served, history, tmp_path, since):
    history.commit("The very first commit", a="1")
    history.git("checkout", "-q", "-b", "other")
    history.commit("Something beside the main line", a="2")
    history.git("checkout", "-q", "main")

    answer = served(
        "eval", str(tmp_path / "x"), "--from-history", str(history.folder), "--since", since
    )

    assert answer.status == 2
    assert since in answer.err


def test_a_folder_without_history_is_refused(served, tmp_path):
    answer = served("eval", str(tmp_path / "x.json"), "--from-history", str(tmp_path))

    assert answer.status == 2
    assert "git repository" in answer.err
