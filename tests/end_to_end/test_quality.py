"""The ranking of real code for the bundled judged queries is as good as its baseline.

The corpora are installed packages whose versions the lock file pins. Queries and answers are
written by hand: questions and names in `judged/queries.json`, and in `judged/engineers.json` what
engineers paste and ask. The baselines are beside them, one file per store. Write them again after
an intended change of the ranking, or an update of a package:

    UPDATE_BASELINE=1 .venv/bin/pytest tests/end_to_end/test_quality.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from codelode.operations.evaluation import judged
from tests.judged_packages import ENGINEERS, JUDGED, PACKAGES, QUERIES, commit_packages


@pytest.fixture(scope="session")
def asked(cluster, tmp_path_factory):
    """The cluster with the packages indexed."""
    folder = tmp_path_factory.mktemp("judged")
    commit_packages(folder)
    with cluster.client() as client:
        runs = [client.index(str(folder / name), name=name, wait=False) for name in PACKAGES]
        for run in runs:
            *_, last = client.watch(run)
            assert (last.state.value, last.failed) == ("complete", 0)
    return cluster


@pytest.fixture
def baseline(asked):
    return JUDGED / f"baseline-{asked.settings().store}.json"


def evaluate(cluster, *arguments, queries=QUERIES):
    return subprocess.run(
        [sys.executable, "-m", "codelode", "eval", str(queries), *arguments],
        env={**cluster.environment(), "CODELODE_SERVER": cluster.facts["grpc"]},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_answers_are_as_good_as_the_baseline(asked, baseline):
    if os.environ.get("UPDATE_BASELINE"):
        evaluate(asked, "--save", str(baseline))

    done = evaluate(asked, "--baseline", str(baseline))

    assert done.returncode == 0, done.stdout + done.stderr


def test_answers_to_queries_of_engineers_are_as_good_as_the_baseline(asked):
    baseline = JUDGED / f"engineers-{asked.settings().store}.json"
    if os.environ.get("UPDATE_BASELINE"):
        evaluate(asked, "--save", str(baseline), queries=ENGINEERS)

    done = evaluate(asked, "--baseline", str(baseline), queries=ENGINEERS)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("worse", ["rank.ranker=fused", "retrieve.alpha=1"])
def test_a_worse_ranking_fails(asked, baseline, worse):
    done = evaluate(asked, "--baseline", str(baseline), "--set", worse)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "worse than allowed" in done.stderr


def test_the_queries_have_every_language_and_category():
    queries = judged.read(QUERIES)

    assert {query.language for query in queries} == {"python", "javascript", "c"}
    assert {query.category for query in queries} == {"symbol", "semantic", "architecture"}
    assert len({(query.repository, query.text) for query in queries}) == len(queries) >= 60


def test_the_queries_of_engineers_have_every_category():
    queries = judged.read(ENGINEERS)

    kinds = Counter(query.category for query in queries)
    assert set(kinds) == {
        *(
            "message",
            "trace",
            "key",
            "configured",
            "caller",
            "typo",
            "snippet",
            "member",
            "question",
        )
    }
    assert min(kinds.values()) >= 10
    assert len({(query.repository, query.text) for query in queries}) == len(queries) >= 200


@pytest.mark.parametrize("file", [QUERIES, ENGINEERS], ids=lambda file: file.stem)
def test_every_relevant_location_is_in_the_installed_packages(file):
    installed = Path(sysconfig.get_path("purelib"))
    targets = {target for query in judged.read(file) for target in query.targets}

    for target in targets:
        lines = (installed / target.path).read_text("utf-8").count("\n") + 1
        assert (target.end_line or 1) <= lines, target
