import fcntl
import multiprocessing
import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from codelode.errors import Busy, InvalidQuery, NotFound, Unavailable
from codelode.model import DEFAULT_REF, Repository, RepositoryName
from workers.pull import tree
from workers.pull.mirror import Mirrors

NAME = RepositoryName("owner/repo")
WORKING_COPY = "refs/worktree/codelode/worktree"


def paths(mirrors, revision, name=NAME):
    return [file.path for file in tree.listing(mirrors.git_dir(name), revision)]


def test_the_first_sync_makes_the_mirror_and_the_next_ones_follow_the_source(
    mirrors, repository, source
):
    first = source.commit({"a.py": "a"})
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", first)
    second = source.commit({"b.py": "b"})
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", second)
    assert paths(mirrors, second) == ["a.py", "b.py"]


def test_all_branches_and_tags_come_and_go(mirrors, repository, source):
    first = source.commit({"a.py": "a"})
    source.commit({"b.py": "b"}, branch="topic/x", parent=first)
    source.git("update-ref", "refs/pull/1/head", first)
    mirrors.sync(repository)
    source.git("tag", "v1", first)
    source.git("update-ref", "-d", "refs/heads/topic/x")
    fresh = source.commit({"c.py": "c"}, branch="topic", parent=first)
    mirrors.sync(repository)
    assert mirrors.resolve(NAME, "v1") == ("v1", first)
    assert mirrors.resolve(NAME, "topic") == ("topic", fresh)
    with pytest.raises(NotFound):
        mirrors.resolve(NAME, "topic/x")
    with pytest.raises(NotFound):
        mirrors.resolve(NAME, "refs/pull/1/head")


def test_the_time_of_a_commit_is_read_and_never_in_the_future(mirrors, repository, source):
    past = source.commit({"a.py": "a"})
    future = source.commit({"b.py": "b"}, at=9_000_000_000)
    mirrors.sync(repository)
    assert mirrors.committed_at(NAME, past) == 1_700_000_000
    assert 1_700_000_000 < mirrors.committed_at(NAME, future) <= time.time()


def test_a_forced_push_is_followed_and_the_old_commit_stays_readable(mirrors, repository, source):
    old = source.commit({"a.py": "a"})
    mirrors.sync(repository)
    source.git("update-ref", "-d", "refs/heads/main")
    new = source.commit({"b.py": "b"})
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", new)
    assert paths(mirrors, old) == ["a.py"]


def test_the_default_branch_is_the_source_s_and_follows_it(mirrors, repository, source):
    source.commit({"a.py": "a"})
    other = source.commit({"b.py": "b"}, branch="trunk")
    mirrors.sync(repository)
    assert mirrors.resolve(NAME)[0] == "main"
    source.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    mirrors.sync(repository)
    assert mirrors.resolve(NAME, DEFAULT_REF) == ("trunk", other)


def test_a_detached_source_s_default_is_its_commit(mirrors, repository, source):
    first = source.commit({"a.py": "a"})
    mirrors.sync(repository)
    loose = source.commit({"b.py": "b"}, branch="gone", parent=first)
    source.git("update-ref", "--no-deref", "HEAD", loose)
    source.git("update-ref", "-d", "refs/heads/gone")
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == (DEFAULT_REF, loose)
    mirrors.remove(NAME)
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == (DEFAULT_REF, loose)


def test_a_ref_is_a_branch_a_tag_or_a_full_commit_id(mirrors, repository, source):
    first = source.commit({"a.py": "a"})
    second = source.commit({"b.py": "b"}, branch="feature/x")
    source.git("-c", "user.name=T", "-c", "user.email=t@x", "tag", "-a", "-m", "x", "v1", first)
    source.git("tag", "feature/x", first)
    mirrors.sync(repository)
    assert mirrors.resolve(NAME, "feature/x") == ("feature/x", second)
    assert mirrors.resolve(NAME, "refs/heads/feature/x") == ("feature/x", second)
    assert mirrors.resolve(NAME, "refs/tags/feature/x") == ("feature/x", first)
    assert mirrors.resolve(NAME, "v1") == ("v1", first)
    assert mirrors.resolve(NAME, first) == (first, first)


def test_a_commit_is_named_by_the_beginning_of_its_id_unless_a_branch_has_the_name(
    mirrors, repository, source
):
    first = source.commit({"a.py": "a"})
    mirrors.sync(repository)
    for length in (4, 7, 39):
        assert mirrors.resolve(NAME, first[:length]) == (first, first)
    other = source.commit({"b.py": "b"}, branch=first[:7])
    mirrors.sync(repository)
    assert mirrors.resolve(NAME, first[:7]) == (first[:7], other)
    blob = source.git("rev-parse", "main:a.py")
    with pytest.raises(NotFound, match="a commit id"):
        mirrors.resolve(NAME, blob[:20])


