"""Following the repositories of hosts registers, renames, and removes them in the catalog."""

from __future__ import annotations

import subprocess
import time
from typing import NamedTuple

import pytest
import structlog

from codelode.access import EVERYTHING, Label
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.sources import MemorySourceStates
from codelode.errors import Unavailable
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    ALL_FILES,
    DEFAULT_REF,
    BlobId,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    RunKind,
    RunState,
)
from codelode.repository_sources import Action, Mode
from codelode.sources import Connection, HostKind
from gateway.service.sources import problems
from tests.hosts import TOKEN, Azure, Bitbucket, BitbucketServer, CodeHost, GitHub, GitLab
from workers.sources import bitbucket, hostless, http
from workers.sources import github as github_
from workers.sources import gitlab as gitlab_
from workers.sources.credentials import GitCredentials
from workers.sources.following import SourceSync

NOW = 50_000.0


class Sent:
    """An outbox that records what was sent."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.forgotten = []
        self.runs = []
        self.is_away = False

    def pull(self, run, *, is_late=False):
        if self.is_away:
            raise Unavailable("the job broker does not answer")
        assert is_late
        self.runs.append(run)

    def forget(self, name):
        self.forgotten.append(name)


class World:
    """A sources file with one connection, a catalog, and a clock that tests move."""

    def __init__(self, folder, text):
        self.path, self.now = folder / "sources.yaml", NOW
        (folder / "token").write_text(TOKEN)
        self.path.write_text(text.replace("TOKEN", f"{{file: {folder / 'token'}}}"))
        self.ledger, self.states = MemoryLedger(), MemorySourceStates()
        self.outbox = Sent(self.ledger)
        self.sync = self.worker()

    def worker(self):
        given = (str(self.path), self.states, self.ledger)
        return SourceSync(*given, local_paths="owned", now=lambda: self.now)

    def run(self, mode=None, *, after=None):
        """List once, as the workers do, when a listing is due or `after` so many seconds."""
        (state,) = self.states.states() or (None,)
        self.now += (state.interval_s if state else 3_600) if after is None else after
        if mode:
            self.sync.due()
            self.states.want("work", mode)
        assert self.sync.due() == ("work",)
        with structlog.testing.capture_logs() as self.logged:
            self.sync.run("work", self.outbox)
        return self.outcome

    def done(self):
        """Complete the runs that were sent, and return their repositories and refs."""
        runs, self.outbox.runs = self.outbox.runs, []
        for run in runs:
            ref = RefName("main") if run.ref == DEFAULT_REF else run.ref
            manifest = FileManifest(Revision("a" * 40), (), makes_default=run.ref == DEFAULT_REF)
            self.ledger.plan(run.id, manifest, ref=ref, fingerprint="f")
        return [(run.repository, run.ref) for run in runs]

    @property
    def outcome(self):
        (state,) = self.states.states()
        return state.outcome

    def told(self):
        return {(one.action, one.repository) for one in self.outcome.changes}


def connection(kind, url, rules="{}"):
    return (
        f"connections:\n  - name: work\n    kind: {kind}\n    url: {url}\n"
        f"    organisation: acme\n    token: TOKEN\n    repositories: {rules}\n"
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Skip pauses that the host does not ask for, and use small pages."""
    for module in (github_, gitlab_):
        monkeypatch.setitem(module._PAGE, "per_page", 2)
    monkeypatch.setitem(bitbucket._PAGE, "pagelen", 2)
    monkeypatch.setitem(bitbucket._PAGE_OF_SERVER, "limit", 2)
    monkeypatch.setattr(http, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("random.random", lambda: 0.0)


@pytest.fixture
def github():
    server = GitHub()
    yield server
    server.close()


@pytest.fixture
def world(tmp_path, github):
    return World(tmp_path, connection("github", github.url, "{every: 1h, grace: 2h}"))


NAMES = {"acme/secret", "acme/tools", "acme/open", "acme/inner"}


def test_all_pages_are_registered_and_their_runs_come_last(world, github):
    outcome = world.run()

    assert set(world.ledger.names()) == NAMES
    assert world.told() == {(Action.REGISTER, name) for name in NAMES}
    assert (outcome.listed, outcome.repositories, outcome.requests) == (4, 4, 2)
    assert world.ledger.get(RepositoryName("acme/open")).url == f"{github.url}/acme/open.git"
    assert {name for name, _ in world.done()} == NAMES
    assert [one for one in world.logged if one["event"] == "repositories_listed"]


def test_an_unchanged_organisation_costs_a_request_per_page_and_no_run(world, github):
    world.run()
    world.done()
    outcome = world.run()

    assert (outcome.requests, outcome.changes, world.outbox.runs) == (2, (), [])
    assert github.unchanged == 1  # the last page is full, so it may have got a next one
    github.details[13] = {"pushed_at": "2026-11-02T00:00:00Z"}
    world.run()
    assert world.done() == [("acme/open", DEFAULT_REF)]


def test_the_interval_doubles_up_to_its_bound_while_nothing_changes(world, github):
    def interval_h():
        world.run()
        return world.states.states()[0].interval_s / 3_600

    first = interval_h()
    world.done()
    assert [first, *(interval_h() for _ in range(4))] == [1, 2, 4, 4, 4]

    github.details[13] = {"pushed_at": "2026-11-02T00:00:00Z"}
    assert interval_h() == 1
    assert (interval_h(), interval_h()) == (2, 4)
    github.details[13] = {"pushed_at": "2026-11-02T00:00:00Z", "default_branch": "next"}
    assert interval_h() == 1


def test_a_daily_comparison_or_a_missing_repository_counts_as_a_change_only_once(world, github):
    text = world.path.read_text()
    world.path.write_text(text.replace("every: 1h, grace: 2h", "every: 12h, grace: 20d"))
    world.run()
    world.done()
    world.run()
    world.run()
    assert world.told() == {(Action.UPDATE, name) for name in NAMES}  # after a day
    assert world.states.states()[0].interval_s == 48 * 3_600

    del github.repositories[13]
    for hours in (12, 24, 48):
        world.run()
        assert (Action.MISS, "acme/open") in world.told()
        assert world.states.states()[0].interval_s == hours * 3_600


def test_requested_listings_do_not_lengthen_the_interval_and_new_rules_reset_it(world):
    world.run()
    world.done()
    world.run()
    for _ in range(3):
        world.run(Mode.SYNC, after=60)
    assert world.states.states()[0].interval_s == 7_200
    world.path.write_text(world.path.read_text().replace("grace: 2h", "at_least_every: 90m"))
    world.run(after=60)
    assert world.states.states()[0].interval_s == 3_600
    world.run()
    assert world.states.states()[0].interval_s == 5_400


def test_github_says_what_its_repositories_are(world, github):
    github.details[11] = {"fork": True, "size": 2_000, "topics": ["web"]}
    github.details[12] = {"archived": True}
    world.path.write_text(
        world.path.read_text().replace("every: 1h", "forks: false, archived: false")
    )
    world.run()
    assert set(world.ledger.names()) == {"acme/open", "acme/inner"}

    world.path.write_text(world.path.read_text().replace("forks: false", "visibility: [public]"))
    world.run(after=0)
    assert world.told() == {(Action.REMOVE, "acme/inner")}


def test_a_changed_file_is_followed_at_once_and_a_wrong_one_changes_nothing(world):
    world.run()
    good = world.path.read_text()
    world.path.write_text(good.replace("grace: 2h", "grace: soon"))
    assert world.sync.due() == ()
    world.path.write_text(good.replace("grace: 2h", "grace: 2h, exclude: [acme/tools]"))

    world.run(after=0)
    assert world.told() == {(Action.REMOVE, "acme/tools")}
    assert world.outbox.forgotten == ["acme/tools"]


def test_a_renamed_repository_keeps_its_label_patterns_and_refs_and_then_its_old_name_leaves(
    world, github
):
    world.run()
    world.done()
    old, new = RepositoryName("acme/open"), RepositoryName("acme/wide")
    world.ledger.set_label(old, Label.PUBLIC)
    world.ledger.set_patterns(old, exclude=["docs/"])
    world.outbox.runs.append(world.ledger.create(old, RefName("next")))
    world.done()
    github.repositories[13] = ("wide", "PUBLIC", [])

    world.run()
    assert world.told() == {(Action.RENAME, new)}
    found = world.ledger.get(new)
    assert (found.label, found.patterns.exclude) == (Label.PUBLIC, ("docs/",))
    assert world.ledger.get(old) is not None
    assert world.sync.due() == ("work",)
    world.sync.run("work", world.outbox)  # it is not indexed yet
    assert world.ledger.get(old) is not None

    assert set(world.done()) == {(new, DEFAULT_REF)}  # the other ref waits for that
    world.sync.run("work", world.outbox)
    assert (world.ledger.get(old), world.outbox.forgotten) == (None, [old])
    assert world.sync.due() == ()
    assert {ref.ref for ref in world.ledger.refs(new)} == {"main"}
    assert len([run for run in world.ledger.recent(EVERYTHING) if run.repository == new]) == 2


def test_a_renamed_repository_whose_first_run_fails_keeps_its_label_and_patterns(world, github):
    world.run()
    world.done()
    old, new = RepositoryName("acme/open"), RepositoryName("acme/wide")
    world.ledger.set_label(old, Label.PRIVATE)
    world.ledger.set_patterns(old, exclude=["secrets/"])
    github.repositories[13] = ("wide", "PUBLIC", [])
    world.run()
    (failed,) = (run for run in world.outbox.runs if run.repository == new)
    world.ledger.end(failed.id, RunState.FAILED, "the token was refused", withdraws=True)
    assert world.ledger.get(new) is None

    world.run()
    assert world.told() == {(Action.REGISTER, new)}
    found = world.ledger.get(new)
    assert (found.label, found.patterns.exclude) == (Label.PRIVATE, ("secrets/",))


@pytest.fixture
def renamed(world, github):
    """A world in which acme/open was renamed to acme/wide, which is not indexed yet."""
    world.run()
    world.done()
    github.repositories[13] = ("wide", "PUBLIC", [])
    world.run()
    return world


def test_another_repository_that_was_registered_under_a_former_name_stays(renamed):
    old = RepositoryName("acme/open")
    renamed.ledger.unregister(old)
    renamed.ledger.register(Repository(old, "https://elsewhere.example/open.git"))
    renamed.done()
    renamed.sync.run("work", renamed.outbox)

    assert renamed.ledger.get(old) is not None
    assert renamed.outbox.forgotten == []
    assert renamed.sync.due() == ()


def test_a_former_name_with_a_requested_run_is_kept_until_the_next_listing(renamed, github):
    """Somebody may have made a new repository of that name at the host, and indexed it."""
    old = RepositoryName("acme/open")
    renamed.outbox.runs.append(renamed.ledger.create(old, DEFAULT_REF))
    renamed.done()
    renamed.sync.run("work", renamed.outbox)
    assert renamed.ledger.get(old) is not None

    github.repositories[15] = ("open", "PUBLIC", [])
    renamed.run(after=0, mode=Mode.SYNC)
    assert renamed.told() == {(Action.ADOPT, old)}
    renamed.done()
    assert (renamed.ledger.get(old) is not None, renamed.outbox.forgotten) == (True, [])
    assert renamed.sync.due() == ()


def test_a_former_name_that_nothing_has_at_the_host_leaves_with_the_next_listing(renamed):
    old = RepositoryName("acme/open")
    renamed.outbox.runs.append(renamed.ledger.create(old, DEFAULT_REF))
    renamed.done()
    renamed.run(after=0, mode=Mode.SYNC)

    assert (renamed.ledger.get(old), renamed.outbox.forgotten) == (None, [old])


def test_a_repository_registered_for_a_plan_does_not_take_the_name_of_a_listed_one(world, github):
    trial, hand = RepositoryName("trial"), RepositoryName("by-hand")
    for name, place in ((trial, "open"), (hand, "tools")):
        world.ledger.register(Repository(name, f"{github.url}/acme/{place}.git"))
    run = world.ledger.create(trial, DEFAULT_REF, kind=RunKind.TRIAL)
    world.outbox.runs.append(world.ledger.create(hand, DEFAULT_REF))
    world.done()

    world.run()
    told = world.told()
    assert {(Action.REGISTER, "acme/open"), (Action.ADOPT, hand)} <= told
    world.ledger.end(run.id, RunState.CANCELLED)
    assert trial not in world.ledger.names()


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_name_of_an_admin_that_was_never_read_is_not_read_with_the_token(
    world, github, has_failed
):
    """The admin may see that name, and perhaps not the repository."""
    mine, url = RepositoryName("mine/secret"), f"{github.url}/acme/secret.git"
    world.ledger.register(Repository(mine, url))
    run = world.ledger.create(mine, DEFAULT_REF)
    world.run()
    assert (Action.REGISTER, "acme/secret") in world.told()
    assert world.states.entrusted("work", mine) == ""

    if has_failed:
        world.ledger.end(run.id, RunState.FAILED, "permission denied", withdraws=True)
    world.done()
    world.run()
    assert world.told() == set()
    assert world.states.entrusted("work", mine) == ""


@pytest.mark.parametrize(("label", "kept"), [(Label.PUBLIC, None), (None, None)])
def test_a_new_repository_at_the_same_url_does_not_inherit_the_label(world, github, label, kept):
    world.run()
    world.done()
    name = RepositoryName("acme/open")
    world.ledger.set_label(name, label)
    github.repositories[99] = github.repositories.pop(13)
    world.run()
    assert world.told() == {(Action.UPDATE, name)}
    assert world.ledger.labels()[name] is kept


def test_a_new_repository_with_a_former_name_does_not_inherit_the_label(renamed, github):
    old = RepositoryName("acme/open")
    renamed.ledger.set_label(old, Label.PUBLIC)
    renamed.ledger.set_patterns(old, include=("src/",), exclude=())
    github.repositories[15] = ("open", "PUBLIC", [])
    renamed.run(after=0, mode=Mode.SYNC)

    assert renamed.told() == {(Action.ADOPT, old)}
    assert renamed.ledger.labels()[old] is None
    assert renamed.ledger.get(old).patterns == ALL_FILES


@pytest.mark.parametrize("is_same", [False, True])
def test_repositories_that_swap_their_names_get_no_label_of_each_other(world, github, is_same):
    world.run()
    world.done()
    names = RepositoryName("acme/open"), RepositoryName("acme/tools")
    labels = (Label.PUBLIC, Label.PUBLIC if is_same else Label.PRIVATE)
    for name, label in zip(names, labels, strict=True):
        world.ledger.set_label(name, label)
    repositories = github.repositories
    repositories[12], repositories[13] = repositories[13], repositories[12]
    world.run()

    assert {(Action.RENAME, name) for name in names} == world.told()
    expected = Label.PUBLIC if is_same else None
    assert [world.ledger.labels()[name] for name in names] == [expected] * 2


def test_a_repository_that_was_registered_by_hand_keeps_its_label(world, github):
    hand = RepositoryName("acme/open")
    world.ledger.register(Repository(hand, f"{github.url}/acme/open.git"))
    world.ledger.set_label(hand, Label.PUBLIC)
    world.run()

    assert (Action.ADOPT, hand) in world.told()
    assert world.ledger.labels()[hand] is Label.PUBLIC


def test_git_reads_with_the_token_what_is_followed_now_and_before_its_first_run(world, github):
    seen = []
    world.outbox.pull = lambda run, **_: seen.append(
        world.states.entrusted("work", run.repository) == f"{github.url}/{run.repository}.git"
    )
    world.run()
    assert seen == [True] * 4

    world.path.write_text(
        world.path.read_text().replace("every: 1h", "every: 1h, exclude: [acme/open]")
    )
    world.run(after=0)
    assert world.states.entrusted("work", "acme/open") == ""
    assert world.states.entrusted("work", "acme/tools") != ""


def test_repositories_followed_before_an_upgrade_get_the_token_before_the_next_listing(
    world, github
):
    """A version that kept no list of what git may read has left none, and the host may be away."""
    world.run()
    world.done()
    assert world.states.hold("work", "before", for_s=60)
    world.states.entrust("work", "before", {})
    world.states.release("work", "before")
    world.sync, asked = world.worker(), len(github.asked)

    assert world.sync.due() == ("work",)
    world.sync.run("work", world.outbox)
    assert {world.states.entrusted("work", name) != "" for name in NAMES} == {True}
    assert (world.sync.due(), len(github.asked)) == ((), asked)


def test_a_deleted_repository_leaves_after_the_time_of_grace(world, github):
    world.run()
    del github.repositories[13]
    world.run()
    assert world.told() == {(Action.MISS, "acme/open")}
    world.run()
    assert world.ledger.get(RepositoryName("acme/open")) is not None

    world.run()
    assert world.told() == {(Action.REMOVE, "acme/open")}
    assert world.outbox.forgotten == ["acme/open"]
    assert world.run().changes == ()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((401, {}, {"message": "Bad credentials"}), "401 (Bad credentials)"),
        ((404, {}, {"message": "Not Found"}), "404"),
        ((500, {}, b""), "500"),
        ((200, {}, {"not": "a list"}), "something other than a list"),
        ((200, {}, [{"id": 1}]), "unknown format"),
        ((429, {"Retry-After": "900"}, b""), "asks to wait for 900 s"),
    ],
)
def test_a_host_that_cannot_be_read_changes_nothing_and_is_reported(world, github, answer, error):
    world.run()
    github.always = answer
    outcome = world.run()

    assert error in outcome.error
    assert (outcome.repositories, set(world.ledger.names())) == (4, NAMES)
    assert world.outbox.forgotten == []
    github.always = None
    assert world.run(after=300).error == ""


