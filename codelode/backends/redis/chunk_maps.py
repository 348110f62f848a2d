"""Keep the maps of chunks in Redis."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

import redis

from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated
from codelode.chunk_map import LOST_AFTER_S, MAX_MAPS, MapState, Progress
from codelode.model import RepositoryName, Revision


class RedisChunkMaps:
    """Implements the port ChunkMaps."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._base = f"{prefix}{{maps}}"
        sources = scripts.load("chunk_maps.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}

    def begin(self, state: MapState) -> bool:
        names = _names(state.repositories)
        lost_before = state.at - LOST_AFTER_S
        return bool(self._run("begin", names, json.dumps(asdict(state)), lost_before))

    def report(self, state: MapState, packed: bytes | None = None) -> bool:
        given = (_names(state.repositories), json.dumps(asdict(state)), packed or b"", state.at)
        is_wanted = bool(self._run("report", *given))
        if packed is not None:
            self._drop_oldest()
        return is_wanted

    def states(self) -> tuple[MapState, ...]:
        with translated():
            found: Any = self._client.hvals(f"{self._base}:states")
        return tuple(sorted(map(_state, found), key=lambda one: -one.at))

    def made_at(self, repositories: Sequence[RepositoryName]) -> float | None:
        with translated():
            found: Any = self._client.hget(f"{self._base}:made", _names(repositories))
        return float(found) if found else None

    def packed(self, repositories: Sequence[RepositoryName]) -> bytes | None:
        with translated():
            found = self._client.hget(f"{self._base}:packed", _names(repositories))
        return cast("bytes | None", found)

    def remove_repository(self, name: RepositoryName) -> None:
        self._drop([one for one in self.states() if name in one.repositories])

    def _drop_oldest(self) -> None:
        self._drop([one for one in self.states() if one.progress.is_over][MAX_MAPS:])

    def _drop(self, states: Sequence[MapState]) -> None:
        if states:
            self._run("drop", *(_names(one.repositories) for one in states))

    def _run(self, name: str, *args: str | bytes | float) -> Any:
        with translated():
            return self._scripts[name](keys=[self._base], args=list(args))


def _names(repositories: Sequence[RepositoryName]) -> str:
    return json.dumps(list(repositories))


def _state(stored: bytes) -> MapState:
    values = json.loads(stored)
    values["repositories"] = tuple(map(RepositoryName, values["repositories"]))
    values["revisions"] = tuple(map(Revision, values["revisions"]))
    return MapState(**{**values, "progress": Progress(values["progress"])})
