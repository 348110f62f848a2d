"""Store API keys in a dictionary of one process."""

from __future__ import annotations

import threading
from dataclasses import replace

from codelode.api_keys import USE_INTERVAL_S, ApiKey


class MemoryApiKeys:
    """Implements the port ApiKeys."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, ApiKey] = {}

    def add(self, key: ApiKey) -> bool:
        with self._lock:
            if any(known.name == key.name for known in self._keys.values()):
                return False
            self._keys[key.id] = key
            return True

    def get(self, id: str) -> ApiKey | None:
        with self._lock:
            return self._keys.get(id)

    def all(self) -> tuple[ApiKey, ...]:
        with self._lock:
            return tuple(sorted(self._keys.values(), key=lambda key: key.name))

    def remove(self, id: str) -> None:
        with self._lock:
            self._keys.pop(id, None)

    def used(self, id: str, at: float) -> None:
        with self._lock:
            key = self._keys.get(id)
            if key is not None and (key.used_at is None or at - key.used_at >= USE_INTERVAL_S):
                self._keys[id] = replace(key, used_at=at)
