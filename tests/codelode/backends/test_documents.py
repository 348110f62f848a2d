"""Documents of web servers are read within a time."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from codelode.backends import documents
from codelode.backends.documents import WebDocuments
from codelode.errors import Unavailable


@pytest.fixture
def slow_url():
    """The URL of a document that comes byte by byte, for five seconds in all."""
    is_over = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with suppress(ConnectionError):
                for byte in (b"{", *[b" "] * 100, b"}"):
                    self.wfile.write(byte)
                    is_over.wait(0.05)

    server = HTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys"
    is_over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_sends_without_end_is_given_up(slow_url, monkeypatch):
    monkeypatch.setattr(documents, "TIMEOUT_S", 1.0)
    with pytest.raises(Unavailable, match="takes longer than 1 s"):
        WebDocuments().get(slow_url)
