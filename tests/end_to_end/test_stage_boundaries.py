"""A run whose worker dies exactly when it hands work over ends like an undisturbed one.

A stage hands work over in two steps: it records it in the ledger, and sends messages to the next
stage. Only then does it acknowledge its own message. It dies before, between, and after the two
steps. `hooks/sitecustomize.py` makes a worker die at a call.
"""

from __future__ import annotations

import json
import os
from itertools import zip_longest

import pytest
from click.testing import CliRunner

from codelode.backends.redis.ledger import RedisLedger
from codelode.backends.redis.table_inventory import RedisTableInventory
from codelode.cli.doctor import doctor
from codelode.model import RunState
from tests.end_to_end.runs import HOOKS
from tests.end_to_end.stored import assert_same, differences, read

#: Files in flight: fewer than a run has, so that storing some hands out others.
WINDOW = 8

#: The same for runs of few files with summaries.
WINDOW_OF_FEW = 3


def sources(mark, count=6):
    """Return content by path: three languages with imports, `count` files of a language.

    Each file has the mark, so no repository of another test has the same content.
    """
    files = {
        "README.md": f"# {mark}\n\nReads rows, shows them and serves them.\n",
        "go.mod": f"module example.org/{mark}\n\ngo 1.22\n",
        "app/__init__.py": f'"""The application {mark}."""\n',
    }
    for n in range(count):
        after = (n + 1) % count
        files[f"app/part_{n}.py"] = (
            f"from app.part_{after} import load_{after}\n\n\n"
            f'def load_{n}(path, limit):\n    """Read part {n} of {mark}."""\n'
            f"    return load_{after}(path, limit - 1) if limit else []\n"
        )
        files[f"web/view_{n}.ts"] = (
            f'import {{ show{after} }} from "./view_{after}";\n\n'
            f"// View {n} of {mark}.\n"
            f"export function show{n}(rows: string[]): string {{\n"
            f'  return rows.length ? show{after}(rows.slice(1)) : "";\n}}\n'
        )
    for n in range(count - 1):
        files[f"serve{n}/serve.go"] = (
            f"// Package serve{n} answers for {mark}.\npackage serve{n}\n\n"
            f'import "example.org/{mark}/serve{n + 1}"\n\n'
            f"func Serve(path string) string {{\n\treturn serve{n + 1}.Serve(path)\n}}\n"
        )
    return files


@pytest.fixture(scope="module")
def deaths(tmp_path_factory):
    """Return the folder in which tests leave orders to die."""
    return tmp_path_factory.mktemp("deaths")


@pytest.fixture(scope="module")
def make_mortal(make_cluster, deaths):
    """`make_mortal(**settings)` starts a cluster whose workers die on order."""

    def make(**settings):
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PYTHONPATH", HOOKS, prepend=os.pathsep)
            environment.setenv("DEATHS", str(deaths))
            return make_cluster(**{"window": str(WINDOW), **settings})

    return make


@pytest.fixture(scope="module")
def mortal(make_mortal):
    return make_mortal()


@pytest.fixture(scope="module")
def mortal_with_model(make_mortal, shared_model_server):
    """Start a cluster whose language model answers every question, unlike small real models."""
    return make_mortal(
        language_model="ollama",
        ollama_url=shared_model_server.url,
        summary_model="write",
        window=str(WINDOW_OF_FEW),
    )


@pytest.fixture
def order(deaths):
    """`order(worker, moment, of)` orders a worker to die; returns a function to list who died.

    With `times`, it dies so many times.
    """

    def give(worker, moment, of="worker", times=1):
        for number in range(times):
            (deaths / f"{worker} {moment} {number}").write_text(of)
        return lambda: [int(one.suffix[1:]) for one in deaths.glob(f"{worker} {moment} *.*")]

    yield give
    for left in deaths.iterdir():
        left.unlink()


def indexed(cluster, git, name):
    with cluster.client() as client:
        return ended(client, client.index(str(git.folder), name=name, wait=False))


def ended(client, run):
    *_, end = client.watch(run.id)
    failures = list(client.failures(run.repository))
    assert (end.state, failures, end.done) == (RunState.COMPLETE, [], end.total)
    return end


def assert_died(cluster, who, wait_for):
    wait_for(who, "the worker to take its order")
    (pid,) = who()
    wait_for(lambda: pid not in cluster.pids(), "the worker to die")


def assert_sound(cluster, run, wait_for):
    """Check that nothing of the run is missing in the stores, and that no stage output is left."""
    with cluster.redis() as redis:
        outputs = RedisTableInventory(redis).stage_outputs
        wait_for(lambda: run.id not in outputs(), "all parts to be taken or dropped")
    given = ["--json", "--data", str(cluster.data)]
    examined = CliRunner(env=cluster.environment()).invoke(doctor, given)
    findings = json.loads(examined.stdout)["findings"]
    assert [one for one in findings if one["repository"] in (run.repository, "")] == []


