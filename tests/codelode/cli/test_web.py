"""`codelode web` without a cluster; with one, tests/codelode/cli/test_cluster.py has it."""

from __future__ import annotations

import json
import os

from codelode.cluster import cluster_file


def test_without_a_cluster_the_command_says_what_to_start(codelode):
    answer = codelode("web")

    assert answer.status == 2
    assert "codelode up" in answer.err


def test_a_gateway_that_does_not_answer_is_reported(codelode, tmp_path):
    file = cluster_file(tmp_path / "data")
    file.parent.mkdir(parents=True)
    facts = {"grpc": "127.0.0.1:1", "flower": "", "redis": "", "data": str(tmp_path / "data")}
    file.write_text(json.dumps({"pid": os.getpid(), "http": "http://127.0.0.1:1", **facts}))

    answer = codelode("web", "--no-open")

    assert answer.status == 2
    assert "http://127.0.0.1:1 does not answer" in answer.err
