"""`codelode sources list` shows what the gateway knows of the code hosts."""

from __future__ import annotations

import pytest

from codelode.v1 import index_pb2


def remarks(served, gateway, **fields):
    """Return the lines below the table, for one connection with these fields."""
    gateway.sources = [index_pb2.Source(connection="work", kind="github", **fields)]
    return served("sources", "list").out.splitlines()[2:]


def test_the_remaining_request_limit_of_a_host_is_shown(served, gateway):
    budget = {"requests_allowed": 5_000, "requests_left": 40}
    (told,) = remarks(served, gateway, **budget, resets_at=1_700_000_000.0)

    assert told.startswith("work: its host accepts 40 of 5,000 requests more until 2023-11-1")
    assert remarks(served, gateway, **budget) == [
        "work: its host accepts 40 of 5,000 requests more"
    ]


def test_a_host_that_does_not_tell_its_limit_has_no_line_about_it(served, gateway):
    assert remarks(served, gateway, listed=3) == []


def test_a_long_sync_prints_what_it_waits_for(served, gateway, monkeypatch):
    gateway.sources = [index_pb2.Source(connection="work", listed=3)]
    gateway.listed_after = 1
    quick = served("sources", "sync", "work", "--wait")
    assert (quick.status, quick.err) == (0, "")
    assert "work: 3 repositories listed, nothing to do" in quick.out

    monkeypatch.setattr("codelode.cli.sources._LONG_S", 0.0)
    gateway.sources = [index_pb2.Source(connection="work", listed=3)]
    gateway.listed_after = 3
    slow = served("sources", "sync", "work", "--wait")
    assert slow.status == 0
    assert slow.err.count("waiting for a worker to list work") == 1
    assert "shows how many workers the queue control has" in slow.err


@pytest.mark.parametrize("command", ["sources sync work --wait", "sources plan work", "plan --all"])
def test_a_command_that_waits_for_workers_fails_if_there_are_none(
    served, gateway, monkeypatch, command
):
    monkeypatch.setattr("codelode.cli.sources._LONG_S", 0.0)
    monkeypatch.setattr("codelode.cli.workers.NONE_S", 0.0)
    gateway.sources = [index_pb2.Source(connection="work")]
    gateway.listed_after, gateway.workers = 10**6, [0]
    got = served(*command.split())

    assert (got.status, got.out) == (2, "")
    queue = "pull" if command.startswith("plan") else "control"
    assert f"no worker has listened to the queue {queue}" in got.err
    assert "run `codelode up`" in got.err
    assert not [one for one in gateway.requests if isinstance(one, index_pb2.StartRunRequest)]


def test_late_or_unknown_workers_are_waited_for(served, gateway, monkeypatch):
    monkeypatch.setattr("codelode.cli.sources._LONG_S", 0.0)
    monkeypatch.setattr("codelode.cli.workers.ASK_S", 0.0)
    for workers, notes in ([0, 0, 1], 1), ([-1], 0):  # -1: the broker cannot ask them
        gateway.sources = [index_pb2.Source(connection="work", listed=3)]
        gateway.listed_after, gateway.workers = 3, workers
        got = served("sources", "sync", "work", "--wait")
        assert got.status == 0
        assert got.err.count("no worker listens to the queue control") == notes


@pytest.mark.parametrize("command", ["sync --wait", "plan"])
def test_a_host_that_cannot_be_read_is_an_error(served, gateway, command):
    name, *options = command.split()
    for error, status in (("h.example answers with 401", 2), ("", 0)):
        gateway.sources = [index_pb2.Source(connection="work", error=error)]
        gateway.listed_after = 1
        got = served("sources", name, "work", *options)
        assert (got.status, got.err) == (status, f"codelode: work: {error}\n" if error else "")


def test_a_sync_says_that_the_file_cannot_be_used(served, gateway):
    gateway.sources = [index_pb2.Source(connection="work")]
    gateway.listed_after, gateway.sources_problem = 1, "sources.yaml:3: there is no kind 'x'"
    got = served("sources", "sync", "work", "--wait")

    assert (got.status, got.err) == (0, "codelode: sources.yaml:3: there is no kind 'x'\n")
