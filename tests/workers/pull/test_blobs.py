import hashlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from codelode.errors import NotFound
from codelode.model import BlobId, Repository, RepositoryName, Revision, SourceFile
from workers.pull.blobs import GitBlobs

NAME = RepositoryName("owner/repo")
RANDOM = random.Random(1)
CONTENTS = {
    "empty": b"",
    "newline": b"\n",
    "header.txt": b"0123 blob 5\nmissing\n",
    "crlf": b"a\r\nb\r\n",
    "zeros": bytes(1000),
    **{f"{size}.bin": RANDOM.randbytes(size) for size in (1, 4095, 4096, 65_535, 65_537)},
}


def blob_id(content):
    return BlobId(hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest())


@pytest.fixture
def pulled(source, mirrors, repository):
    """Return the revision of a mirror with contents of many sizes."""
    revision = source.commit(CONTENTS)
    mirrors.sync(repository)
    return revision


@pytest.fixture
def reader_pids(monkeypatch):
    """Return the ids of the processes that readers start from now on."""
    started = []
    real = subprocess.Popen

    def start(*arguments, **options):
        process = real(*arguments, **options)
        started.append(process.pid)
        return process

    monkeypatch.setattr("workers.pull.objects.subprocess.Popen", start)
    return started


def test_every_content_is_read_to_the_byte(pulled, blobs):
    for content in CONTENTS.values():
        assert blobs.read(NAME, blob_id(content)) == content


def test_the_listing_names_every_entry(pulled, blobs):
    listed = {file.path: file for file in blobs.listing(NAME, pulled)}
    assert set(listed) == set(CONTENTS)
    zeros = CONTENTS["zeros"]
    assert listed["zeros"] == SourceFile("zeros", blob_id(zeros), 1000, 0o100644)


@pytest.mark.slow
def test_a_content_of_several_megabytes_is_read_completely(source, mirrors, repository, blobs):
    large = RANDOM.randbytes(5_000_000)
    source.commit({"large": large})
    mirrors.sync(repository)
    assert blobs.read(NAME, blob_id(large)) == large


@pytest.mark.parametrize("blob", ["f" * 40, "", "HEAD", "main:empty", "f" * 39, "x\ny", "--batch"])
def test_an_id_that_is_not_a_blob_of_the_mirror_is_not_found(pulled, blobs, blob):
    with pytest.raises(NotFound):
        blobs.read(NAME, BlobId(blob))
    assert blobs.read(NAME, blob_id(b"\n")) == b"\n"


def test_a_commit_or_tree_is_not_a_file(pulled, blobs, source):
    for name in ("main", "main^{tree}"):
        with pytest.raises(NotFound):
            blobs.read(NAME, BlobId(source.git("rev-parse", name)))
    assert blobs.read(NAME, blob_id(b"\n")) == b"\n"


def test_a_repository_that_was_never_pulled_is_not_found(blobs):
    with pytest.raises(NotFound, match="not been pulled"):
        blobs.read(NAME, BlobId("f" * 40))
    with pytest.raises(NotFound, match="not been pulled"):
        list(blobs.listing(NAME, Revision("f" * 40)))


def test_one_process_serves_many_reads(reader_pids, pulled, blobs):
    reader_pids.clear()
    for content in CONTENTS.values():
        blobs.read(NAME, blob_id(content))
    assert len(reader_pids) == 1


def test_a_killed_reader_is_replaced(reader_pids, pulled, blobs):
    reader_pids.clear()
    blobs.read(NAME, blob_id(b"\n"))
    os.kill(reader_pids[0], signal.SIGKILL)
    assert blobs.read(NAME, blob_id(b"\n")) == b"\n"
    assert len(reader_pids) == 2


def test_blobs_of_a_later_sync_can_be_read(pulled, blobs, source, mirrors, repository):
    blobs.read(NAME, blob_id(b"\n"))
    source.commit({"new": "new"})
    mirrors.sync(repository)
    assert blobs.read(NAME, blob_id(b"new")) == b"new"