def test_a_listing_that_breaks_off_half_way_changes_nothing(world, github):
    world.run()
    full = (200, {"Link": f'<{github.url}/api/v3/orgs/acme/repos?page=2>; rel="next"'}, [])
    github.answers = [full, *[(502, {}, b"")] * http.ATTEMPTS]

    assert "502" in world.run().error
    assert set(world.ledger.names()) == NAMES


def test_a_missing_token_is_named_and_never_shown(world, tmp_path):
    world.run()
    (tmp_path / "token").unlink()

    outcome = world.run()
    assert str(tmp_path / "token") in outcome.error
    assert TOKEN not in repr((outcome, world.logged, world.states.known("work")))


def test_a_plan_says_what_a_sync_would_do_and_does_nothing(world):
    outcome = world.run(Mode.PLAN)

    assert world.told() == {(Action.REGISTER, name) for name in NAMES}
    assert (outcome.planned_at, outcome.synced_at, world.ledger.names()) == (NOW + 3_600, 0.0, ())
    world.run(after=0)
    assert set(world.ledger.names()) == NAMES


def test_many_removals_wait_for_a_confirmation(world, github):
    for id in range(100, 110):
        github.repositories[id] = (f"r{id}", "PUBLIC", [])
    world.run()
    world.path.write_text(world.path.read_text().replace("every: 1h", "exclude: [acme/r*]"))

    assert "10 of 14 repositories" in world.run(after=0).waiting
    assert len(world.ledger.names()) == 14
    assert world.run(Mode.CONFIRM).waiting == ""
    assert set(world.ledger.names()) == NAMES


