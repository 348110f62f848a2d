"""Keep the outputs of stages for later stages in Redis: one hash per file of a run.

Messages carry names only; parsed files and vectors are stored here. They are removed when the file
is stored, or expire after `ttl_s` if its run was dropped. A stage that misses an output sends the
file back to the first stage, so a loss costs time but no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import redis

from codelode.backends.redis.connection import translated
from codelode.model import RunId


class RedisStageOutputs:
    """Implements the port StageOutputs."""

    def __init__(
        self, client: redis.Redis, *, prefix: str = "codelode:", ttl_s: int = 6 * 3600
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._ttl_s = ttl_s

    def put(self, run: RunId, parts: Mapping[str, Mapping[str, bytes]]) -> None:
        with translated():
            pipe = self._client.pipeline(transaction=False)
            for path, values in parts.items():
                key = self._key(run, path)
                pipe.hset(key, mapping=dict(values.items()))
                pipe.expire(key, self._ttl_s)
            pipe.execute()

    def get(
        self, run: RunId, paths: Sequence[str], parts: Sequence[str]
    ) -> tuple[Mapping[str, bytes], ...]:
        if not parts:
            return ({},) * len(paths)
        with translated():
            pipe = self._client.pipeline(transaction=False)
            for path in paths:
                pipe.hmget(self._key(run, path), list(parts))
            found = cast("list[list[bytes | None]]", pipe.execute())
        return tuple(
            {part: value for part, value in zip(parts, values, strict=True) if value is not None}
            for values in found
        )

    def drop(self, run: RunId, paths: Sequence[str]) -> None:
        if paths:
            with translated():
                self._client.unlink(*(self._key(run, path) for path in paths))

    def _key(self, run: RunId, path: str) -> str:
        return f"{self._prefix}handover:{run}:{path}"
