"""A local repository cannot make git read anything that the settings do not allow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from codelode.errors import CodelodeError, InvalidQuery
from codelode.local_repositories import check
from codelode.model import Repository, RepositoryName
from workers.pull import git as git_program
from workers.pull.mirror import Mirrors

NAME = RepositoryName("owner/repo")
OTHER_USER = 12_345


def git(folder, *arguments):
    identity = ("-c", "user.name=T", "-c", "user.email=t@host.example")
    command = ["git", "-c", "safe.directory=*", *identity, "-C", str(folder), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make(folder: Path, text: str) -> Path:
    """Return a repository with one packed commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "file.txt").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", text)
    git(folder, "repack", "-a", "-d", "-q")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Repositories to copy, because making one takes five processes."""
    folder = tmp_path_factory.mktemp("made")
    return {text: make(folder / text, text) for text in ("public", "private")}


@pytest.fixture
def outside(made, tmp_path):
    return shutil.copytree(made["private"], tmp_path / "outside" / "private")


@pytest.fixture
def inside(made, tmp_path):
    return shutil.copytree(made["public"], tmp_path / "listed" / "x")


@pytest.fixture
def listed(inside):
    return str(inside.parent)


def relink(path: Path, target: Path) -> None:
    """Replace the path by a link."""
    path.rename(path.with_name(f"{path.name}.before"))
    path.symlink_to(target)


def graft(inside, outside):
    """Make main point to the private commit, in a repository that git does not clone by copying."""
    commit = git(outside, "rev-parse", "main")
    (inside / ".git" / "refs" / "heads" / "main").write_text(f"{commit}\n")
    (inside / ".git" / "shallow").write_text(f"{commit}\n")


def pack_link(inside, outside):
    relink(inside / ".git/objects/pack", outside / ".git/objects/pack")
    graft(inside, outside)


def pack_file_links(inside, outside):
    for file in (outside / ".git/objects/pack").iterdir():
        (inside / ".git/objects/pack" / file.name).symlink_to(file)
    graft(inside, outside)


def loose_objects_link(inside, outside):
    commit = git(outside, "rev-parse", "main")
    for pack in (outside / ".git/objects/pack").glob("*.pack"):
        moved = pack.rename(outside / "pack")
        pack.with_suffix(".idx").unlink()
        with moved.open("rb") as content:
            git_in = ["git", "-C", str(outside), "unpack-objects", "-q"]
            subprocess.run(git_in, stdin=content, check=True)
    for folder in (outside / ".git/objects").glob("[0-9a-f][0-9a-f]"):
        (inside / ".git/objects" / folder.name).symlink_to(folder)
    (inside / ".git/refs/heads/main").write_text(f"{commit}\n")
    (inside / ".git/shallow").write_text(f"{commit}\n")


def refs_link(inside, outside):
    relink(inside / ".git/refs", outside / ".git/refs")
    alternates(inside, outside)


def packed_refs_link(inside, outside):
    git(outside, "pack-refs", "--all")
    (inside / ".git/packed-refs").symlink_to(outside / ".git/packed-refs")


def link_by_way_of_a_listed_folder(inside, outside):
    way = inside.parent / "way"
    way.mkdir()
    (way / "on").symlink_to(outside / ".git/objects/pack")
    for file in (outside / ".git/objects/pack").iterdir():
        (way / file.name).symlink_to(way / "on" / file.name)
    relink(inside / ".git/objects/pack", way)
    graft(inside, outside)


def alternates(inside, outside, form="{}"):
    target = form.format(outside / ".git/objects")
    (inside / ".git/objects/info").mkdir(exist_ok=True)
    (inside / ".git/objects/info/alternates").write_text(f"{target}\n")
    graft(inside, outside)


def quoted_alternates(inside, outside):
    alternates(inside, outside, form='"{}"')


def link_in_an_alternate(inside, outside):
    lender = make(inside.parent / "lender", "lender")
    pack_link(lender, outside)
    alternates(inside, lender)
    graft(inside, outside)


def git_file_of_two_lines(inside, outside):
    relink(inside / ".git", inside / ".git.before")
    (inside / ".git").unlink()
    (inside / ".git.before\n").mkdir()
    (inside / ".git").write_text("gitdir: .git.before\n/../../../outside/private/.git\n")


def git_file_with_two_spaces(inside, outside):
    (inside / ".git").rename(inside / "own")
    (inside / " ").symlink_to(outside)
    (inside / ".git").write_text(f"gitdir:  {inside / 'own'}\n")


def common_folder_of_two_lines(inside, outside):
    (inside / ".git/x\n").mkdir()
    (inside / ".git/x").mkdir()
    for name in ("objects", "refs"):
        (inside / ".git/x" / name).mkdir()
    (inside / ".git/commondir").write_text("x\n/../../../../outside/private/.git\n")


def sibling(inside, outside):
    """Git looks at x.git when x/.git is not valid."""
    (inside / ".git/HEAD").write_text("nothing\n")
    inside.with_name("x.git").symlink_to(outside)


def repository_in_a_repository(inside, outside):
    """Git takes x for the repository, because x/.git lacks refs."""
    git(inside, "init", "-q", "--bare", "-b", "main", ".")
    relink(inside / "objects", outside / ".git/objects")
    (inside / ".git/refs").rename(inside / ".git/gone")


VARIANTS = [
    *(pack_link, pack_file_links, loose_objects_link, refs_link, packed_refs_link),
    *(link_by_way_of_a_listed_folder, alternates, quoted_alternates, link_in_an_alternate),
    *(git_file_of_two_lines, git_file_with_two_spaces, common_folder_of_two_lines),
    *(sibling, repository_in_a_repository),
]


def private_objects(mirror, outside):
    """Return the private objects that the mirror holds."""
    if not mirror.exists():
        return []
    names = git(outside, "rev-list", "--objects", "--all").split()[::1]
    held = subprocess.run(
        ["git", "--git-dir", str(mirror), "cat-file", "--batch-check"],
        input="\n".join(names),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [line for line in held.splitlines() if not line.endswith("missing")]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mirrored", [False, True], ids=["first run", "second run"])
def test_nothing_outside_of_the_allowed_folders_is_indexed(
    inside, outside, listed, tmp_path, variant, mirrored
):
    mirrors = Mirrors(tmp_path / "mirrors", timeout_s=60, local_paths=listed)
    repository = Repository(NAME, str(inside))
    if mirrored:
        mirrors.sync(repository)
    variant(inside, outside)

    with pytest.raises(InvalidQuery):
        mirrors.sync(repository)

    assert private_objects(mirrors.git_dir(NAME), outside) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
@pytest.mark.parametrize("variant", [pack_link, refs_link, alternates])
def test_a_users_own_repository_gives_no_access_to_files_of_another_user(inside, outside, variant):
    variant(inside, outside)
    for path in (outside, *outside.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER)
    with pytest.raises(InvalidQuery, match="not owned by the user"):
        check(inside, local_paths="owned")


@pytest.mark.parametrize("variant", [pack_link, refs_link, alternates])
def test_links_inside_the_allowed_folders_are_followed(inside, outside, tmp_path, variant):
    variant(inside, outside)
    assert check(inside, local_paths=str(tmp_path)) == inside
    assert check(inside, local_paths="owned") == inside


def test_links_that_git_does_not_follow_for_a_clone_are_allowed(inside, outside, listed, tmp_path):
    for name in ("hooks", "lfs"):
        if (inside / ".git" / name).exists():
            relink(inside / ".git" / name, outside)
        else:
            (inside / ".git" / name).symlink_to(outside)
    (inside / "docs").symlink_to(outside)
    assert check(inside, local_paths=listed) == inside
    mirrors = Mirrors(tmp_path / "mirrors", timeout_s=60, local_paths=listed)
    mirrors.sync(Repository(NAME, str(inside)))


def test_worktrees_and_bare_repositories_inside_the_allowed_folders_are_read(inside, listed):
    git(inside, "worktree", "add", "-q", "../tree", "-b", "other")
    git(inside, "clone", "-q", "--bare", "--shared", ".", "../bare.git")
    git(inside, "gc", "-q")
    for name in ("tree", "bare.git", "x", "x/.git"):
        path = inside.parent / name
        assert check(path, local_paths=listed) == path


def test_a_source_redirected_during_the_transfer_leaves_no_mirror(
    inside, outside, listed, tmp_path
):
    mirrors = Mirrors(tmp_path / "mirrors", timeout_s=60, local_paths=listed)
    repository = Repository(NAME, str(inside))
    mirrors.sync(repository)
    (inside / "more.txt").write_text("more")
    git(inside, "add", ".")
    git(inside, "commit", "-q", "-m", "more")
    swapped = []

    def swap(_line: str) -> None:
        if not swapped:
            swapped.append(pack_link(inside, outside))

    with pytest.raises(CodelodeError):
        mirrors.sync(repository, on_progress=swap)
    assert private_objects(mirrors.git_dir(NAME), outside) == []


@pytest.mark.parametrize("is_older", [False, True], ids=["new mirror", "of an older version"])
def test_a_mirror_borrows_no_objects(inside, outside, listed, tmp_path, is_older):
    """Check that a mirror has its own objects: the lender of its source is not checked later."""
    lender = make(inside.parent / "lender", "lender")
    git(inside.parent, "clone", "-q", "--shared", str(lender), "borrower")
    borrower = Repository(NAME, str(inside.parent / "borrower"))
    mirrors = Mirrors(tmp_path / "mirrors", timeout_s=60, local_paths=listed)
    mirrors.sync(borrower)
    if is_older:  # which cloned the list of lenders too
        listing = mirrors.git_dir(NAME) / "objects/info/alternates"
        listing.write_text(f"{lender}/.git/objects\n")
    git(inside.parent / "borrower", "repack", "-a", "-d", "-q")
    (inside.parent / "borrower/.git/objects/info/alternates").unlink()
    relink(lender / ".git/objects", outside / ".git/objects")

    mirrors.sync(borrower)

    assert mirrors.resolve(NAME) == ("main", git(lender.with_name("borrower"), "rev-parse", "main"))
    assert private_objects(mirrors.git_dir(NAME), outside) == []


#: Whenever the given process runs a git on the given repository, puts a link in the place of its
#: packs; puts them back when that git has ended. Says when it is ready.
SWAPPER = """
import os, sys
from pathlib import Path