def test_the_next_worker_finds_what_a_worker_that_died_had_registered(
    world,
):
    world.outbox.is_away = True
    assert "does not answer" in world.run().error
    assert len(world.ledger.names()) == 1
    world.outbox.is_away = False

    world.sync = world.worker()
    assert world.run(after=300).repositories == 4
    assert {action for action, _ in world.told()} == {Action.REGISTER, Action.ADOPT}


def test_a_run_that_failed_is_repeated(world):
    world.run()
    world.done()
    failed = world.ledger.create(RepositoryName("acme/open"), DEFAULT_REF)
    world.ledger.end(failed.id, RunState.FAILED, "the host was away")

    world.run()
    assert world.told() == {(Action.UPDATE, "acme/open")}


def test_a_plan_that_failed_starts_no_run(world):
    world.run()
    world.done()
    plan = world.ledger.create(RepositoryName("acme/open"), DEFAULT_REF, kind=RunKind.PLAN)
    world.ledger.end(plan.id, RunState.FAILED, "its host does not have it")

    world.run()
    assert (world.told(), world.outbox.runs) == (set(), [])


def all_but_one_done(world):
    """Complete all started runs but the first one, and return that."""
    going_on, *others = world.outbox.runs
    world.outbox.runs = others
    world.done()
    return going_on


