"""Keep the state of regrouping in one process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from codelode.bounded import put
from codelode.model import RepositoryName
from codelode.regrouping import KEPT_S, MAX_FILTERS, RegroupingState


class MemoryRegroupingStates:
    """Implements the port RegroupingStates. `now`: seconds, of any clock."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._state, self._wanted = RegroupingState(), ""
        self._filters: OrderedDict[frozenset[RepositoryName], float] = OrderedDict()

    def report_long(self, names: frozenset[RepositoryName]) -> None:
        put(self._filters, names, self.now(), most=MAX_FILTERS)

    def long_filters(self) -> tuple[frozenset[RepositoryName], ...]:
        since = self.now() - KEPT_S
        return tuple(names for names, at in self._filters.items() if at > since)

    def want(self) -> str:
        self._wanted = uuid4().hex
        return self._wanted

    def wanted(self) -> str:
        return self._wanted

    def state(self) -> RegroupingState:
        return self._state

    def save(self, state: RegroupingState) -> None:
        self._state = state

    @contextmanager
    def alone(self) -> Iterator[bool]:
        is_alone = self._lock.acquire(blocking=False)
        try:
            yield is_alone
        finally:
            if is_alone:
                self._lock.release()