def test_the_beginning_of_several_commit_ids_is_refused_with_them(mirrors, repository, source):
    change = b"commit refs/heads/main\ncommitter T <t@x> 1700000000 +0000\ndata 1\nx\n"
    source.git("fast-import", "--quiet", stdin=1_000 * change)  # some of them share four digits
    mirrors.sync(repository)
    commits = source.git("rev-list", "main").split()
    alike = Counter(commit[:4] for commit in commits)
    beginning = next(digits for digits, number in alike.items() if number == 2)

    with pytest.raises(InvalidQuery, match="is the beginning of 2 commits") as raised:
        mirrors.resolve(NAME, beginning)

    assert all(one[:8] in str(raised.value) for one in commits if one.startswith(beginning))


@pytest.mark.parametrize("ref", ["missing", "mai", "f" * 40, "abc1234", "refs/notes/x"])
def test_the_error_for_an_unknown_ref_names_the_known_ones(mirrors, repository, source, ref):
    first = source.commit({"a.py": "a"})
    source.git("update-ref", "refs/notes/x", first)
    mirrors.sync(repository)
    with pytest.raises(NotFound, match=ref) as raised:
        mirrors.resolve(NAME, ref)
    assert "owner/repo" not in str(raised.value)
    assert ("main" in str(raised.value)) is (len(ref) < 40)


def test_at_most_ten_branches_are_named(mirrors, repository, source):
    first = source.commit({"a.py": "a"})
    for number in range(15):
        source.git("update-ref", f"refs/heads/b{number:02}", first)
    mirrors.sync(repository)
    with pytest.raises(NotFound, match=r"\(\w+(, \w+){9}, …\)"):
        mirrors.resolve(NAME, "missing")


@pytest.mark.parametrize("ref", ["--output=/tmp/x", "a b", "main^{tree}", "main:a.py", "@{u}"])
def test_an_expression_is_refused_as_a_ref(mirrors, repository, source, ref):
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    with pytest.raises(InvalidQuery, match="ref"):
        mirrors.resolve(NAME, ref)


def test_a_source_without_commits_is_reported_and_can_be_indexed_later(mirrors, repository, source):
    mirrors.sync(repository)
    with pytest.raises(NotFound, match=r"^the repository has no commits yet"):
        mirrors.resolve(NAME)
    first = source.commit({"a.py": "a"})
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", first)


def test_a_repository_that_was_never_pulled_is_not_found(mirrors):
    with pytest.raises(NotFound, match="not been pulled"):
        mirrors.resolve(NAME)


def _worktree(source, folder):
    subprocess.run(["git", "clone", "-q", source.path, folder], check=True)


def _linked_worktree(source, folder):
    subprocess.run(["git", "clone", "-q", source.path, f"{folder}-main"], check=True)
    subprocess.run(
        ["git", "-C", f"{folder}-main", "worktree", "add", "-q", "-b", "side", folder], check=True
    )


def _shallow(source, folder):
    url = f"file://{source.path}"
    subprocess.run(["git", "clone", "-q", "--depth=1", "--bare", url, folder], check=True)


def _snapshot(source, folder):
    """Copy only what a snapshot of a mirror has, which is no configuration at all."""
    source.git("pack-refs", "--all")
    for name in ("HEAD", "packed-refs", "objects", "refs"):
        copy = shutil.copytree if (source.path / name).is_dir() else shutil.copy
        folder.mkdir(exist_ok=True)
        copy(source.path / name, folder / name)


def _partial(source, folder):
    """Make a copy that lacks a blob of an older commit, and is configured as a partial clone."""
    shutil.copytree(source.path, folder)
    blob = source.git("rev-parse", "main~1:a.py")
    subprocess.run(["git", "-C", folder, "repack", "-q", "-a", "-d", "-k"], check=True)
    (pack,) = folder.glob("objects/pack/*.pack")
    shutil.move(pack, folder / "whole")
    for left in folder.glob("objects/pack/*"):
        left.unlink()
    with (folder / "whole").open("rb") as file:
        subprocess.run(["git", "-C", folder, "unpack-objects", "-q"], stdin=file, check=True)
    (folder / "objects" / blob[:2] / blob[2:]).unlink()
    (folder / "objects" / "pack" / "pack-0.promisor").touch()