def test_a_repacked_or_replaced_mirror_can_be_read(pulled, blobs, source, mirrors, repository):
    blobs.read(NAME, blob_id(b"\n"))
    mirror = replace(source, path=mirrors.git_dir(NAME))
    mirror.git("repack", "-a", "-d", "-q")
    assert blobs.read(NAME, blob_id(CONTENTS["65537.bin"])) == CONTENTS["65537.bin"]
    mirrors.remove(NAME)
    mirrors.sync(repository)
    assert blobs.read(NAME, blob_id(CONTENTS["zeros"])) == CONTENTS["zeros"]


def test_threads_share_a_reader_without_mixing_answers(pulled, blobs):
    wanted = [content for content in CONTENTS.values() if len(content) < 100_000] * 30
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda content: blobs.read(NAME, blob_id(content)), wanted))
    assert answers == wanted


def test_readers_beyond_the_limit_are_ended_the_oldest_first(reader_pids, make_source, mirrors):
    names = []
    for number in range(3):
        made = make_source(f"s{number}")
        made.commit({"x": str(number)})
        names.append(RepositoryName(f"r{number}"))
        mirrors.sync(Repository(names[-1], str(made.path)))
    blobs = GitBlobs(mirrors, max_readers=2)
    reader_pids.clear()
    for number in (0, 1, 0, 2, 0, 1):
        assert blobs.read(names[number], blob_id(str(number).encode())) == str(number).encode()
    assert len(reader_pids) == 4
    blobs.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in reader_pids)


def test_reads_go_on_while_readers_are_ended_by_other_threads(make_source, mirrors):
    names = []
    for number in range(3):
        made = make_source(f"s{number}")
        made.commit({"x": str(number)})
        names.append(RepositoryName(f"r{number}"))
        mirrors.sync(Repository(names[-1], str(made.path)))
    blobs = GitBlobs(mirrors, max_readers=1)
    failures = []

    def read(number):
        for _ in range(20):
            try:
                blobs.read(names[number], blob_id(str(number).encode()))
            except NotFound as exc:
                failures.append(exc)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    blobs.close()
    assert failures == []


def _read_in_child(blobs, wanted, answers):
    answers.put([blobs.read(NAME, blob) for blob in wanted])


def test_a_forked_process_reads_for_itself_and_leaves_the_parent_s_reader(pulled, blobs):
    small = [content for content in CONTENTS.values() if len(content) < 100_000]
    wanted = [blob_id(content) for content in small]
    assert [blobs.read(NAME, blob) for blob in wanted] == small
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    children = [
        context.Process(target=_read_in_child, args=(blobs, wanted * 20, answers)) for _ in range(2)
    ]
    for child in children:
        child.start()
    for _ in range(20):
        assert [blobs.read(NAME, blob) for blob in wanted] == small
    assert [answers.get(timeout=60) for _ in children] == [small * 20] * 2
    for child in children:
        child.join(60)
        assert child.exitcode == 0


SCRIPT = """
import os, sys
from pathlib import Path
from workers.pull import objects
from workers.pull.blobs import GitBlobs
from workers.pull.mirror import Mirrors
blobs = GitBlobs(Mirrors(Path(sys.argv[1])))
blobs.read("owner/repo", sys.argv[2])
(reader,) = objects._open
print(reader._process.pid, flush=True)
if sys.argv[3] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["normal", "killed"])
def test_a_reader_ends_with_its_process_without_a_warning(pulled, mirrors, end):
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", SCRIPT,
         str(mirrors.folder), blob_id(b"\n"), end],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == (-9 if end == "killed" else 0), done.stderr
    assert done.stderr == ""
    _await_end(int(done.stdout))


def _await_end(pid):
    for _ in range(10_000_000):
        if not Path(f"/proc/{pid}").exists():
            return
        os.sched_yield()
    pytest.fail(f"process {pid} lives on")


def test_an_unused_reader_ends_by_itself(pulled, mirrors, reader_pids):
    blobs = GitBlobs(mirrors, idle_s=0.01)
    blobs.read(NAME, blob_id(b""))
    while watches := [one for one in threading.enumerate() if isinstance(one, threading.Timer)]:
        for watch in watches:
            watch.join()
    (pid,) = reader_pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert blobs.read(NAME, blob_id(b"\n")) == b"\n"
    blobs.close()
