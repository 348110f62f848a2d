"""Find the groups of a repository, which repositories with the same rights share.

A repository has one group for its label and the set of its readers at the code host, because there
may be thousands of readers. It has another for its label and each team that reads it there (see
`teams`), and one for its label and each list of globs, of the access file or of an API key, that
matches its name. The number of groups from teams and lists is therefore that of teams and lists,
however their repositories overlap.

Most globs form no group, because a filter describes what they match in few terms anyway (see
`covers`): all prefixes of names, such as `payments/*`, and lists of few names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from codelode import teams
from codelode.covers import Groups, group_of
from codelode.globs import is_literal
from codelode.host_permissions import FoundTeams, HostPermissions, SyncState, Team, has_prefix
from codelode.ledger import Catalog
from codelode.model import Repository
from codelode.ports import ApiKeys, PermissionStates
from codelode.repository_globs import MAX_GLOBS, matcher

#: A list with more names than this forms a group. A person may have many entries in the access
#: file, so each should add few terms to a filter.
FEW_NAMES = 16

#: Maximum number of lists of the access file, and of API keys, that form groups. The name of each
#: new repository is compared with all of them: 1,000 lists of wildcards take 10 ms.
MAX_LISTS = 1_000

#: Maximum number of lists that give groups to a repository, which bounds the size of a chunk. Those
#: of the access file come first.
MAX_MATCHING = 16

Globs: TypeAlias = tuple[str, ...]

#: Returns the permissions of a connection, by its name and their version.
OfConnection: TypeAlias = Callable[[str, str], HostPermissions | None]

#: A glob for all names with a prefix that `covers.prefixes` returns, or for all names.
_PREFIX = re.compile(r"(?:[^*?]*[/._-])?\*\*?")


def undescribed(lists: Iterable[Sequence[str]], *, few_names: int = FEW_NAMES) -> tuple[Globs, ...]:
    """Return the globs of each list that a filter cannot describe in few terms, each list once."""
    found = {tuple(sorted({*_undescribed(globs, few_names)})) for globs in lists}
    return tuple(sorted(found - {()}))[:MAX_LISTS]


def _undescribed(globs: Sequence[str], few_names: int) -> Iterator[str]:
    is_long = sum(map(is_literal, globs)) > few_names
    for glob in globs:
        if is_long if is_literal(glob) else not _PREFIX.fullmatch(glob):
            yield glob


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything besides labels that decides who sees repositories, as it was at one moment."""

    states: Sequence[SyncState] = ()
    permissions: OfConnection = lambda *_: None
    lists: tuple[Globs, ...] = ()  # of the access file, then of API keys
    teams: Mapping[str, tuple[Team, ...]] = field(default_factory=dict)  # by connection

    def groups_of(self, repository: Repository) -> Groups:
        """Return the groups of the repository."""
        label = [f"label:{repository.label}"] if repository.label else []
        connection, accounts = self._readers(repository.url)
        readers = [*label, *connection, *accounts]
        of_teams = (
            team
            for name in connection
            for team in self.teams.get(name, ())
            if teams.has_repository(team, accounts)
        )
        matching = (globs for globs in self.lists if matcher(globs)(repository.name))
        return (
            *([group_of(readers)] if readers else []),
            *(
                group_of([*label, *connection, "team", *team])
                for team in islice(of_teams, teams.MAX_OF_REPOSITORY)
            ),
            *(group_of([*label, *globs]) for globs in islice(matching, MAX_MATCHING)),
        )

    def _readers(self, url: str) -> tuple[Sequence[str], frozenset[str]]:
        """Return the connection that governs the repository, if any, and who reads it there."""
        for state in self.states:
            connection, version = state.declared.name, state.outcome.version
            if has_prefix(url, state.declared.prefix):
                permissions = self.permissions(connection, version)
                readers = permissions.readers_of(url) if permissions else None
                if readers is not None:
                    return [connection], readers
        return [], frozenset()


def find_teams(
    permissions: PermissionStates, of: OfConnection, *, are_wanted_again: bool = False
) -> None:
    """Find and store the teams of connections without known ones, or again those of all."""
    for state in permissions.states():
        name, version = state.declared.name, state.outcome.version
        known = permissions.teams(name)
        is_known = known is not None and (bool(known.teams) or known.version == version)
        found = of(name, version) if are_wanted_again or not is_known else None
        if found is not None:
            before = known.teams if known else ()
            permissions.keep_teams(name, FoundTeams(version, teams.find(found, before)))


def rights(
    catalog: Catalog, keys: ApiKeys, permissions: PermissionStates, of: OfConnection
) -> Rights:
    """Return the present rights. Reading 10,000 keys takes 0.15 s."""
    bounds = (globs for key in keys.all() for globs in key.bounds)
    # A key names at most MAX_GLOBS repositories, which is few in the filter of its only caller.
    of_keys = undescribed(bounds, few_names=MAX_GLOBS)
    states = permissions.states()
    found = {one.declared.name: permissions.teams(one.declared.name) for one in states}
    return Rights(
        states,
        of,
        tuple(dict.fromkeys((*catalog.access_globs(), *of_keys))),
        {name: one.teams for name, one in found.items() if one},
    )
