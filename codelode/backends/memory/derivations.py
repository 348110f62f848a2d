"""Cache derived values in a dictionary."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from codelode.ports import DerivationKey


class MemoryDerivations:
    """Implements the port Derivations. `max_bytes`: maximum size of all values."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: dict[DerivationKey, bytes] = {}  # in the order of storing
        self._lock = threading.Lock()

    def get(self, keys: Sequence[DerivationKey]) -> tuple[bytes | None, ...]:
        with self._lock:
            return tuple(map(self._values.get, keys))

    def put(self, values: Mapping[DerivationKey, bytes]) -> None:
        with self._lock:
            for key, value in values.items():
                self._bytes += len(value) - len(self._values.pop(key, b""))
                self._values[key] = value
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._values.pop(next(iter(self._values))))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
