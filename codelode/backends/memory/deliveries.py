"""The webhook deliveries that were acted on, in a dictionary of one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from codelode.ports import DELIVERIES_KEPT_S


class MemoryDeliveries:
    """Implements the port Deliveries."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._added: dict[tuple[str, str], float] = {}

    def is_known(self, connection: str, id: str) -> bool:
        with self._lock:
            added = self._added.get((connection, id))
        return added is not None and self._now() - added < DELIVERIES_KEPT_S

    def add(self, connection: str, id: str) -> None:
        with self._lock:
            self._added[connection, id] = self._now()
