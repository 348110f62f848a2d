"""Measure the permission sync of a code host with 10,000 repositories and 1,000 people.

    python tests/bench/permissions.py

The host is that of the tests, in a separate process. Its answers take hardly any time, so the
figures are those of the worker; a real host adds the time of its answers. On GitHub the people are
in 100 teams, which read 200 repositories each; on GitLab each project has ten members. Both are
read twice; the second time GitHub sends only pages that have changed. Then a gateway computes what
each person may see.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import structlog
from embedded import machine

from codelode.access import Role
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.model import Repository, RepositoryName
from gateway.access.hosts import HostReader
from gateway.access.identity import Identity
from gateway.access.rules import Grant, Rules
from gateway.access.visibility import Visibilities
from tests.hosts import TOKEN, CodeHost, GitHub, GitLab
from workers.sources.permissions import PermissionSync

TEAMS, TEAM_REPOSITORIES, TEAM_MEMBERS = 100, 200, 30
PROJECT_MEMBERS = 10
FIRST_REPOSITORY = 100_000  # ids of people are smaller

Figures = dict[str, object]


class LargeGitHub(GitHub):
    PAGE = 100

    def __init__(self, repositories: int, people: int) -> None:
        super().__init__()
        dice = random.Random(1)
        ids = range(FIRST_REPOSITORY, FIRST_REPOSITORY + repositories)
        self.members = dict.fromkeys(range(1, people + 1), "MEMBER")
        self.repositories = {id: (f"r{id}", "PRIVATE", []) for id in ids}
        self.teams = {
            f"t{number}": (
                dice.sample(range(1, people + 1), min(people, TEAM_MEMBERS)),
                dice.sample(ids, min(repositories, TEAM_REPOSITORIES)),
            )
            for number in range(TEAMS)
        }


class LargeGitLab(GitLab):
    def __init__(self, repositories: int, people: int) -> None:
        super().__init__()
        dice = random.Random(1)
        self.users = dict.fromkeys(range(1, people + 1), ("active", False, True))
        some = range(1, people + 1)
        self.projects = {
            id: (
                f"acme/r{id}",
                "private",
                "enabled",
                dict.fromkeys(dice.sample(some, PROJECT_MEMBERS), 30),
            )
            for id in range(FIRST_REPOSITORY, FIRST_REPOSITORY + repositories)
        }


HOSTS = {"github": LargeGitHub, "gitlab": LargeGitLab}


def serve(kind: str, repositories: int, people: int, pipe: Connection) -> None:
    """Serve the host until the other end of the pipe sends a message."""
    host: CodeHost = HOSTS[kind](repositories, people)
    pipe.send(host.url)
    pipe.recv()
    host.close()


def synced(kind: str, given: argparse.Namespace) -> Figures:
    """Return the cost of two readings of the host, and of applying them in a gateway."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    asked = (kind, given.repositories, given.people, there)
    process = context.Process(target=serve, args=asked, daemon=True)
    process.start()
    url = here.recv()
    with tempfile.TemporaryDirectory(prefix="permissions-") as folder:
        sources = Path(folder) / "sources.yaml"
        (Path(folder) / "token").write_text(TOKEN)
        sources.write_text(
            f"connections:\n  - name: work\n    kind: {kind}\n    url: {url}\n"
            f"    organisation: acme\n    token: {{file: {folder}/token}}\n"
            "    permissions: {every: 5m, max_age: 24h, emails: true}\n"
        )
        states, now = MemoryPermissionStates(), time.time()
        clock = [now]
        sync = PermissionSync(str(sources), states, now=lambda: clock[0])
        found: Figures = {}
        for which in ("first reading", "second reading"):
            clock[0] += 300
            found[which] = reading(sync, states)
        found["a gateway"] = asyncio.run(seen(states, url, given, now=clock[0]))
    here.send(None)
    process.join()
    return found


def reading(sync: PermissionSync, states: MemoryPermissionStates) -> Figures:
    assert sync.due() == ("work",)
    before = _peak_mb()
    started, used = time.perf_counter(), time.process_time()
    sync.run("work")
    passed, spent = time.perf_counter() - started, time.process_time() - used
    (state,) = states.states()
    assert not state.outcome.error, state.outcome.error
    stored = states.permissions("work")
    assert stored is not None
    return {
        "wall_s": round(passed, 1),
        "processor_s": round(spent, 1),
        "memory_mb": round(_peak_mb() - before),
        "requests": state.outcome.requests,
        "repositories": state.outcome.repositories,
        "accounts": state.outcome.accounts,
        "stored_kb": round(len(stored.packed()) / 1e3),
    }


async def seen(
    states: MemoryPermissionStates, url: str, given: argparse.Namespace, *, now: float
) -> Figures:
    """Return how long a gateway takes to read the permissions, and to apply them to a caller."""
    ledger = MemoryLedger()
    stored = states.permissions("work")
    assert stored is not None
    for address, *_ in stored.addresses:
        name = RepositoryName(address.partition("/")[2])
        ledger.register(Repository(name, f"http://{address}"))
    accounts = list(stored.readers)[: given.people]
    people = {f"user:{id}": Grant(accounts=(("work", id),)) for id in accounts}
    rules = Rules({}, people)
    before = _peak_mb()
    started = time.perf_counter()
    visibilities = Visibilities(ledger, lambda: rules, HostReader(states, now=lambda: now))
    first = await visibilities.of(Identity(f"user:{accounts[0]}", Role.READER))
    read_s = time.perf_counter() - started
    started = time.process_time()
    for id in accounts[1:101]:
        await visibilities.of(Identity(f"user:{id}", Role.READER))
    return {
        "read_s": round(read_s, 2),
        "first_call_of_a_person_ms": round((time.process_time() - started) / 100 * 1e3, 1),
        "repositories_of_the_first_person": len(first[1].ordered),
        "memory_mb": round(_peak_mb() - before),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repositories", type=int, default=10_000)
    parser.add_argument("--people", type=int, default=1_000)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    results: Figures = machine()
    for kind in HOSTS:
        results[kind] = synced(kind, given)
        print(kind, json.dumps(results[kind], indent=1), flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
