"""Whether a server is the same process as before.

The client library sends a batch again when the connection breaks. A server that was killed and
restarted in between takes the half of it that it kept for the whole. One connection that is held
for the length of a write tells: it ends with the server's process. It is used every few seconds,
because the server also ends one that was idle for ten.
"""

from __future__ import annotations

import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType
from urllib.parse import urlsplit

from codelode.backends.weaviate.connection import CONNECT_TIMEOUT_S, Address
from codelode.errors import Unavailable

_PATH = "/v1/.well-known/live"

#: How often the connection is used while a step of the write takes long, seconds.
PULSE_S = 3.0

_WENT_AWAY = "Weaviate went away during a write; it is to be repeated"


class LivenessProbe:
    """A context that holds one connection. Raises Unavailable when there is no server."""

    def __init__(self, address: Address, *, pulse_s: float = PULSE_S) -> None:
        parts = urlsplit(address.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.netloc, timeout=CONNECT_TIMEOUT_S)
        self._lock = threading.Lock()  # around the connection
        self._lost: Unavailable | None = None
        self._is_over = threading.Event()
        self._pulse_s = pulse_s
        self._pulse = threading.Thread(target=self._keep, name="lifeline", daemon=True)

    def __enter__(self) -> LivenessProbe:
        self._ask("Weaviate does not answer; is it running?")
        self._http.auto_open = 0  # a second connection would prove nothing
        self._pulse.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._pulse.join()
        self._http.close()

    def check(self) -> None:
        """Raise Unavailable unless the server is still the one that was there at the beginning."""
        if self._lost is not None:
            raise self._lost
        self._ask(_WENT_AWAY)

    def _keep(self) -> None:
        while self._lost is None and not self._is_over.wait(self._pulse_s):
            try:
                self._ask(_WENT_AWAY)
            except Unavailable as exc:
                self._lost = exc

    def _ask(self, otherwise: str) -> None:
        with self._lock:
            try:
                self._http.request("GET", _PATH)
                self._http.getresponse().read()
            except (OSError, HTTPException) as exc:
                raise Unavailable(f"{otherwise} ({exc})") from exc