def test_a_failed_first_run_is_repeated_even_after_many_later_runs(world, monkeypatch):
    monkeypatch.setattr("workers.sources.following.RUNS_LOOKED_AT", 1)
    world.run()
    failing = all_but_one_done(world)
    world.run()
    assert world.told() == set()  # it still goes on

    world.ledger.end(failing.id, RunState.FAILED, "the disk is full")
    world.run()
    assert world.told() == set()  # thousands may fail, and at each listing
    world.run()
    assert world.told() == {(Action.UPDATE, failing.repository)}


def test_a_failed_first_run_is_repeated_even_without_a_record_of_it(world, monkeypatch):
    monkeypatch.setattr("workers.sources.following.RUNS_LOOKED_AT", 1)
    world.run()
    failing = all_but_one_done(world)
    world.ledger.end(failing.id, RunState.FAILED, "the disk is full")
    del world.ledger._runs[failing.id]  # Redis keeps the latest 1,000

    world.run()
    assert world.told() == set()
    world.run(after=3 * 3_600)
    assert world.told() == {(Action.UPDATE, failing.repository)}


def test_a_cancelled_run_is_not_repeated_even_after_many_later_runs(world, monkeypatch):
    monkeypatch.setattr("workers.sources.following.RUNS_LOOKED_AT", 1)
    world.run()
    cancelled = all_but_one_done(world)
    world.ledger.end(cancelled.id, RunState.CANCELLED)
    world.run(after=4 * 3_600)
    assert world.told() == set()


