"""Store the followed repositories of code hosts in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis

from codelode.backends.redis.connection import translated
from codelode.backends.redis.connections import RedisConnections
from codelode.repository_sources import (
    Change,
    FollowedRepository,
    Mode,
    SourceDeclaration,
    SourceOutcome,
    SourceState,
    unpacked,
)
from codelode.request_budget import RequestBudget


class RedisSourceStates(RedisConnections[SourceDeclaration, SourceOutcome]):
    """Implements the port SourceStates."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        super().__init__(client, f"{prefix}{{sources}}", content=":repositories")

    def states(self) -> tuple[SourceState, ...]:
        return tuple(
            SourceState(SourceDeclaration(**one.declared), _outcome(one.outcome), one.wanted)
            for one in self._stored()
        )

    def known(self, name: str) -> tuple[FollowedRepository, ...]:
        found = self._read(name)
        return unpacked(found) if found else ()

    def entrust(self, name: str, owner: str, urls: Mapping[str, str]) -> None:
        self._run("entrust", name, owner, *(x for pair in urls.items() for x in pair))

    def entrusted(self, name: str, repository: str) -> str:
        with translated():
            found: Any = self._client.hget(f"{self._base}:synced:entrusted:{name}", repository)
        return found.decode() if found else ""

    def want(self, name: str, mode: Mode) -> None:
        self._request(name, mode.rank)


def _outcome(stored: dict[str, Any]) -> SourceOutcome:
    changes = tuple(Change(**change) for change in stored.pop("changes", ()))
    budget = RequestBudget(**stored.pop("budget", {}))
    return SourceOutcome(**stored, changes=changes, budget=budget)
