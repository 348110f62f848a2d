"""Neither sources nor configurations can make pull run programs."""

import pytest

from codelode.errors import CodelodeError
from codelode.model import Repository, RepositoryName, SourceFile
from workers.pull import git, tree
from workers.pull.changes import plan

NAME = RepositoryName("owner/repo")
#: All hooks of githooks(5).
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit"),
    *("prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout"),
    *("post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive"),
    *("post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite"),
    *("sendemail-validate", "fsmonitor-watchman", "post-index-change"),
)


@pytest.fixture
def trap(tmp_path):
    """Return a program that leaves a file, and the path of that file."""
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


def test_git_runs_the_hostile_program_if_nothing_prevents_it(source, trap):
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


#: Names that, written to disk, would lead elsewhere or mean git's own files or a device.
CLIMBING = (
    *(".", "..", "...", ".git", ".GIT", ".Git", "git~1", ".git ", ".git.", ".g\u200cit", "~"),
    *(".git/config", ".git/hooks/post-checkout", "../x", "../../etc/passwd", "a/../../b", "./a"),
    *("/etc/passwd", "//host/share", "a//b", "a/", "..\\..\\x", "C:\\x", "C:x", "\\\\host\\x"),
    *("CON", "NUL.py", "a:stream", "%2e%2e%2fx", "-rf", "--output=x", "$HOME", "*", ":(top)a"),
    *("a\nb", "a\rb", "\x1b[2J", "a\tb", "\u202egnp.py", '"', "'", "`id`", "$(id)", "a;id", "|id"),
)


def test_paths_that_climb_or_name_git_itself_are_labels_only(mirrors, repository, source, tmp_path):
    blob = bytes.fromhex(source.git("hash-object", "-w", "--stdin", stdin=b"x"))
    entries = b"".join(b"100644 %s\0%s" % (name.encode(), blob) for name in CLIMBING)
    as_tree = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
    who = ("-c", "user.name=T", "-c", "user.email=t@x")
    commit = source.git(*who, "commit-tree", "-m", "x", source.git(*as_tree, stdin=entries))
    source.git("update-ref", "refs/heads/main", commit)
    before = {path for path in tmp_path.rglob("*") if path.name != "mirrors"}

    mirrors.sync(repository)
    mirror = mirrors.git_dir(NAME)
    listed = {file.path: file for file in tree.listing(mirror, commit)}
    manifest = plan(mirror, commit, indexed=None, known=lambda: (), max_file_bytes=1000)

    assert set(listed) == set(CLIMBING)
    assert isinstance(listed[".."], SourceFile)
    planned = [*(item.path for item in manifest.items), *(one.path for one in manifest.skipped)]
    assert set(planned) == set(CLIMBING)
    made = {path for path in tmp_path.rglob("*") if mirrors.folder not in (path, *path.parents)}
    assert made == before


#: Forms of an address in which a shell, ssh, or git could find the program to run, put at {}.
ADDRESSES = (
    *("{}", "./{}", "~/{}", "/{}", "-{}", "--{}", "ext::{}", "ext::sh -c {}", "fd::7/{}"),
    *("file://{}", "file:///{}", "git://127.0.0.1/{}", "ssh://{}/x", "ssh://git@{}/x"),
    *("ssh://127.0.0.1:1/{}", "ssh://git@127.0.0.1/{}", "git@{}:x", "git@127.0.0.1:{}"),
    *("{}@127.0.0.1:x", "http://127.0.0.1:1/{}", "http://{}/x", "https://{}@127.0.0.1:1/x"),
    *("https://127.0.0.1:1/x?{}", "https://127.0.0.1:1/x#{}", "rsync://127.0.0.1/{}", "hg::{}"),
)
PROGRAMS = (
    *("{}", "$({})", "`{}`", ";{};", "|{}", "&&{}", "-oProxyCommand={}", "--upload-pack={}"),
    *("-u{}", "--config=core.sshCommand={}", "x\n{}", "x%0a{}", "'{}'", '"$({})"'),
)

#: Runs the command like the shell of a host that is reached by ssh.
HOST = """#!/bin/sh
for command; do :; done
exec sh -c "$command"
"""


@pytest.mark.parametrize("form", ADDRESSES)
def test_nothing_in_an_address_is_run(mirrors, trap, tmp_path, monkeypatch, form):
    program, trace = trap
    ssh = tmp_path / "ssh"
    ssh.write_text(HOST)
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.chdir(tmp_path)
    for number, disguise in enumerate(PROGRAMS):
        url = form.format(disguise.format(program))
        with pytest.raises(CodelodeError):
            mirrors.sync(Repository(RepositoryName(f"owner/{number}"), url))
        with pytest.raises((CodelodeError, ValueError)):  # also if the address were not checked
            git.run("ls-remote", "--", url, variables=git.environment(protocols="https:ssh"))
        assert not trace.exists(), url


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