PASSES_ON = ("before pass_on", "after pass_on", "after push")
#: Who dies: a worker, or only a process that works for it: the planning one, or one of a pool.
VICTIMS = (
    [("pull", moment, "worker") for moment in ("before plan", "after plan", "after push")],
    [("parse", moment, "worker") for moment in PASSES_ON],
    [("embed", moment, "worker") for moment in PASSES_ON],
    [("store", moment, "worker") for moment in ("before done", "after done", "after push")],
    [("pull", moment, "process") for moment in ("before plan", "after plan")],
    [("parse", moment, "process") for moment in PASSES_ON],
)
#: Alternating, because the restart of a worker that dies soon after its start is delayed each time.
MOMENTS = [death for each in zip_longest(*VICTIMS) for death in each if death]


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
@pytest.mark.parametrize(("worker", "moment", "of"), MOMENTS)
def test_a_run_whose_worker_dies_at_a_hand_over_ends_like_an_undisturbed_one(
    mortal, cluster, make_git, order, wait_for, worker, moment, of
):
    name = f"{worker} {moment} {of}".replace(" ", "-")
    git = make_git()
    git.commit(sources(name))
    indexed(cluster, git, name)
    who = order(worker, moment, of)
    end = indexed(mortal, git, name)
    assert end.total == len(sources(name))
    assert_died(mortal, who, wait_for)
    assert_same(read(mortal, name), read(cluster, name))
    assert_sound(mortal, end, wait_for)
    if worker == "pull":
        assert_same_after_a_later_file(mortal, cluster, git, name)


def assert_same_after_a_later_file(mortal, cluster, git, name):
    """Check that both clusters resolve the imports of a file that is added later alike."""
    git.commit(
        {"serve5/serve.go": "package serve5\n\nfunc Serve(path string) string { return path }\n"}
    )
    indexed(cluster, git, name)
    indexed(mortal, git, name)
    assert_same(read(mortal, name), read(cluster, name))


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
@pytest.mark.parametrize("moment", ["before done", "after done"])
def test_if_a_worker_dies_as_it_completes_a_run_nothing_is_lost_and_the_next_run_begins(
    mortal, cluster, make_git, order, wait_for, moment
):
    name = f"complete {moment}".replace(" ", "-")
    git = make_git()
    git.commit(sources(name))
    indexed(mortal, git, name)
    git.commit({"app/part_0.py": f'"""All is new in {name}."""\n'})
    indexed(cluster, git, name)
    who = order("store", moment)
    with mortal.client() as client:
        run = client.index(str(git.folder), name=name, wait=False)
        following = client.index(str(git.folder), name=name, wait=False)
        end = ended(client, run)
        assert (end.total, ended(client, following).total) == (1, 0)
    assert_died(mortal, who, wait_for)
    assert_same(read(mortal, name), read(cluster, name))
    assert_sound(mortal, end, wait_for)


def summaries(cluster, end):
    """Return the numbers of summaries made and missing."""
    with cluster.redis() as redis:
        run = RedisLedger(redis).run(end.id)
    return run.summaries, run.summaries_missing


def assert_same_but_for_summaries(found, expected):
    """Compare two readings, the second of an index without summaries, so vectors differ."""
    assert differences(found, expected).keys() == {"chunks", "records"}
    chunks = frozenset(chunk._replace(summary="") for chunk in found.chunks)
    assert chunks == expected.chunks
    states, expected_states = (
        {(record.path, record.blob, record.state, record.chunks) for record in one.records}
        for one in (found, expected)
    )
    assert states == expected_states


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
@pytest.mark.parametrize("moment", PASSES_ON)
def test_if_an_enrich_worker_dies_at_a_hand_over_no_file_and_no_summary_is_lost(
    mortal_with_model, cluster, make_git, order, wait_for, moment
):
    name = f"enrich {moment}".replace(" ", "-")
    git = make_git()
    git.commit(sources(name, count=2))
    indexed(cluster, git, name)
    who = order("enrich", moment)
    end = indexed(mortal_with_model, git, name)
    assert_died(mortal_with_model, who, wait_for)
    made, missing = summaries(mortal_with_model, end)
    assert (made > 0, missing) == (True, 0)
    assert_same_but_for_summaries(read(mortal_with_model, name), read(cluster, name))
    assert_sound(mortal_with_model, end, wait_for)


#: The deaths, with their numbers. Each death before a hand-over makes a file be parsed again.
DEATHS = (
    *(("parse", "before pass_on", "process", 106), ("parse", "after pass_on", "process", 24)),
    *(("parse", "after push", "process", 24), ("pull", "before plan", "process", 1)),
    *(("pull", "after plan", "process", 1), ("embed", "after pass_on", "worker", 1)),
    *(("store", "before done", "worker", 1), ("store", "after done", "worker", 1)),
)


@pytest.mark.parametrize("store", ["local"], indirect=True)
def test_a_run_with_159_deaths_ends_like_an_undisturbed_one(make_mortal, cluster, make_git, order):
    """Most files have no grammar, because each new process would load it again."""
    assert sum(times for *_, times in DEATHS) == 159
    git = make_git()
    git.commit(sources("mortal") | {f"notes/{n}.txt": f"Note {n} is mortal.\n" for n in range(100)})
    indexed(cluster, git, "mortal")
    mortal = make_mortal(max_attempts="20", window="256")
    died = [order(*death[:3], times=death[3]) for death in DEATHS]
    indexed(mortal, git, "mortal")
    assert [len(who()) for who in died] == [times for *_, times in DEATHS]
    assert_same(read(mortal, "mortal"), read(cluster, "mortal"))


@pytest.fixture(scope="module")
def patient(make_mortal):
    """Start a cluster that considers no file lost, as if other runs kept its queues busy."""
    return make_mortal(requeue_s="3600")


@pytest.mark.parametrize("store", ["local"], indirect=True)
@pytest.mark.parametrize("of", ["worker", "process"])
def test_a_plan_whose_worker_died_is_processed_before_its_files_count_as_lost(
    patient, make_git, order, wait_for, of
):
    git = make_git()
    git.commit(sources(f"planned-{of}", count=1))
    who = order("pull", "after plan", of)
    end = indexed(patient, git, f"planned-{of}")
    assert_died(patient, who, wait_for)
    assert end.total == len(sources("", count=1))
