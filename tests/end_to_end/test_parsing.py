"""Parse results reach the index: infrastructure blocks, own queries, and file health."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.own_query import QUERY, ROUTED, ROUTES

TERRAFORM = """\
# Where uploads are kept.
resource "aws_s3_bucket" "uploads" {
  bucket = "uploads"
}
"""
WORKFLOW = """\
on: [push]
jobs:
  publish:
    runs-on: ubuntu
    steps:
      - run: make publish uploads
"""

#: A file whose parsing takes seconds of processor time.
LONG = "x(y);" * 190_000

#: Processor time after which a process of the pool must be parsing LONG, in seconds.
AT_WORK_S = 0.3


def test_blocks_of_infrastructure_are_found_by_hierarchy_and_by_type(cluster, git):
    git.commit({"main.tf": TERRAFORM, ".github/workflows/p.yml": WORKFLOW, "a.py": ROUTED})
    with cluster.client() as client:
        client.index(str(git.folder), name="infrastructure")

        def found(**limits):
            hits = client.search("uploads", repositories=["infrastructure"], **limits)
            return [(hit.path, hit.symbol, hit.block_type) for hit in hits]

        bucket = ("main.tf", "resource.aws_s3_bucket.uploads", "resource")
        job = (".github/workflows/p.yml", "job.publish", "job")
        assert found(block_types=["resource"]) == [bucket]
        assert sorted(found(block_types=["resource", "job"])) == sorted([bucket, job])
        assert found(symbols=["resource.aws_s3_bucket.*"]) == [bucket]
        assert found(languages=["terraform"]) == [bucket]
        assert ("a.py", "list_uploads", "") in found()


def test_a_changed_query_of_the_repository_affects_all_files(cluster, git):
    git.commit({"a.py": ROUTED, QUERY: ROUTES})
    with cluster.client() as client:

        def named(symbol):
            hits = client.search("uploads", repositories=["own"], symbols=[symbol])
            return [hit.path for hit in hits]

        client.index(str(git.folder), name="own")
        assert (named("/uploads"), named("list_uploads")) == (["a.py"], [])

        git.commit({QUERY: f"; inherits: python\n{ROUTES}"})
        client.index(str(git.folder), name="own")
        assert (named("/uploads"), named("list_uploads")) == (["a.py"], ["a.py"])

        git.commit({QUERY: "(no_such_node) @name"})
        client.index(str(git.folder), name="own")
        assert (named("/uploads"), named("list_uploads")) == ([], ["a.py"])
        reasons = {one.path: one.reason for one in client.failures("own", include_partial=True)}
        assert "it does not compile" in reasons["a.py"]
        assert "the built-in query was used" in reasons["a.py"]


def test_the_health_of_each_language_is_in_the_status(cluster, git):
    git.commit({"a.py": "def f(:\n", "b.py": ROUTED, "c.xyz": "words\n"})
    with cluster.client() as client:
        client.index(str(git.folder), name="health")
        (found,) = [one for one in client.repositories() if one.repository.name == "health"]
        health = {one.language: one for one in found.refs[0].health}
        assert (health["python"].ok, health["python"].partial) == (1, 1)
        assert health["text"].unsupported == 1
        (partial,) = [
            one for one in client.failures("health", include_partial=True) if one.path == "a.py"
        ]
        assert partial.state == "partial"
        assert "syntax error" in partial.reason


@pytest.mark.parametrize("store", ["local"], indirect=True)  # the file does not reach the store
def test_a_file_that_exceeds_the_parse_timeout_twice_fails_alone(cluster, git, wait_for):
    git.commit({"a.py": LONG, "b.py": ROUTED})
    before = pool_times(cluster)

    def at_work():
        now = pool_times(cluster)
        return [pid for pid, used_s in now.items() if used_s - before.get(pid, 0) > AT_WORK_S]

    with cluster.client() as client:
        run = client.index(str(git.folder), name="stalled", wait=False)
        for _ in range(2):
            wait_for(at_work, "a process to parse the long file")
            (pid,) = at_work()
            os.kill(pid, signal.SIGSTOP)  # even the fastest machine does not finish the file
            wait_for(lambda pid=pid: pid not in at_work(), "the process to be killed")
        *_, end = client.watch(run.id)
        (failed,) = client.failures("stalled")
        assert (failed.path, failed.reason) == ("a.py", "stage parse took longer than 5 s")
        assert (end.total, end.failed) == (2, 1)
        assert client.search("list_uploads", repositories=["stalled"]).hits[0].path == "b.py"


def pool_times(cluster):
    """Return the processor time, in seconds, of each process of the parse worker's pool, by id."""
    parents = {pid: stat(pid) for pid in cluster.pids("-m workers parse")}
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        pid: (int(fields[11]) + int(fields[12])) / ticks
        for pid, fields in parents.items()
        if int(fields[1]) in parents
    }


def stat(pid):
    """Return the fields of `/proc/PID/stat` after the command: state, parent, and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