KINDS = [_worktree, _linked_worktree, _shallow, _snapshot, _partial]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.strip("_"))
def test_any_kind_of_local_repository_can_be_mirrored(mirrors, source, tmp_path, kind):
    source.commit({"a.py": "old"})
    revision = source.commit({"a.py": "new", "b.py": "b"})
    kind(source, tmp_path / "local")
    repository = Repository(NAME, str(tmp_path / "local"))
    mirrors.sync(repository)
    assert mirrors.resolve(NAME)[1] == revision
    mirrors.sync(repository)
    assert paths(mirrors, revision) == ["a.py", "b.py"]


def test_a_partial_source_is_followed_too(mirrors, source, tmp_path):
    source.commit({"a.py": "old"})
    source.commit({"a.py": "new"})
    _partial(source, tmp_path / "local")
    partial = replace(source, path=tmp_path / "local")
    repository = Repository(NAME, str(partial.path))
    mirrors.sync(repository)
    revision = partial.commit({"c.py": "c"})
    mirrors.sync(repository)
    assert paths(mirrors, revision) == ["a.py", "c.py"]


def test_a_shallow_source_is_followed_too(mirrors, source, tmp_path):
    source.commit({"a.py": "old"})
    source.commit({"a.py": "new"})
    _shallow(source, tmp_path / "local")
    shallow = replace(source, path=tmp_path / "local")
    repository = Repository(NAME, str(shallow.path))
    mirrors.sync(repository)
    revision = shallow.commit({"c.py": "c"})
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", revision)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.strip("_"))
def test_the_working_copy_of_a_local_repository_comes_and_goes(mirrors, source, tmp_path, kind):
    source.commit({"a.py": "old"})
    source.commit({"a.py": "new"})
    kind(source, tmp_path / "local")
    local = replace(source, path=tmp_path / "local")
    repository = Repository(NAME, str(local.path))
    for content in ("cloned", "fetched"):
        revision = _working_copy(local, content)
        local.git("update-ref", "refs/worktree/of-others", revision)
        mirrors.sync(repository)
        assert mirrors.resolve(NAME, "worktree") == ("worktree", revision)
        assert mirrors.resolve(NAME)[0] == "main"
        assert mirrors.gone(NAME, ["worktree", "main"]) == ()
        local.git("update-ref", "-d", WORKING_COPY)
        mirrors.sync(repository)
        assert mirrors.gone(NAME, ["worktree", "main"]) == ("worktree",)
    with pytest.raises(NotFound):
        mirrors.resolve(NAME, "refs/worktree/of-others")


def test_the_working_copies_of_linked_work_trees_are_apart(mirrors, source, tmp_path):
    source.commit({"a.py": "a"})
    _linked_worktree(source, tmp_path / "local")
    revision = _working_copy(replace(source, path=tmp_path / "local"), "changed")
    for folder in ("local", "local-main"):
        mirrors.sync(Repository(RepositoryName(folder), str(tmp_path / folder)))
    assert mirrors.resolve("local", "worktree") == ("worktree", revision)
    with pytest.raises(NotFound):
        mirrors.resolve("local-main", "worktree")


def _working_copy(local, content):
    """Commit a file to the ref of the working copy, as `codelode watch` does."""
    blob = local.git("hash-object", "-w", "--stdin", stdin=content.encode())
    tree = local.git("mktree", stdin=f"100644 blob {blob}\ta.py\n".encode())
    identity = ("-c", "user.name=T", "-c", "user.email=t@host.example")
    revision = local.git(*identity, "commit-tree", "-m", content, "-p", "main", tree)
    local.git("update-ref", WORKING_COPY, revision)
    return revision


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_a_listed_folder_of_another_user_can_be_mirrored(mirrors, repository, source):
    revision = source.commit({"a.py": "a"})
    for path in (source.path, *source.path.rglob("*")):
        os.chown(path, 12_345, 12_345)
    mirrors.sync(repository)
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", revision)


def test_a_source_that_vanished_is_not_found_and_the_mirror_stays(mirrors, repository, source):
    revision = source.commit({"a.py": "a"})
    mirrors.sync(repository)
    shutil.rmtree(source.path)
    with pytest.raises(InvalidQuery, match="no folder"):
        mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", revision)


def test_a_source_that_is_no_longer_allowed_is_refused(mirrors, repository, source):
    source.commit({"a.py": "a"})
    with pytest.raises(InvalidQuery, match="CODELODE_LOCAL_PATHS"):
        replace(mirrors, local_paths="").sync(repository)