def test_an_unclean_ref_does_not_start_another_first_run(world, monkeypatch):
    monkeypatch.setattr("workers.sources.following.RUNS_LOOKED_AT", 1)
    world.run()
    name = world.outbox.runs[0].repository
    world.done()
    stopped = world.ledger.create(name, RefName("other"))
    files = FileManifest(Revision("b" * 40), (WorkItem("a.py", BlobId("c" * 40)),))
    world.ledger.plan(stopped.id, files, ref=RefName("other"), fingerprint="f")
    world.ledger.end(stopped.id, RunState.FAILED, "the disk is full")
    for other in sorted(NAMES - {name})[:2]:
        world.ledger.create(RepositoryName(other), DEFAULT_REF)
    assert not all(one.is_clean for one in world.ledger.refs(name))
    world.run(after=4 * 3_600)
    assert world.told() == set()


def test_only_one_worker_at_a_time_works_on_a_connection(world):
    world.sync.due()
    assert world.states.hold("work", "another", for_s=60)
    world.sync.run("work", world.outbox)

    assert world.ledger.names() == ()


def test_a_label_of_the_rules_is_set_when_a_repository_is_registered(tmp_path, github):
    rules = "{label: internal, include: [acme/open]}"
    world = World(tmp_path, connection("github", github.url, rules))
    world.run()

    assert world.ledger.labels() == {"acme/open": Label.INTERNAL}


