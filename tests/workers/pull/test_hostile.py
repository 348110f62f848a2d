"""Sources that want their programs run, and configurations that would run them."""

import pytest

from codelode.errors import CodelodeError
from codelode.model import RepositoryName, SourceFile
from workers.pull import git, tree
from workers.pull.changes import plan

NAME = RepositoryName("owner/repo")
HOOKS = (
    "post-checkout",
    "reference-transaction",
    "post-rewrite",
    "pre-auto-gc",
    "post-index-change",
)


@pytest.fixture
def trap(tmp_path):
    """A program that leaves a trace, and the trace."""
    program, trace = tmp_path / "trap.sh", tmp_path / "trace"
    program.write_text(f"#!/bin/sh\necho $0 >> {trace}\n")
    program.chmod(0o755)
    return program, trace


def _settings(program):
    return {
        "core.fsmonitor": program,
        "core.hooksPath": program.parent / "hooks",
        "core.sshCommand": program,
        "core.gitProxy": program,
        "core.askPass": program,
        "core.pager": program,
        "core.editor": program,
        "core.alternateRefsCommand": program,
        "core.worktree": program.parent,
        "credential.helper": f"!{program}",
        "diff.external": program,
        "filter.evil.smudge": program,
        "filter.evil.clean": program,
        "uploadpack.packObjectsHook": program,
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{program}",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": program,
        "extensions.partialClone": "origin",
        "gc.auto": "1",
        "gpg.program": program,
    }


def _arm(source, program):
    for name, value in _settings(program).items():
        source.git("config", name, str(value))
    for folder in (program.parent / "hooks", source.path / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in HOOKS:
            (folder / hook).write_text(program.read_text())
            (folder / hook).chmod(0o755)


def test_nothing_that_a_source_configures_is_run(mirrors, repository, source, trap):
    program, trace = trap
    source.commit({".gitattributes": "* filter=evil diff=evil\n", "a.py": "a"})
    _arm(source, program)
    mirrors.sync(repository)
    _, first = mirrors.resolve(NAME)
    assert not trace.exists()
    (source.path / "config").rename(source.path / "armed")
    source.git("init", "-q", "--bare", ".")
    second = source.commit({"a.py": "b", ".gitmodules": '[submodule "x"]\n\turl = ext::x\n'})
    (source.path / "armed").rename(source.path / "config")
    trace.unlink(missing_ok=True)  # the hooks ran for this test's own commit
    mirrors.sync(repository)
    mirror = mirrors.git_dir(NAME)
    plan(mirror, second, indexed=first, known=lambda: (), max_file_bytes=1000)
    plan(mirror, second, indexed=None, known=lambda: (), max_file_bytes=1000)
    assert mirrors.resolve(NAME)[1] == second
    assert not trace.exists()


def test_the_trap_works(source, trap):
    program, trace = trap
    source.commit({"a.py": "a"})
    _arm(source, program)
    for name in ("core.worktree", "extensions.partialClone"):
        source.git("config", "--unset", name)
    source.git("update-ref", "refs/heads/x", "main")
    assert trace.exists()


def test_a_missing_object_is_not_fetched_by_a_program_of_the_source(
    mirrors, repository, source, trap
):
    program, trace = trap
    source.commit({"a.py": "a"})
    mirrors.sync(repository)
    source.commit({"a.py": "b"})
    blob = source.git("rev-parse", "main:a.py")
    source.git("config", "core.repositoryFormatVersion", "1")
    _arm(source, program)
    for pack in source.path.glob("objects/pack/*"):
        pack.unlink()
    (source.path / "objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
    with pytest.raises(CodelodeError):
        mirrors.sync(repository)
    assert not trace.exists()


def test_objects_that_link_elsewhere_are_refused(mirrors, repository, source, tmp_path):
    source.commit({"a.py": "a"})
    (tmp_path / "secret").write_text("secret")
    (source.path / "objects" / "pack" / "x").symlink_to(tmp_path / "secret")
    with pytest.raises(CodelodeError):
        mirrors.sync(repository)
    assert not mirrors.git_dir(NAME).exists()


def test_paths_that_climb_or_name_git_itself_are_labels_only(mirrors, repository, source, tmp_path):
    blob = source.git("hash-object", "-w", "--stdin", stdin=b"x")
    entry = f"100644 blob {blob}\t.git\n100644 blob {blob}\t..\n".encode()
    tree_id = source.git("mktree", stdin=entry)
    commit = source.git(
        "-c", "user.name=T", "-c", "user.email=t@x", "commit-tree", "-m", "x", tree_id
    )
    source.git("update-ref", "refs/heads/main", commit)
    mirrors.sync(repository)
    listed = {file.path: file for file in tree.listing(mirrors.git_dir(NAME), commit)}
    assert set(listed) == {".git", ".."}
    assert isinstance(listed[".."], SourceFile)


def test_variables_of_this_process_do_not_redirect_git(monkeypatch, mirrors, repository, source):
    revision = source.commit({"a.py": "a"})
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.hookspath=/nonexistent'")
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", revision)


def test_no_protocol_is_allowed_by_default():
    with pytest.raises(CodelodeError, match="not allowed"):
        git.run("ls-remote", "file:///nonexistent")
