"""Detect that the server process was replaced during a write.

The client library sends a batch again after the connection breaks. A server that was killed and
restarted in between may hold a part of the batch and treat it as complete. One HTTP connection that
is held for the duration of the write detects this: it ends with the server's process. It is used
every few seconds, because the server also closes connections that are idle for ten.
"""

from __future__ import annotations

import threading
from http.client import HTTPException

from codelode.backends.weaviate.connection import Address, http_connection
from codelode.backends.weaviate.errors import GONE
from codelode.errors import Unavailable

_PATH = "/v1/.well-known/live"

#: Interval of requests while a step of the write takes long, seconds.
INTERVAL_S = 3.0

_RESTARTED = "Weaviate went away during a write; repeat the write"


class LivenessProbe:
    """Context manager that holds one connection. Raises Unavailable when there is no server."""

    def __init__(self, address: Address, *, interval_s: float = INTERVAL_S) -> None:
        self._http = http_connection(address)
        self._lock = threading.Lock()  # guards the connection
        self._lost: Unavailable | None = None
        self._is_over = threading.Event()
        self._interval_s = interval_s
        self._thread = threading.Thread(target=self._keep_alive, name="liveness", daemon=True)

    def __enter__(self) -> LivenessProbe:
        self._request(GONE)
        self._http.auto_open = 0  # a second connection would prove nothing
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._http.close()

    def check(self) -> None:
        """Raise Unavailable unless the server is still the process it was at the beginning."""
        if self._lost is not None:
            raise self._lost
        self._request(_RESTARTED)

    def _keep_alive(self) -> None:
        while self._lost is None and not self._is_over.wait(self._interval_s):
            try:
                self._request(_RESTARTED)
            except Unavailable as exc:
                self._lost = exc

    def _request(self, failure: str) -> None:
        with self._lock:
            try:
                self._http.request("GET", _PATH)
                self._http.getresponse().read()
            except (OSError, HTTPException) as exc:
                raise Unavailable(f"{failure} ({exc})") from exc
