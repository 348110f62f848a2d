"""Ask the store and the models whether they answer, for the status.

A model is asked at most once in FRESH_S, and a status waits for it no longer than WAIT_S: pages ask
for the status again and again, and a server that is away may be silent for many seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from codelode.access import Visibility
from codelode.errors import CodelodeError, Unavailable
from codelode.ports import Checked, Embedder, LanguageModel
from gateway.state import Backends

#: How long an answer counts as current, and how long a status waits for one, seconds.
FRESH_S = 10.0
WAIT_S = 1.0

#: The number of chunks while the store does not answer.
UNKNOWN = -1

STORE, EMBEDDER, LANGUAGE_MODEL = "store", "embedder", "language model"


@dataclass(frozen=True, slots=True)
class Server:
    """The store, or a model, and whether it answers. What works in the gateway itself does."""

    role: str
    name: str  # of the store, or the identity of the model; empty: it is not known yet
    problem: str  # why it does not answer; empty: it does


@dataclass(frozen=True, slots=True)
class _Asked:
    model: Embedder | LanguageModel
    at: float
    answer: asyncio.Future[Server]


@dataclass(slots=True)
class KnownServers:
    """The models as they answered last. Only for the thread of the event loop."""

    clock: Callable[[], float] = time.monotonic
    _asked: dict[str, _Asked] = field(default_factory=dict)  # by role

    async def model(self, role: str, model: Embedder | LanguageModel, *, name: str = "") -> Server:
        """Return the model as it answers now or answered within FRESH_S.

        `name`: what it is called while it does not answer.
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
