"""The liveness probe, with a server that closes idle connections."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from codelode.backends.weaviate.connection import Address
from codelode.backends.weaviate.liveness import LivenessProbe
from codelode.errors import Unavailable

IDLE_S = 0.4
INTERVAL_S = 0.05


class Server(ThreadingHTTPServer):
    """Closes connections that are idle for IDLE_S, as Weaviate does after ten seconds."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = 0
        self.ended = threading.Event()  # a connection was closed

    def wait_asked(self, times):
        while self.asked < times:
            assert not self.ended.wait(0.01)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self):
        self.server.asked += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def finish(self):
        self.server.ended.set()
        super().finish()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as made:
        serving = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield made
        made.shutdown()
        serving.join()


def address(server):
    return Address(f"http://127.0.0.1:{server.server_port}", 0)


def test_a_step_longer_than_the_servers_idle_timeout_keeps_the_connection(server):
    with LivenessProbe(address(server), interval_s=INTERVAL_S) as liveness:
        server.wait_asked(1 + round(2 * IDLE_S / INTERVAL_S))
        liveness.check()


def test_a_closed_connection_is_detected(server):
    with LivenessProbe(address(server), interval_s=100 * IDLE_S) as liveness:
        assert server.ended.wait(10)
        with pytest.raises(Unavailable, match="went away during a write"):
            liveness.check()


def test_a_loss_detected_in_the_background_is_raised_by_the_next_check(server):
    with LivenessProbe(address(server), interval_s=3 * IDLE_S) as liveness:
        liveness._thread.join(10)
        with pytest.raises(Unavailable, match="went away during a write"):
            liveness.check()


def test_a_missing_server_is_reported_at_the_beginning():
    with (
        pytest.raises(Unavailable, match="is it running"),
        LivenessProbe(Address("http://127.0.0.1:1", 0)),
    ):
        pass