process, inside, target = sys.argv[1:]
packs = Path(inside, ".git/objects/pack")
own, link = Path(inside, "own"), Path(inside, "link")
link.symlink_to(target)

def reads():
    for task in Path("/proc", process, "task").iterdir():
        for pid in (task / "children").read_text().split():
            command = Path("/proc", pid, "cmdline").read_text().split("\\0")
            if "git" in command and inside in command:
                return True
    return False

is_swapped = False
print("ready", flush=True)
while True:
    try:
        is_read = reads()
    except OSError:
        continue
    if is_read != is_swapped:
        for old, new in ((packs, own), (link, packs)) if is_read else ((packs, link), (own, packs)):
            old.rename(new)
        is_swapped = is_read
"""


@contextmanager
def swapping(inside, outside):
    """Race with every git of this process: see SWAPPER."""
    target = outside / ".git/objects/pack"
    command = [sys.executable, "-c", SWAPPER, str(os.getpid()), str(inside), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout.readline()
            yield
        finally:
            swapper.kill()


@pytest.mark.slow
@pytest.mark.skipif(not git_program.can_be_restricted(), reason="the kernel has no Landlock")
@pytest.mark.parametrize("mirrored", [False, True], ids=["first run", "second run"])
def test_a_link_swapped_in_while_git_reads_reveals_nothing(
    inside, outside, listed, tmp_path, mirrored
):
    mirrors = Mirrors(tmp_path / "mirrors", timeout_s=60, local_paths=listed)
    repository = Repository(NAME, str(inside))
    if mirrored:
        mirrors.sync(repository)
    graft(inside, outside)
    with swapping(inside, outside):
        for _ in range(20):
            with suppress(CodelodeError):
                mirrors.sync(repository)
            assert private_objects(mirrors.git_dir(NAME), outside) == []
