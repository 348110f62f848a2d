"""Simulate what the people of a code host read, and find the groups of the repositories.

`teams`: 1,000 people are in one to three of 97 overlapping teams, a tenth of them in 10 to 60. Each
repository has three direct collaborators, so that hardly any two have the same readers. `halves`:
100 people, each of whom reads a random half.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import numpy as np

from codelode.covers import Groups
from codelode.grouping import Rights
from codelode.host_permissions import (
    PermissionsBuilder,
    SyncDeclaration,
    SyncOutcome,
    SyncState,
)
from codelode.model import Repository, RepositoryName
from codelode.teams import find

TEAMS = 97
COLLABORATORS = 3
PEOPLE = {"teams": 1_000, "halves": 100}
DECLARED = SyncDeclaration("work", "gitea", "git.example/", 300, 3600, emails=False, claim="")


def read_by(names: list[RepositoryName], readers: str) -> dict[str, set[RepositoryName]]:
    """Return the repositories that each person reads."""
    drawn = random.Random(len(names))
    people = [str(number) for number in range(PEOPLE[readers])]
    if readers == "halves":
        return {one: {*drawn.sample(names, len(names) // 2)} for one in people}
    teams: list[set[RepositoryName]] = [set() for _ in range(TEAMS)]
    for name in names:
        for team in drawn.sample(teams, drawn.choice((1, 1, 2, 3))):
            team.add(name)
    found = {
        one: set[RepositoryName]().union(*drawn.sample(teams, drawn.randint(*some)))
        for number, one in enumerate(people)
        for some in [(10, 60) if number % 10 == 0 else (1, 3)]
    }
    for name in names:
        for one in drawn.sample(people, COLLABORATORS):
            found[one].add(name)
    return found


def grouped_by_readers(
    repositories: Sequence[Repository], reads: Mapping[str, set[RepositoryName]]
) -> dict[RepositoryName, Groups]:
    """Return the groups that the first plan of each repository gives it."""
    builder, started = PermissionsBuilder(), time.process_time()
    for one in repositories:
        builder.repository(one.name, [one.url])
    for account, some in reads.items():
        builder.account(account)
        builder.grant(account, some)
    permissions = builder.built()
    teams = find(permissions)
    state = SyncState(DECLARED, SyncOutcome("1"))
    rights = Rights([state], lambda *_: permissions, teams={DECLARED.name: teams})
    found = {one.name: rights.groups_of(one) for one in repositories}
    classes = len({groups[0] for groups in found.values()})
    held = [len(groups) - 1 for groups in found.values()]
    print(
        f"{classes} sets of readers, {len(teams)} teams, {np.mean(held):.1f} and at most "
        f"{max(held)} of a repository, {time.process_time() - started:.1f} s",
        flush=True,
    )
    return found
