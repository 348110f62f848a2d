"""Ask the store and the models whether they answer, for the status.

A model is asked at most once per FRESH_S, and a status waits for it at most WAIT_S: pages poll the
status, and an unreachable server may not respond for many seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from codelode.access import Visibility
from codelode.errors import CodelodeError, Unavailable
from codelode.ports import Checked, Embedder, LanguageModel
from codelode.reports import Server
from gateway.state import Backends

#: How long a model's answer counts as current, and how long a status waits for one, seconds.
FRESH_S = 10.0
WAIT_S = 1.0

#: Stands for the number of chunks while the store does not answer.
UNKNOWN = -1

STORE, EMBEDDER, LANGUAGE_MODEL = "store", "embedder", "language model"


@dataclass(frozen=True, slots=True)
class _Asked:
    model: Embedder | LanguageModel
    at: float
    answer: asyncio.Future[Server]


@dataclass(slots=True)
class KnownServers:
    """The last answers of the models. Not thread-safe: use it only on the event loop."""

    clock: Callable[[], float] = time.monotonic
    _asked: dict[str, _Asked] = field(default_factory=dict)  # by role

    async def model(self, role: str, model: Embedder | LanguageModel, *, name: str = "") -> Server:
        """Return the answer of the model, at most FRESH_S old.

        `name`: its name while it does not answer.
        """
        asked = self._asked.get(role)
        if asked is None or asked.model is not model or self._is_old(asked):
            answer = asyncio.ensure_future(asyncio.to_thread(_model, role, model, name))
            asked = self._asked[role] = _Asked(model, self.clock(), answer)
        done, _ = await asyncio.wait({asked.answer}, timeout=WAIT_S)
        if not done:
            return Server(role, name, f"has not answered for {self.clock() - asked.at:.0f} s")
        return asked.answer.result()

    def _is_old(self, asked: _Asked) -> bool:
        return asked.answer.done() and self.clock() - asked.at > FRESH_S


async def store(name: str, backends: Backends, visible: Visibility) -> tuple[Server, int]:
    """Return the store, and the number of visible chunks in it, or UNKNOWN."""
    try:
        return Server(STORE, name, ""), await backends.chunks.count(visible)
    except Unavailable as exc:
        return Server(STORE, name, str(exc)), UNKNOWN


def _model(role: str, model: Embedder | LanguageModel, name: str) -> Server:
    try:
        if isinstance(model, Checked):
            model.check()
        return Server(role, model.identity, "")
    except CodelodeError as exc:
        return Server(role, name, str(exc))
