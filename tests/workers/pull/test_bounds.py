"""Pull bounds repositories that are small on disk and huge when read, and endless sources."""

from __future__ import annotations

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from codelode.errors import Rejected, TimedOut
from codelode.model import Repository, RepositoryName, SourceFile
from tests.processor_time import processor_time_below
from workers.confined import Abandoned
from workers.pull import Mirrors, git, ignore, tree
from workers.pull.changes import plan
from workers.pull.objects import Objects

NAME = RepositoryName("owner/repo")
FOLDERS = 40  # per level


def bomb(source, *, levels, branch="main"):
    """Commit FOLDERS ** levels paths, all of one blob, in one tree per level."""
    entry = source.git("hash-object", "-w", "--stdin", stdin=b"x")
    kind = "100644 blob"
    for _ in range(levels):
        rows = "".join(f"{kind} {entry}\tf{number}.py\n" for number in range(FOLDERS))
        entry, kind = source.git("mktree", stdin=rows.encode()), "040000 tree"
    who = ("-c", "user.name=T", "-c", "user.email=t@x")
    commit = source.git(*who, "commit-tree", "-m", "x", entry)
    source.git("update-ref", f"refs/heads/{branch}", commit)
    return commit


def planned(mirrors, revision, *, indexed=None, **limits):
    limits = {"max_file_bytes": 1000, **limits}
    mirror = mirrors.git_dir(NAME)
    return plan(mirror, revision, indexed=indexed, known=lambda: (), **limits)


@contextmanager
def memory_below(mebibytes):
    """Check that this process never allocates as much at a time."""
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
        assert most < mebibytes << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_commit_of_too_many_paths_is_rejected_before_they_are_read(mirrors, repository, source):
    revision = bomb(source, levels=3)
    mirrors.sync(repository)
    with (
        memory_below(40),
        pytest.raises(Rejected, match="64000 files, and CODELODE_MAX_PATHS allows 50000"),
    ):
        planned(mirrors, revision, max_paths=50_000)
    with pytest.raises(Rejected, match=r"git ls-tree printed more than 400,000 bytes"):
        planned(mirrors, revision, max_paths=1000)


def test_a_repository_cannot_grow_past_the_bound_by_small_steps(mirrors, repository, source):
    first = source.commit({f"{number}.py": "x" for number in range(8)})
    second = source.commit({f"more/{number}.py": "x" for number in range(4)})
    mirrors.sync(repository)
    at = {"indexed": first, "known_paths": 8}
    assert len(planned(mirrors, second, **at, max_paths=12).items) == 4
    with pytest.raises(Rejected, match="12 files, and CODELODE_MAX_PATHS allows 11"):
        planned(mirrors, second, **at, max_paths=11)


@pytest.mark.slow
def test_an_ignore_file_that_is_too_large_fails_the_run_and_is_not_read_whole(
    mirrors, repository, source
):
    revision = source.commit({".codelodeignore": "x\n" * 20_000_000, "a.py": "a"})
    mirrors.sync(repository)
    too_large = "larger than the 1000 bytes that CODELODE_MAX_FILE_BYTES"
    with memory_below(10), pytest.raises(Rejected, match=too_large):
        planned(mirrors, revision)
    with Objects(mirrors.git_dir(NAME)) as objects:
        assert len(objects.read(f"{revision}:.codelodeignore", max_bytes=1001)) == 1001
        assert objects.read(f"{revision}:a.py") == b"a"


def test_a_large_file_that_only_marks_a_folder_is_not_read_as_an_ignore_file(
    mirrors, repository, source
):
    files = {"package.json": " " * 5_000, "dist/a.js": "a", "src/a.js": "a"}
    revision = source.commit(files)
    mirrors.sync(repository)
    skipped = {one.path: one.reason for one in planned(mirrors, revision).skipped}
    assert skipped == {"package.json": "too_large", "dist/a.js": "build_output"}