def test_gitlab_lists_the_projects_of_groups_below_and_none_that_wait_for_deletion(tmp_path):
    server = GitLab()
    server.details = {
        21: {"forked_from_project": {"id": 1}, "topics": ["web"]},
        22: {"marked_for_deletion_on": "2026-11-01"},
        24: {"empty_repo": True},
    }
    world = World(tmp_path, connection("gitlab", server.url, "{max_size: 5GB}"))
    try:
        world.run()
        assert set(world.ledger.names()) == {"acme/secret"}
        assert world.outcome.listed == 3
        server.details[21] = {"statistics": {"repository_size": 6 * 10**9}}
        world.run()
        (change,) = world.outcome.changes
        reason = "it has 6,000 MB, more than max_size"
        assert (change.action, change.reason) == (Action.REMOVE, reason)
    finally:
        server.close()


class Other(NamedTuple):
    """A host of another kind, and a world that follows it."""

    world: World
    host: CodeHost


@pytest.fixture
def other(request, tmp_path):
    """A host of another kind, and a connection that follows it."""
    server = request.param[1]()
    world = World(tmp_path, connection(request.param[0], server.url))
    if request.param[0] == "bitbucket-server":
        world.path.write_text(world.path.read_text().replace("acme", "ACME"))
    yield Other(world, server)
    server.close()


OTHERS = [("bitbucket", Bitbucket), ("bitbucket-server", BitbucketServer), ("azure", Azure)]
NAMED = [name for name, _ in OTHERS]
every_other = pytest.mark.parametrize("other", OTHERS, indirect=True, ids=NAMED)
URLS = {
    "bitbucket": {f"acme/{name}": f"acme/{name}.git" for name in ("app", "lib", "tool")},
    "bitbucket-server": {f"acme/{name}": f"scm/acme/{name}.git" for name in ("app", "lib", "tool")},
    "azure": {
        "acme/Web-Shop/My-App": "acme/Web%20Shop/_git/My%20App",
        "acme/Web-Shop/lib": "acme/Web%20Shop/_git/lib",
    },
}


