"""From git over jobs and the index to a search over gRPC, in real processes."""

from __future__ import annotations

import json
from contextlib import closing
from typing import NamedTuple

import pytest

from codelode.backends import registry
from codelode.cli import main
from codelode.cluster import token_file
from codelode.errors import InvalidQuery, NotFound
from codelode.model import RepositoryName, RunState
from tests.waiting import wait_until

#: For tests of what happens before the store, which take seconds of processor time.
with_any_store = pytest.mark.parametrize("store", ["local"], indirect=True)

CACHE = '''"""Caching of rendered templates."""

import time


class TemplateCache:
    """Keeps rendered templates until they expire."""

    def __init__(self, lifetime_s):
        self.lifetime_s = lifetime_s
        self.entries = {}

    def evict_expired(self):
        """Drop every entry whose lifetime is over."""
        now = time.monotonic()
        for key, (born, _) in list(self.entries.items()):
            if now - born > self.lifetime_s:
                del self.entries[key]
'''

SERVER = """package server

import "net/http"

// ListenAndRetry serves until the listener is closed, retrying temporary errors.
func ListenAndRetry(handler http.Handler, address string) error {
	for {
		err := http.ListenAndServe(address, handler)
		if !isTemporary(err) {
			return err
		}
	}
}
"""


STUB = "def generated_stub_name():\n    return 1\n"

#: The address of a repository at a host that does not answer, as that of a mistyped host.
AWAY = "https://127.0.0.1:1/away"


