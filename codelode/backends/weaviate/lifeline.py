"""Whether a server is the same process as before.

The client library sends a batch again when the connection breaks. A server that was killed and
restarted in between takes the half of it that it kept for the whole. One connection that is held
for the length of a write tells: it ends with the server's process.
"""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType
from urllib.parse import urlsplit

from codelode.backends.weaviate.connection import CONNECT_TIMEOUT_S, Address
from codelode.errors import Unavailable

_PATH = "/v1/.well-known/live"


class Lifeline:
    """A context that holds one connection. Raises Unavailable when there is no server."""

    def __init__(self, address: Address) -> None:
        parts = urlsplit(address.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.netloc, timeout=CONNECT_TIMEOUT_S)

    def __enter__(self) -> Lifeline:
        self._ask("Weaviate does not answer; is it running?")
        self._http.auto_open = 0  # a second connection would prove nothing
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def check(self) -> None:
        """Raise Unavailable unless the server is still the one that was there at the beginning."""
        self._ask("Weaviate went away during a write; it is to be repeated")

    def _ask(self, otherwise: str) -> None:
        try:
            self._http.request("GET", _PATH)
            self._http.getresponse().read()
        except (OSError, HTTPException) as exc:
            raise Unavailable(f"{otherwise} ({exc})") from exc
