"""Keep the summary budget in Redis: one count for all workers; each step is one script."""

from __future__ import annotations

import redis

from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated
from codelode.model import RunId
from codelode.ports import FAILED_BATCHES_TO_STOP

#: Time after its last call for which the counts of a run are kept, seconds.
RUN_LIFE_S = 7 * 86_400


class RedisBudget:
    """Implements the port SummaryBudget. The daily limit is per `organisation`."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        per_run: int,
        per_day: int,
        organisation: str = "",
        prefix: str = "codelode:",
    ) -> None:
        self._base = f"{prefix}{{summaries}}:{organisation}"
        self._per_run = per_run
        self._per_day = per_day
        sources = scripts.load("budget.lua")
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}

    def take(self, run: RunId, wanted: int, *, share: float = 1.0) -> int:
        return self._run("take", run, wanted, int(self._per_run * share), self._per_day)

    def settle(self, run: RunId, *, made: int, failed: int) -> bool:
        return bool(self._run("settle", run, made, failed))

    def is_stopped(self, run: RunId) -> bool:
        return bool(self._run("stopped", run))

    def _run(self, name: str, run: RunId, *args: int) -> int:
        with translated():
            values: list[str | int] = [run, RUN_LIFE_S, FAILED_BATCHES_TO_STOP, *args]
            return int(self._scripts[name](keys=[self._base], args=values))