def test_a_broken_source_gives_git_s_reason_and_leaves_the_name_out(mirrors, repository, source):
    revision = source.commit({"a.py": "a"})
    mirrors.sync(repository)
    next_one = source.commit({"a.py": "b"})
    for name in (next_one, source.git("rev-parse", f"{next_one}^{{tree}}")):
        (source.path / "objects" / name[:2] / name[2:]).unlink(missing_ok=True)
    for pack in source.path.glob("objects/pack/*"):
        pack.unlink()
    with pytest.raises(Unavailable) as raised:
        mirrors.sync(repository)
    assert "owner/repo" not in str(raised.value)
    assert mirrors.resolve(NAME) == ("main", revision)


def test_an_incomplete_clone_is_not_a_mirror(mirrors, repository, source):
    revision = source.commit({"a.py": "a"})
    half = mirrors.git_dir(NAME).with_suffix(".part")
    (half / "objects").mkdir(parents=True)
    (half / "HEAD").write_text("ref: refs/heads/main\n")
    with pytest.raises(NotFound):
        mirrors.resolve(NAME)
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", revision)
    assert not half.exists()


def test_locks_that_a_killed_git_left_do_not_stop_the_next_sync(mirrors, repository, source):
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    mirror = mirrors.git_dir(NAME)
    for left in ("HEAD.lock", "packed-refs.lock", "refs/heads/main.lock", "shallow.lock"):
        (mirror / left).parent.mkdir(parents=True, exist_ok=True)
        (mirror / left).touch()
    (mirror / "objects" / "pack" / "tmp_pack_x").write_text("half")
    source.git("symbolic-ref", "HEAD", "refs/heads/other")
    revision = source.commit({"b.py": "b"}, branch="other")
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("other", revision)
    assert not (mirror / "objects" / "pack" / "tmp_pack_x").exists()


def test_a_sync_waits_for_another_one_of_the_same_mirror_only_so_long(mirrors, repository, source):
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    with mirrors.git_dir(NAME).with_suffix(".lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="another process kept the lock"):
            replace(mirrors, timeout_s=0.2).sync(repository)
    mirrors.sync(repository)


def _sync_at_once(mirrors, repository, barrier, answers):
    barrier.wait()
    mirrors.sync(repository)
    answers.put(mirrors.resolve(repository.name))


@pytest.mark.slow
def test_two_processes_can_sync_one_mirror_at_once(mirrors, repository, source):
    revision = source.commit({f"{number}.py": str(number) for number in range(200)})
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_sync_at_once, args=(mirrors, repository, barrier, answers))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    assert [answers.get(timeout=60) for _ in processes] == [("main", revision)] * 2
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def test_names_that_look_alike_have_mirrors_of_their_own(mirrors, make_source):
    revisions = {}
    for name in ("a/b", "a-b", "A/B", "a.b", "../x" * 40):
        revisions[name] = (made := make_source(name.replace("/", "_"))).commit({"x": name})
        mirrors.sync(Repository(RepositoryName(name), str(made.path)))
    assert {name: mirrors.resolve(name)[1] for name in revisions} == revisions
    assert all(entry.parent == mirrors.folder for entry in map(mirrors.git_dir, revisions))


def test_a_repository_registered_with_another_url_follows_that(
    mirrors, repository, source, make_source
):
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    moved = make_source("moved")
    revision = moved.commit({"b.py": "b"})
    mirrors.sync(replace(repository, url=str(moved.path)))
    assert mirrors.resolve(NAME) == ("main", revision)


def test_a_mirror_can_be_removed_twice(mirrors, repository, source):
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    mirrors.remove(NAME)
    assert list(mirrors.folder.iterdir()) == []
    mirrors.remove(NAME)


def test_an_unchanged_source_is_not_fetched(mirrors, repository, source):
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    lines = []
    mirrors.sync(repository, on_progress=lines.append)
    assert lines == []


def test_progress_is_shown_in_words_and_percent(mirrors, repository, source, tmp_path):
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    source.commit({f"{number}.py": str(number) for number in range(300)})
    lines = []
    mirrors.sync(repository, on_progress=lines.append)
    assert "Counting objects 100%" in lines


def test_a_mirror_holds_no_hooks_and_nothing_of_the_source_s_configuration(
    mirrors, repository, source
):
    source.commit({"a.py": "a"})
    source.git("config", "remote.evil.url", "ext::sh -c x")
    mirrors.sync(repository)
    mirror = mirrors.git_dir(NAME)
    assert not (mirror / "hooks").exists()
    assert "evil" not in Path(mirror, "config").read_text()
    assert isinstance(mirrors, Mirrors)