class Answer(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def codelode(capsys, monkeypatch):
    """`codelode(cluster, *args)` runs a command in this process and returns its result."""

    def run(cluster, *args):
        monkeypatch.setenv("CODELODE_SERVER", cluster.facts["grpc"])
        monkeypatch.setenv("CODELODE_TOKEN_FILE", str(token_file(cluster.data)))
        with pytest.raises(SystemExit) as ended:
            main(args)
        return Answer(int(ended.value.code or 0), *capsys.readouterr())

    return run


def logged(cluster, stage):
    """Return the JSON lines of a log; a killed parser also leaves lines that are not JSON."""
    lines = (cluster.data / "logs" / f"{stage}.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_committed_code_is_found(cluster, git):
    git.commit({"app/cache.py": CACHE, "server/main.go": SERVER, "README.md": "# Demo\n"})
    with cluster.client() as client:
        run = client.index(str(git.folder), name="found")
        assert (run.state, run.total, run.failed) == (RunState.COMPLETE, 3, 0)
        hit = client.search("drop entries whose lifetime is over", repositories=["found"])[0]
        assert (hit.path, hit.language) == ("app/cache.py", "python")
        assert "evict_expired" in hit.content
        lines = CACHE.splitlines()
        assert hit.content.splitlines()[0] == lines[hit.start_line - 1]
        assert hit.content.rstrip("\n").splitlines()[-1] == lines[hit.end_line - 1]
        hit = client.search("ListenAndRetry", repositories=["found"])[0]
        assert (hit.path, hit.symbol, hit.kind) == (
            "server/main.go",
            "ListenAndRetry",
            "function",
        )


def test_an_unchanged_repository_enqueues_nothing(cluster, git):
    git.commit({"a.py": CACHE})
    with cluster.client() as client:
        client.index(str(git.folder), name="unchanged")
        again = client.index(str(git.folder), name="unchanged")
    assert (again.state, again.total) == (RunState.COMPLETE, 0)


def test_a_new_commit_touches_only_what_changed(cluster, git):
    git.commit({"keep.py": CACHE, "old.py": "def obsolete_name():\n    return 1\n"})
    with cluster.client() as client:
        client.index(str(git.folder), name="changed")
        revision = git.commit({"old.py": None, "new.py": "def brand_new_name():\n    return 2\n"})
        run = client.index(str(git.folder), name="changed")
        assert (run.total, run.revision) == (2, revision)
        assert client.search("brand_new_name", repositories=["changed"])[0].path == "new.py"
        paths = {hit.path for hit in client.search("obsolete_name", repositories=["changed"])}
        assert "old.py" not in paths


def test_indexing_commits_one_by_one_gives_the_same_index_as_the_last_alone(cluster, git):
    versions = [
        {f"m{n}.py": f"def f{n}_{v}():\n    return {v}\n" for n in range(v, v + 6)}
        for v in range(4)
    ]
    with cluster.client() as client:
        for files in versions:
            git.commit(files)
            client.index(str(git.folder), name="stepwise")
        git.run("mv", "m3.py", "renamed.py")
        git.run("rm", "--quiet", "m4.py")
        git.commit({})
        client.index(str(git.folder), name="stepwise")
        stepwise, _ = cluster.index_of("stepwise")
        client.remove("stepwise")
        client.index(str(git.folder), name="stepwise")
        fresh, _ = cluster.index_of("stepwise")
    assert stepwise == fresh
    assert len(fresh) == 8


def test_another_ref_is_searched_by_name_and_only_by_name(cluster, git):
    git.commit({"a.py": "def on_main():\n    return 1\n"})
    git.run("checkout", "--quiet", "-b", "feature")
    git.commit({"b.py": "def on_feature_only():\n    return 2\n"})
    git.run("checkout", "--quiet", "main")
    with cluster.client() as client:
        client.index(str(git.folder), name="refs")
        client.index(str(git.folder), name="refs", ref="feature")
        by_default = client.search("on_feature_only", repositories=["refs"])
        assert "b.py" not in {hit.path for hit in by_default}
        hits = client.search("on_feature_only", repositories=["refs"], ref="feature")
        assert hits[0].path == "b.py"
        assert "a.py" in {hit.path for hit in hits}


def test_checking_out_another_branch_does_not_change_the_index(cluster, git):
    git.commit({"a.py": "def on_main():\n    return 1\n"})
    git.run("checkout", "--quiet", "-b", "feature/x")
    git.commit({"b.py": "def on_feature_only():\n    return 2\n", "a.py": None})
    found = {}
    with cluster.client() as client:
        run = client.index(str(git.folder), name="pinned")
        assert "feature/x" in " ".join(run.notices)
        found["pinned"] = {hit.path for hit in client.search("on", repositories=["pinned"])}
        *_, run = client.watch(client.set_default("pinned", "feature/x"))
        assert run.state is RunState.COMPLETE
        found["changed"] = {hit.path for hit in client.search("on", repositories=["pinned"])}
        (listed,) = [one for one in client.repositories() if one.repository.name == "pinned"]
    assert found == {"pinned": {"a.py"}, "changed": {"b.py"}}
    assert listed.repository.default_ref == "feature/x"


@with_any_store
def test_a_plan_estimates_what_the_run_then_does_and_changes_nothing(cluster, library, git):
    """The library is parsed as a whole, so that the estimate is that of all files."""
    with cluster.client() as client:

        def listed():
            return {one.repository.name: one.refs for one in client.repositories()}

        def planned(folder, **given):
            run = client.plan(str(folder), name="planned", **given)
            assert (run.state, run.error) == (RunState.PLANNED, "")
            return run.estimate

        before = planned(library.folder)
        assert "planned" not in listed()
        run = client.index(str(library.folder), name="planned")
        (ref,) = listed()["planned"]
        assert before.files == run.done > 90
        assert before.chunks == pytest.approx(ref.chunks, rel=0.2)
        skipped = {}
        for one in client.failures("planned", include_skipped=True):
            reason = one.reason.partition(":")[0]
            skipped[reason] = skipped.get(reason, 0) + 1
        assert {one.reason: one.files for one in before.skipped} == skipped
        assert planned(library.folder).files == 0
        client.remove("planned")
        git.commit({"a.py": "a = 1\n", "b.py": "import a\n", "c.py": "c = 1\n"})
        client.index(str(git.folder), name="planned")
        git.commit({"a.py": None, "c.py": "c = 2\n"})
        state, after = listed()["planned"], planned(git.folder)
        assert listed()["planned"] == state
        run = client.index(str(git.folder), name="planned")
        assert (after.files + after.removals, after.removals) == (run.total, 1)
        unknown = client.plan(str(git.folder), name="planned", ref="nowhere")
        assert (unknown.state, "no branch or tag" in unknown.error) == (RunState.FAILED, True)


def test_files_left_out_are_listed_with_their_reason(cluster, git):
    git.commit(
        {
            "ok.py": CACHE,
            "data.bin": b"\0\1\2" * 100,
            "huge.txt": "x\n" * 600_000,
            "logo.png": b"\x89PNG\r\n",
        }
    )
    with cluster.client() as client:
        run = client.index(str(git.folder), name="left-out")
        assert run.state is RunState.COMPLETE
        reasons = {
            found.path: found.reason for found in client.failures("left-out", include_skipped=True)
        }
    assert set(reasons) == {"data.bin", "huge.txt", "logo.png"}
    assert all(reasons.values())


def test_patterns_choose_the_files_until_they_change_or_are_cleared(cluster, codelode, git):
    git.commit(
        {
            "app/cache.py": CACHE,
            "app/gen/stubs.py": STUB,
            "server/main.go": SERVER,
            "node_modules/ours/index.js": "function ourVendoredName() { return 1 }\n",
        }
    )

    def indexed(*options):
        """Return how many files a run with the options processed, and those found afterwards."""
        done = codelode(cluster, "index", str(git.folder), "--name", "chosen", "--wait", *options)
        assert done.returncode == 0, done.stderr
        run = next(run for run in client.status().runs if run.repository == "chosen")
        hits = client.search("return", repositories=["chosen"], top_k=50)
        return run.total, {hit.path for hit in hits}

    with cluster.client() as client:
        assert indexed("--include", "app/", "--exclude", "gen/") == (1, {"app/cache.py"})
        assert indexed() == (0, {"app/cache.py"})
        left_out = client.failures("chosen", include_skipped=True)
        assert {found.path: found.reason for found in left_out} == {
            "app/gen/stubs.py": "excluded",
            "server/main.go": "not_included",
            "node_modules/ours/index.js": "not_included",
        }

        git.commit({"app/gen/more.py": STUB, "app/more.py": CACHE})
        assert indexed() == (1, {"app/cache.py", "app/more.py"})
        only = {"app/gen/stubs.py", "app/gen/more.py"}
        assert indexed("--exclude", "*.py", "--exclude", "!gen/*.py") == (2, set())
        assert indexed("--exclude", "*.py", "--exclude", "!/app/gen/*.py") == (2, only)
        shown = json.loads(codelode(cluster, "repos", "--json").stdout)
        (patterns,) = [one["patterns"] for one in shown if one["name"] == "chosen"]
        assert patterns == {"include": ["app/"], "exclude": ["*.py", "!/app/gen/*.py"]}

        slip = ("index", str(git.folder), "--name", "chosen", "--wait", "--include", "ap/")
        refused = codelode(cluster, *slip)
        assert refused.returncode == 2
        assert "ap/ matches none of the" in refused.stderr
        assert {hit.path for hit in client.search("return", repositories=["chosen"])} == only

        everything = {*only, "app/cache.py", "app/more.py", "server/main.go"}
        assert indexed("--no-patterns") == (3, everything)
        vendored = "node_modules/ours/index.js"
        assert indexed("--exclude", "!node_modules/ours/") == (1, {*everything, vendored})
        assert indexed() == (0, {*everything, vendored})


@with_any_store
def test_a_file_that_stalls_its_parser_is_one_failure_and_the_run_completes(cluster, git):
    git.commit({"poison.cob": "x", "fine.py": CACHE})
    with cluster.client() as client:
        run = client.index(str(git.folder), name="poison")
        assert (run.state, run.done, run.failed) == (RunState.COMPLETE, 1, 1)
        (failure,) = client.failures("poison")
        assert failure.path == "poison.cob"
        assert "5 s" in failure.reason
        assert client.search("template cache", repositories=["poison"])[0].path == "fine.py"


def test_a_deleted_or_removed_ref_disappears_and_the_others_stay(cluster, git):
    git.commit({"a.py": "def on_main():\n    return 1\n"})
    for name in ("one", "two"):
        git.run("checkout", "--quiet", "-b", name)
        git.commit({f"{name}.py": f"def on_{name}():\n    return 2\n"})
    git.run("checkout", "--quiet", "main")
    with cluster.client() as client:
        for ref in ("", "one", "two"):
            assert client.index(str(git.folder), name="leaving", ref=ref).state is RunState.COMPLETE
        git.run("branch", "-D", "two")
        run = client.index(str(git.folder), name="leaving")
        assert run.notices == ("two has left the source and is removed from the index",)
        client.remove("leaving", ref="one")
        for ref in ("one", "two"):
            with pytest.raises(InvalidQuery, match=f"no ref '{ref}'"):
                client.search("on", repositories=["leaving"], ref=ref)
        wait_until(lambda: not removals(cluster), "the workers to remove both refs")
        assert stored_refs(cluster, "leaving") == {"main", "HEAD"}
        assert [hit.path for hit in client.search("on", repositories=["leaving"])] == ["a.py"]


def removals(cluster):
    return registry.ledger(cluster.settings()).refs_being_removed()


def stored_refs(cluster, name):
    """Return the refs at which the chunk store holds a chunk of the repository."""
    inventory = registry.inventory(cluster.settings())
    with closing(inventory):
        return {ref for refs in inventory.counts(RepositoryName(name)).values() for ref in refs}


def test_a_mistyped_url_is_reported_and_leaves_nothing(cluster, git, codelode):
    commit = git.commit({"a.py": CACHE})
    slips = (
        (str(git.folder.parent / "nowhere"), "slip", ()),
        (str(git.folder), "slip", ("--ref", "mian")),
        ("https://127.0.0.1:1/slip", "slip/host", ("--ref", "-x")),
    )
    for url, name, more in slips:
        slip = codelode(cluster, "index", url, "--name", name, "--wait", *more)
        assert slip.returncode == 2
    with cluster.client() as client:
        names = {found.repository.name for found in client.repositories()}
        assert not names & {"slip", "slip/host"}
    assert "slip" not in codelode(cluster, "failures").stderr
    away = codelode(cluster, "index", AWAY, "--name", "away", "--wait")
    assert (away.returncode, "the repository is not kept" in away.stderr) == (2, True)
    assert "away" not in codelode(cluster, "failures").stderr
    right = codelode(cluster, "index", str(git.folder), "--name", "slip", "--wait")
    assert (right.returncode, right.stderr.count("codelode:")) == (0, 0)
    short = codelode(
        cluster, "index", str(git.folder), "--name", "slip", "--ref", commit[:8], "--wait"
    )
    assert short.returncode == 0
    found = codelode(cluster, "search", "cache", "--repo", "slip", "--ref", commit[:8])
    assert "a.py" in found.stdout


def test_a_removed_repository_is_gone(cluster, git):
    git.commit({"a.py": CACHE})
    with cluster.client() as client:
        client.index(str(git.folder), name="removed")
        client.remove("removed")
        assert "removed" not in {found.repository.name for found in client.repositories()}
        with pytest.raises(InvalidQuery, match="removed"):
            client.search("cache", repositories=["removed"])
        with pytest.raises(NotFound):
            client.remove("removed")


def test_stage_outputs_of_a_cancelled_run_are_removed(cluster, library, wait_for):
    inventory = registry.table_inventory(cluster.settings())
    with cluster.client() as client:
        run = client.index(str(library.folder), name="cancelled", wait=False)
        wait_for(lambda: run.id in inventory.stage_outputs(), "something to be handed over")
        assert client.cancel(run).state is RunState.CANCELLED
    wait_for(lambda: run.id not in inventory.stage_outputs(), "an end of what was handed over")


def test_a_repository_that_cannot_be_read_fails_its_run_with_the_reason(cluster, git):
    git.commit({"a.py": CACHE})
    with cluster.client() as client:
        run = client.index(str(git.folder), name="no-ref", ref="no-such-branch")
    assert run.state is RunState.FAILED
    assert "no-such-branch" in run.error
    said = [line for line in logged(cluster, "pull") if line["event"] == "run_failed"]
    assert [line["repository"] for line in said if line["run"] == run.id] == ["no-ref"]


@pytest.mark.parametrize("stage", ["pull", "parse", "embed", "store", "beat"])
def test_a_log_begins_without_banner_and_warnings(cluster, stage):
    text = (cluster.data / "logs" / f"{stage}.log").read_text()

    assert json.loads(text.partition("\n")[0])
    assert "[queues]" not in text
    assert "SecurityWarning" not in text


@pytest.mark.parametrize(
    "store", ["local"], indirect=True
)  # the command ends when the gateway fails
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["index", "ext::sh -c touch% /tmp/owned"], "URL"),
        (["index", "--", "--upload-pack=touch"], "URL"),
        (["index", "/nowhere/at/all"], "URL"),
        (["index", "https://host.example/x", "--include", "!src/"], "include"),
        (["index", "https://host.example/x", "--exclude", "a[" * 250], "exclude"),
        (["index", "https://host.example/x", *["--exclude", "x/"] * 101], "exclude"),
        (["search", "x", "--repo", "no-such-repository"], "no-such-repository"),
        (["search", "x", "--language", "klingon"], "klingon"),
        (["search", "x", "--kind", "gizmo"], "gizmo"),
        (["search", "x", "--ref", "no-such-ref"], "no-such-ref"),
        (["search", "   "], "QUERY"),
        (["search", "y" * 100_000], "QUERY"),
        (["search", "x", "--top-k", "0"], "top"),
        (["search", "x", "--top-k", "1000000"], "top"),
        (["remove", "--yes", "no-such-repository"], "no-such-repository"),
        (["failures", "no-such-repository"], "no-such-repository"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:40],
)
def test_bad_input_is_one_line_that_names_the_field(cluster, codelode, arguments, named):
    done = codelode(cluster, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_search_json_has_the_documented_shape(cluster, codelode, git):
    git.commit({"app/cache.py": CACHE})
    assert codelode(cluster, "index", str(git.folder), "--name", "json", "--wait").returncode == 0
    done = codelode(cluster, "search", "evict expired", "--repo", "json", "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert set(answer) >= {"hits", "took_ms"}
    assert set(answer["hits"][0]) >= {
        "repository", "path", "start_line", "end_line", "language", "symbol", "kind",
        "score", "match", "content",
    }  # fmt: skip


def test_a_search_without_a_match_exits_with_one(cluster, codelode, git):
    git.commit({"app/cache.py": CACHE})
    codelode(cluster, "index", str(git.folder), "--name", "nothing", "--wait")
    done = codelode(cluster, "search", "cache", "--repo", "nothing", "--path", "nowhere/**")
    assert done.returncode == 1