@every_other
def test_every_kind_of_host_is_listed_to_its_end(other):
    outcome = other.world.run()

    (state,) = other.world.states.states()
    expected = URLS[state.declared.kind]
    assert outcome.error == ""
    host = other.host.url
    assert {
        name: url.removeprefix(f"{host}/") for name, url in other.world.ledger.urls().items()
    } == (expected)
    assert outcome.requests == (1 if state.declared.kind == "azure" else 2)
    (known, *_) = other.world.states.known("work")
    states, registered = other.world.states, other.world.ledger.get(RepositoryName(known.name))
    given = GitCredentials(str(other.world.path), states.entrusted)(registered)
    assert given is not None
    assert given.text.startswith("Authorization: B")
    assert other.world.run().repositories == len(expected)


@every_other
def test_the_interval_stays_where_a_listing_does_not_say_what_was_pushed(other):
    for _ in range(3):
        other.world.run()
        other.world.done()
    (state,) = other.world.states.states()
    is_telling = state.declared.kind == "bitbucket"
    assert state.interval_s == (4 if is_telling else 1) * 3_600


@every_other
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((401, {}, {"message": "no"}), "401"),
        ((203, {}, b"<html>sign in</html>"), "203"),
        ((200, {}, b"<html>sign in</html>"), "something other than JSON"),
        ((200, {}, {"error": "odd"}), "something other than a list"),
        ((503, {}, b""), "503"),
        ((429, {"Retry-After": "600"}, b""), "asks to wait for 600 s"),
    ],
    ids=["401", "203", "html", "odd", "503", "429"],
)
def test_no_kind_of_host_loses_a_repository_when_it_cannot_be_read(other, answer, error):
    names = other.world.run() and other.world.ledger.names()
    other.host.always = answer

    assert error in other.world.run().error
    assert other.world.ledger.names() == names
    assert TOKEN not in repr((other.world.outcome, other.world.logged))


def test_bitbucket_and_azure_say_what_their_repositories_are(tmp_path):
    cloud, center, azure = Bitbucket(), BitbucketServer(), Azure()
    cloud.rows[0] |= {"mainbranch": None}
    cloud.rows[1] |= {"parent": {"full_name": "other/lib"}}
    center.rows[0] |= {"archived": True}
    center.rows[1] |= {"origin": {"id": 9}}
    azure.rows[0] |= {"isDisabled": True}
    del azure.rows[1]["defaultBranch"]
    rules, found = "{forks: false, archived: false}", {}
    for number, (kind, host) in enumerate(
        (("bitbucket", cloud), ("bitbucket-server", center), ("azure", azure))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = connection(kind, host.url, rules)
        world = World(folder, text.replace("acme", "ACME") if host is center else text)
        world.run()
        found[kind] = world.ledger.names()
        host.close()

    assert found == {
        "bitbucket": ("acme/tool",),
        "bitbucket-server": ("acme/tool",),
        "azure": (),
    }


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("{}", {"acme/app", "acme/lib", "acme/tool"}),
        ("{archived: false}", {"acme/lib", "acme/tool"}),
        ("{visibility: [public]}", {"acme/tool"}),
    ],
)
def test_a_bitbucket_server_has_archived_repositories_and_public_projects(
    tmp_path, rules, expected
):
    center = BitbucketServer()
    center.rows[0] |= {"archived": True}
    center.rows[2]["project"] = {**center.rows[2]["project"], "public": True}
    text = connection("bitbucket-server", center.url, rules).replace("    organisation: acme\n", "")
    world = World(tmp_path, text)
    world.run()
    center.close()

    assert {*world.ledger.names()} == expected


def commit(folder):
    """Make a commit in a folder; make the folder a git repository first if necessary."""
    subprocess.run(["git", "init", "-q", folder], check=True)
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    made = ("commit", "-q", "--allow-empty", "-m", "one")
    subprocess.run(["git", *identity, *made], cwd=folder, check=True)


def test_a_list_of_urls_and_a_folder_are_followed_too(tmp_path):
    for name in ("one", "two"):
        commit(tmp_path / "git" / name)
    (tmp_path / "git" / "none").mkdir()
    text = f"connections:\n  - {{name: work, kind: folder, path: {tmp_path / 'git'}}}\n"
    world = World(tmp_path, text)
    world.run()
    assert set(world.ledger.names()) == {"one", "two"}
    (tmp_path / "git").rename(tmp_path / "away")
    assert "cannot list the folder" in world.run().error
    assert set(world.ledger.names()) == {"one", "two"}

    urls = "[https://h.example/acme/app, https://h.example/acme/app.git, git@h.example:acme/lib]"
    world = World(tmp_path, f"connections:\n  - {{name: work, kind: urls, urls: {urls}}}\n")
    world.run()
    assert set(world.ledger.names()) == {"acme/app", "acme/lib"}
    assert world.run().repositories == 2
    assert {action for action, _ in world.told()} == {Action.UPDATE}


