"""Plans follow repositories that are created, moved, and deleted at their hosts by their ids."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.model import RepositoryName
from codelode.repository_rules import HostVisibility, ListedRepository, RepositoryRules
from codelode.repository_sources import Action, FollowedRepository, FormerName
from workers.sources.reconcile import REFRESH_S, Registered, changes, known_after, reconcile

NOW = 10_000_000.0
HOST = "https://git.example"
RULES = RepositoryRules(grace_s=1_000)


def listed(id, name, **fields):
    return ListedRepository(id, name, f"{HOST}/{name}.git", **{"pushed": "1", **fields})


def known(id, name, **fields):
    return FollowedRepository(id, name, name, f"{HOST}/{name}.git", "1", NOW, **fields)


def here(*names, **fields):
    return Registered({RepositoryName(name): f"{HOST}/{name}" for name in names}, **fields)


def planned(rows, followed, present, *, rules=RULES, now=NOW, is_confirmed=False):
    return reconcile(rows, followed, present, rules=rules, now=now, is_confirmed=is_confirmed)


def told(plan):
    return [(one.action, one.repository) for one in changes(plan.steps)]


def test_a_new_repository_is_registered_under_its_whole_name_at_the_host():
    plan = planned([listed("1", "acme/team/my app")], [], here())

    assert told(plan) == [(Action.REGISTER, "acme/team/my-app")]
    (one,) = known_after(plan.steps)
    assert (one.id, one.url, one.pushed) == ("1", f"{HOST}/acme/team/my app.git", "1")


def test_a_repository_that_was_registered_by_hand_keeps_its_name():
    present = Registered(
        {RepositoryName("mine"): "git@git.example:Acme/App.git"}, adoptable=["mine"]
    )
    plan = planned([listed("1", "acme/app")], [], present)

    assert told(plan) == [(Action.ADOPT, "mine")]
    again = planned([listed("1", "acme/app")], known_after(plan.steps), present)
    assert told(again) == []


def test_a_repository_registered_under_several_names_is_followed_under_its_name_at_the_host():
    names = ("a-copy", "acme/app", "z-copy")
    present = Registered(
        {RepositoryName(name): f"{HOST}/acme/app.git" for name in names}, adoptable=names
    )
    assert told(planned([listed("1", "acme/app")], [], present)) == [(Action.ADOPT, "acme/app")]

    urls = {name: url for name, url in present.urls.items() if name != "acme/app"}
    present = replace(present, urls=urls)
    assert told(planned([listed("1", "acme/app")], [], present)) == [(Action.ADOPT, "a-copy")]


def test_a_name_that_was_never_read_is_not_adopted():
    """It would be read with the secret of the connection for whoever registered it."""
    present = Registered({RepositoryName("mine/app"): f"{HOST}/acme/app.git"})
    assert told(planned([listed("1", "acme/app")], [], present)) == [(Action.REGISTER, "acme/app")]

    followed = replace(known("1", "acme/app"), name="mine/app")
    for again in (here(), here("acme/app")):
        (told_,) = told(planned([listed("1", "acme/app")], [followed], again))
        assert told_ == (Action.ADOPT if again.urls else Action.REGISTER, "acme/app")


def test_a_new_repository_at_the_url_of_an_adopted_one_gets_its_own_name():
    followed = replace(known("1", "acme/app"), name="mine/app")
    present = Registered({RepositoryName("mine/app"): f"{HOST}/acme/app.git"})
    plan = planned([listed("2", "acme/app")], [followed], present)

    assert told(plan) == [(Action.REGISTER, "acme/app"), (Action.MISS, "mine/app")]


def test_a_renamed_repository_is_registered_again_and_replaces_its_former_name():
    plan = planned([listed("1", "acme/new")], [known("1", "acme/old")], here("acme/old"))

    assert told(plan) == [(Action.RENAME, "acme/new")]
    (one,) = known_after(plan.steps)
    assert (one.name, one.replaces) == (
        "acme/new",
        (FormerName("acme/old", f"{HOST}/acme/old.git"),),
    )


def test_a_push_at_the_time_of_a_rename_starts_no_second_run():
    rows = [listed("1", "acme/new", pushed="2")]
    first = planned(rows, [known("1", "acme/old")], here("acme/old"))
    assert told(first) == [(Action.RENAME, "acme/new")]

    assert told(planned(rows, known_after(first.steps), here("acme/old", "acme/new"))) == []


def test_two_repositories_that_swap_their_names_replace_nothing():
    rows = [listed("1", "acme/b"), listed("2", "acme/a")]
    followed = [known("1", "acme/a"), known("2", "acme/b")]
    plan = planned(rows, followed, here("acme/a", "acme/b"))

    assert told(plan) == [(Action.RENAME, "acme/b"), (Action.RENAME, "acme/a")]
    assert [one.replaces for one in known_after(plan.steps)] == [(), ()]


def test_a_new_repository_replaces_one_that_was_renamed_or_deleted():
    rows = [listed("1", "acme/old-app"), listed("2", "acme/app"), listed("4", "acme/lib")]
    followed = [known("1", "acme/app"), known("3", "acme/lib")]
    plan = planned(rows, followed, here("acme/app", "acme/lib"))

    assert told(plan)[0] == (Action.RENAME, "acme/old-app")
    assert {one for _, one in told(plan)[1:]} == {"acme/app", "acme/lib"}
    assert {one.id: one.replaces for one in known_after(plan.steps)} == dict.fromkeys("124", ())


def test_a_name_that_is_taken_by_another_repository_is_a_conflict_and_changes_nothing():
    present = Registered(
        {RepositoryName("acme/app"): "https://other.example/acme/app"}, ["acme/lib"]
    )
    rows = [listed("1", "acme/app"), listed("2", "acme/lib"), listed("3", "acme/new")]
    plan = planned(rows, [known("3", "acme/was")], here("acme/was", "acme/new"))
    assert told(plan)[-1][0] is Action.REGISTER

    plan = planned(rows[:2], [], present)
    assert told(plan) == [(Action.CONFLICT, "acme/app"), (Action.CONFLICT, "acme/lib")]
    assert known_after(plan.steps) == ()


def test_a_renamed_repository_whose_new_name_is_taken_keeps_its_old_name_and_follows_the_url():
    present = Registered(
        {
            RepositoryName("acme/old"): f"{HOST}/acme/old",
            RepositoryName("acme/new"): "https://other.example/acme/new",
        }
    )
    plan = planned([listed("1", "acme/new")], [known("1", "acme/old")], present)

    assert told(plan) == [(Action.MOVE, "acme/old")]
    (one,) = known_after(plan.steps)
    assert (one.name, one.url, one.replaces) == ("acme/old", f"{HOST}/acme/new.git", ())


@pytest.mark.parametrize(
    ("row", "followed", "failed", "reason"),
    [
        (listed("1", "a/a", pushed="2"), known("1", "a/a"), (), "reports a push"),
        (
            listed("1", "a/a", pushed=""),
            FollowedRepository("1", "a/a", "a/a", f"{HOST}/a/a", "", NOW - RULES.every_s),
            (),
            "does not say",
        ),
        (listed("1", "a/a"), known("1", "a/a"), ["a/a"], "its last run failed"),
        *(
            (
                listed("1", "a/a", pushed=pushed, default_branch="trunk"),
                known("1", "a/a", default_branch="main"),
                (),
                "its default branch is trunk now",
            )
            for pushed in ("1", "")
        ),
        (
            listed("1", "a/a"),
            FollowedRepository("1", "a/a", "a/a", f"{HOST}/a/a", "1", NOW - REFRESH_S),
            (),
            "a day",
        ),
    ],
)
def test_each_update_of_a_repository_has_a_reason(row, followed, failed, reason):
    plan = planned([row], [followed], here("a/a", failed=failed))

    (change,) = changes(plan.steps)
    assert change.action is Action.UPDATE
    assert reason in change.reason
    (after,) = known_after(plan.steps)
    assert (after.pushed, after.run_at) == (row.pushed, NOW)
    if row.pushed:
        assert told(planned([row], [after], here("a/a"))) == []


@pytest.mark.parametrize(("before", "now"), [("", "main"), ("main", "")])
def test_an_unknown_default_branch_causes_no_change(before, now):
    row, followed = listed("1", "a/a", default_branch=now), known("1", "a/a", default_branch=before)
    plan = planned([row], [followed], here("a/a"))

    assert told(plan) == []
    assert known_after(plan.steps) == (replace(followed, default_branch="main"),)


def asked_at(every_s, news, *, listings=40):
    """Return the listings at which a repository is checked whose host does not report pushes.

    `news`: the listings before which something is pushed.
    """
    rules = RepositoryRules(every_s=every_s)
    followed: tuple[FollowedRepository, ...] = (replace(known("1", "a/a"), pushed=""),)
    revision, found = "r0", []
    for number in range(1, listings):
        revision = f"r{number}" if number in news else revision
        plan = planned(
            [listed("1", "a/a", pushed="")],
            followed,
            here("a/a", digests={"a/a": revision}),
            rules=rules,
            now=NOW + number * every_s,
        )
        followed = known_after(plan.steps)
        found += [number] if changes(plan.steps) else []
    return found


def test_unchanged_repositories_are_checked_every_fourth_listing_and_changed_ones_every_time():
    asked = asked_at(3_600, ())
    assert asked[:2] == [1, 2]
    assert {after - before for before, after in pairwise(asked[3:])} <= {3, 4}

    assert asked_at(3_600, range(40)) == list(range(1, 40))
    fresh = asked_at(3_600, (20,))
    assert [number for number in fresh if 20 <= number <= 23][:2] == [20, 21]


def test_a_requested_sync_checks_all_repositories_without_push_times():
    followed, rows = [replace(known("1", "a/a"), pushed="")], [listed("1", "a/a", pushed="")]
    present = here("a/a", digests={"a/a": "r"})
    assert told(planned(rows, followed, present)) == []
    asked = reconcile(rows, followed, present, rules=RULES, now=NOW, is_asked=True)
    assert told(asked) == [(Action.UPDATE, "a/a")]


def test_repositories_that_came_together_are_refreshed_at_different_times():
    rows = [listed(str(number), f"a/{number}") for number in range(100)]
    present = here(*(one.name for one in rows))
    known_ = [known(one.id, one.name) for one in rows]
    due = [
        len(changes(planned(rows, known_, present, now=NOW + share * REFRESH_S).steps))
        for share in (0.7, 0.8, 0.9, 1.0)
    ]
    assert due[0] == 0 < due[1] < due[2] < due[3] == 100


def test_a_paused_repository_is_unchanged_and_followed_again_afterwards():
    rules = replace(RULES, grace_s=0, paused=("Acme/*",))
    rows = [
        listed("1", "acme/pushed", pushed="2"),
        listed("2", "acme/renamed"),
        listed("4", "acme/new"),
        listed("5", "other/app", pushed="2"),
    ]
    names = ("acme/pushed", "acme/was", "acme/deleted", "other/app")
    followed = [known(id, name) for id, name in zip(("1", "2", "3", "5"), names, strict=True)]
    paused = planned(rows, followed, here(*names), rules=rules)
    assert told(paused)[0] == (Action.UPDATE, "other/app")
    assert told(paused)[1:] == [(Action.PAUSE, one.name) for one in followed[:3]]
    assert set(known_after(paused.steps)) >= set(followed[:3])

    again = planned(rows, known_after(paused.steps), here(*names), rules=replace(rules, paused=()))
    assert {name: action for action, name in told(again)} == {
        "acme/pushed": Action.UPDATE,
        "acme/renamed": Action.RENAME,
        "acme/new": Action.REGISTER,
        "acme/deleted": Action.REMOVE,
    }


def test_a_repository_that_was_removed_by_hand_is_registered_again():
    plan = planned([listed("1", "a/a")], [known("1", "a/a")], here())

    assert told(plan) == [(Action.REGISTER, "a/a")]


def test_a_repository_that_is_not_listed_leaves_after_the_time_of_grace():
    followed = [known("1", "a/a"), known("2", "a/b")]
    rows, present = [listed("1", "a/a")], here("a/a", "a/b")
    first = planned(rows, followed, present)
    assert told(first) == [(Action.MISS, "a/b")]
    assert first.steps[-1].change.reason == "its host does not list it; it leaves in 17 min"

    later = planned(rows, known_after(first.steps), present, now=NOW + 999)
    assert told(later) == [(Action.MISS, "a/b")]
    last = planned(rows, known_after(later.steps), present, now=NOW + 1_000)
    assert told(last) == [(Action.REMOVE, "a/b")]
    assert [one.id for one in known_after(last.steps)] == ["1"]
    back = planned([*rows, listed("2", "a/b")], known_after(later.steps), present, now=NOW + 2_000)
    assert (told(back), [one.missing_since for one in known_after(back.steps)]) == ([], [0, 0])


def test_a_repository_that_the_rules_leave_out_now_leaves_at_once():
    row = listed("1", "a/a", is_archived=True)
    plan = planned([row], [known("1", "a/a")], here("a/a"), rules=RepositoryRules(archived=False))

    (change,) = changes(plan.steps)
    assert (change.action, change.reason) == (Action.REMOVE, "it is archived")


def test_many_that_would_leave_at_once_wait_for_a_confirmation():
    followed = [known(str(at), f"a/{at}") for at in range(10)]
    present = here(*(one.name for one in followed))
    rows = [listed(one.id, one.name) for one in followed]
    rules = RepositoryRules(include=("a/1", "a/2", "a/3", "a/4"))

    plan = planned(rows, followed, present, rules=rules)
    assert {action for action, _ in told(plan)} == {Action.WAIT}
    assert "6 of 10 repositories would be removed" in plan.waiting
    assert [one.id for one in known_after(plan.steps)] == [*"1234056789"]
    confirmed = planned(rows, followed, present, rules=rules, is_confirmed=True)
    assert {action for action, _ in told(confirmed)} == {Action.REMOVE}
    assert confirmed.waiting == ""


def test_an_empty_listing_removes_nothing_without_a_confirmation():
    gone = [known("1", "a/a", missing_since=NOW - 2_000)]

    assert told(planned([], gone, here("a/a"))) == [(Action.WAIT, "a/a")]
    assert told(planned([], gone, here("a/a"), is_confirmed=True)) == [(Action.REMOVE, "a/a")]
    few = [*gone, known("2", "a/b")]
    plan = planned([listed("2", "a/b")], few, here("a/a", "a/b"))
    assert told(plan) == [(Action.REMOVE, "a/a")]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (RepositoryRules(include=("acme/*",)), ""),
        (RepositoryRules(include=("ACME/app",)), ""),
        (RepositoryRules(include=("other/*",)), "no glob of include"),
        (RepositoryRules(exclude=("**/app",)), "a glob of exclude"),
        (RepositoryRules(topics=("Search",)), ""),
        (RepositoryRules(topics=("web",)), "none of the topics"),
        (RepositoryRules(visibility=(HostVisibility.PUBLIC,)), "it is private"),
        (RepositoryRules(forks=False), "it is a fork"),
        (RepositoryRules(archived=False), "it is archived"),
        (RepositoryRules(max_size_bytes=10**6), "it has 2 MB"),
        (RepositoryRules(), ""),
    ],
)
def test_rules_say_why_a_repository_is_left_out(rules, reason):
    one = ListedRepository(
        *("1", "acme/App", HOST), is_fork=True, is_archived=True, size_bytes=2 * 10**6,
        topics=("search",),
    )  # fmt: skip

    assert reason in rules.left_out_because(one)
    assert bool(reason) == bool(rules.left_out_because(one))


NAMES = st.sampled_from(["a/a", "a/b", "a/c", "b/a"])


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("1234"), NAMES), max_size=5), max_size=6),
)
def test_after_any_history_what_is_followed_is_what_the_host_lists(history):
    """Apply plans to a catalog; names and addresses never contradict the last listing."""
    followed: tuple[FollowedRepository, ...] = ()
    urls: dict[RepositoryName, str] = {}
    for at, rows in enumerate([*history, *history[-1:]]):
        unique = {name: id for id, name in dict(rows).items()}
        now = [listed(id, name, pushed=str(at)) for name, id in unique.items()]
        plan = planned(
            now, followed, Registered(urls), rules=RepositoryRules(grace_s=1), now=NOW + at,
            is_confirmed=True,
        )  # fmt: skip
        for step in plan.steps:
            if step.change.action is Action.REMOVE:
                urls.pop(RepositoryName(step.change.repository), None)
            elif step.known and step.change.action in (Action.REGISTER, Action.RENAME, Action.MOVE):
                urls[RepositoryName(step.known.name)] = step.known.url
        followed = known_after(plan.steps)
        for one in followed:  # as if they were indexed at once
            for name in one.replaces:
                urls.pop(RepositoryName(name), None)
        assert len({one.name for one in followed}) == len(followed)
        present = {one.id: one for one in followed if not one.missing_since}
        for row in now:
            assert (
                urls[RepositoryName(present[row.id].name)].removesuffix(".git")
                == f"{HOST}/{row.name}"
            )


@pytest.mark.parametrize("rows", [[], [listed("1", "acme/app")], [listed("1", "acme/new")]])
def test_a_manually_registered_repository_with_a_followed_name_is_not_changed(rows):
    present = Registered({RepositoryName("acme/app"): "https://other.example/acme/app"})
    rows = [*rows, listed("2", "acme/lib")]
    plan = planned(rows, [known("1", "acme/app")], present, rules=RULES, now=NOW + 5_000)

    assert (Action.CONFLICT, "acme/app") in told(plan)
    assert {action for action, _ in told(plan)} <= {Action.CONFLICT, Action.REGISTER}
    assert all("acme/app" not in (one.name, *one.replaces) for one in known_after(plan.steps))