def test_an_ignore_file_in_many_folders_is_parsed_once():
    content = "".join(f"a{number}*b{number}\n" for number in range(1_000)).encode()
    rules = ignore.Rules(lambda path: content, max_file_bytes=len(content))
    files = [SourceFile(f"{number}/x.py", "b" * 40, 1) for number in range(300)]
    with processor_time_below(5):  # 0.1 s; parsing it for each folder would take 15 s
        for file in files:
            rules.reason(file)


def test_a_source_of_too_many_refs_is_rejected(tmp_path, repository, source):
    revision = source.commit({"a.py": "a"})
    refs = "".join(f"create refs/heads/b{number} {revision}\n" for number in range(200))
    source.git("update-ref", "--stdin", stdin=refs.encode())
    few = Mirrors(tmp_path / "few", local_paths=str(tmp_path), max_refs=100)
    with pytest.raises(Rejected, match="201 branches and tags, and CODELODE_MAX_REFS allows 100"):
        few.sync(repository)
    assert not few.git_dir(NAME).exists()


class Endless(BaseHTTPRequestHandler):
    """A host whose list of refs has no end, or that never answers (below /silent)."""

    released = threading.Event()

    def do_GET(self):
        if self.path.startswith("/silent"):
            self.released.wait(120)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        self.end_headers()
        self.wfile.write(b"001e# service=git-upload-pack\n0000")
        block = b"0050%s refs/heads/%024d\n" % (b"a" * 40, 1) * 50_000
        try:
            while not self.released.is_set():
                self.wfile.write(block)
        except OSError:
            pass  # git has gone

    def log_message(self, *_):
        pass


@pytest.fixture
def host():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads = True
    Endless.released.clear()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Endless.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_list_of_refs_without_an_end_meets_the_memory_bound(host, tmp_path):
    bounded = Mirrors(tmp_path / "mirrors", timeout_s=120, git_memory_bytes=100 << 20)
    with pytest.raises(Rejected, match="git needs more memory than 100 MB"):
        bounded.sync(Repository(NAME, f"{host}/endless/x"))


@pytest.mark.slow
def test_a_process_that_git_starts_immediately_has_the_memory_limit():
    asked = ("-c", "alias.bound=!ulimit -d", "bound")
    with ThreadPoolExecutor(16) as pool:  # busy, so that git runs before the caller goes on
        told = list(pool.map(lambda _: git.run(*asked, memory_bytes=64 << 20), range(160)))
    assert set(told) == {b"65536\n"}


def test_hosts_that_do_not_answer_delay_no_other_repository(host, mirrors, repository, source):
    revision = source.commit({"a.py": "a"})
    is_over = threading.Event()

    def wait(number):
        silent = Repository(RepositoryName(f"silent/{number}"), f"{host}/silent/{number}")
        mirrors.sync(silent, is_wanted=lambda: not is_over.is_set())

    with ThreadPoolExecutor(12) as pool:
        waiting = [pool.submit(wait, number) for number in range(10)]
        mirrors.sync(repository)
        assert mirrors.resolve(NAME) == ("main", revision)
        assert not any(one.done() for one in waiting)
        is_over.set()
        for one in waiting:
            with pytest.raises(Abandoned):
                one.result(60)


def test_git_is_ended_when_it_makes_no_progress(host):
    variables = git.environment(protocols="http")
    asked = ("ls-remote", f"{host}/silent/x")
    with pytest.raises(TimedOut, match="git ls-remote made no progress"):
        git.run(*asked, variables=variables, timeout_s=60, stall_s=0.1)


def test_a_listing_of_exactly_the_maximum_size_is_allowed(mirrors, repository, source):
    revision = bomb(source, levels=2)
    mirrors.sync(repository)
    listed = list(tree.listing(mirrors.git_dir(NAME), revision, max_paths=FOLDERS**2))
    assert len(listed) == FOLDERS**2