@pytest.mark.parametrize("is_bare", [False, True])
def test_an_empty_repository_in_a_folder_is_followed_from_its_first_commit_on(tmp_path, is_bare):
    empty = tmp_path / "git" / "empty"
    subprocess.run(["git", "init", "-q", *["--bare"] * is_bare, empty], check=True)
    text = f"connections:\n  - {{name: work, kind: folder, path: {tmp_path / 'git'}}}\n"
    world = World(tmp_path, text)
    for _ in range(2):
        world.run()
    assert (world.ledger.names(), world.outbox.runs, world.outcome.error) == ((), [], "")
    assert world.outcome.listed == 1

    commit(tmp_path / "other")
    if is_bare:
        push = ["git", "-C", tmp_path / "other", "push", "-q", empty, "HEAD"]
        subprocess.run(push, check=True)
    else:
        commit(empty)
    world.run()
    assert world.done() == [("empty", DEFAULT_REF)]


@pytest.mark.parametrize(
    ("commands", "is_empty"),
    [
        (["pack-refs --all"], True),
        (["COMMIT", "pack-refs --all"], False),
        (["COMMIT", "tag v1", "checkout -q --detach", "branch -D main"], False),
        (["COMMIT", "checkout -q --detach", "branch -D main"], False),
        (["COMMIT", "checkout -q --orphan next", "branch -D main"], True),
        (["COMMIT", "branch -M a/b/c"], False),
    ],
)
def test_a_repository_in_a_folder_is_empty_if_no_branch_tag_or_head_has_a_commit(
    tmp_path, commands, is_empty
):
    app = tmp_path / "app"
    subprocess.run(["git", "init", "-q", "-b", "main", app], check=True)
    for command in commands:
        if command == "COMMIT":
            commit(app)
        else:
            given = ["git", "-C", app, *command.split()]
            subprocess.run(given, check=True, stdout=subprocess.DEVNULL)
    (found,) = hostless.folder(Connection("work", HostKind.FOLDER, str(tmp_path), None))

    assert found.is_empty is is_empty


def test_a_linked_worktree_in_a_folder_is_not_listed_as_an_empty_repository(tmp_path):
    commit(tmp_path / "app")
    add = ["git", "-C", tmp_path / "app", "worktree", "add", "-q", tmp_path / "here" / "tree"]
    subprocess.run(add, check=True, stderr=subprocess.DEVNULL)
    (found,) = hostless.folder(Connection("work", HostKind.FOLDER, str(tmp_path / "here"), None))

    assert not found.is_empty


def test_a_repository_that_is_refused_is_reported_and_the_others_are_processed(
    tmp_path, monkeypatch
):
    for name in ("one", "two"):
        commit(tmp_path / "git" / name)
    (tmp_path / "git" / "one" / ".git" / "objects").rename(tmp_path / "elsewhere")
    text = f"connections:\n  - {{name: work, kind: folder, path: {tmp_path / 'git'}}}\n"
    world = World(tmp_path, text)
    world.run()

    assert set(world.ledger.names()) == {"two"}
    (refused,) = [one for one in world.outcome.changes if one.action is Action.CONFLICT]
    assert (refused.repository, "is not a git repository" in refused.reason) == ("one", True)


def test_the_remaining_request_limit_is_stored_even_if_it_is_zero(world, github):
    reset = str(int(time.time()) + 1_000)
    github.limits = {"X-RateLimit-Limit": "5000", "X-RateLimit-Reset": reset}
    github.limits["X-RateLimit-Remaining"] = "4998"
    budget = world.run().budget
    assert (budget.requests_allowed, budget.requests_left) == (5_000, 4_998)
    assert budget.resets_at == float(reset)
    assert problems(world.states) == ()

    github.limits["X-RateLimit-Remaining"] = "40"
    world.run()
    (told,) = problems(world.states)
    assert "the host takes only 40 of 5,000 requests more in the next 1" in told
    github.limits["X-RateLimit-Remaining"] = "0"
    github.always = 403, {}, {"message": "API rate limit exceeded"}
    outcome = world.run()
    assert "it asks to wait for" in outcome.error
    assert outcome.budget.requests_left == 0
