"""The script that brings up real servers: what it chooses, and that it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy/services.sh"


@pytest.fixture
def services(tmp_path):
    """`services(*command, **environment)`: one run of the script, in a state folder of its own."""
    state = tmp_path / "state"

    def run(*command, **environment):
        given = {k: v for k, v in os.environ.items() if not k.startswith("CODELODE_")}
        return subprocess.run(
            [SCRIPT, *command],
            env={**given, "SERVICES_STATE": str(state), **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    run.state = state
    yield run
    run("down")


@pytest.fixture
def ready_server():
    """The URL of something that answers as a server that is ready does."""

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_configured_server_comes_first(services, ready_server):
    done = services("up", "weaviate", CODELODE_WEAVIATE_URL=ready_server)

    assert f"weaviate: configured, {ready_server}" in done.stderr
    assert f"export CODELODE_WEAVIATE_URL={ready_server}" in (services.state / "env").read_text()


def test_where_nothing_works_it_says_what_was_tried(services, tmp_path):
    done = services("up", "weaviate", SERVICES_WAYS="compose cache", XDG_CACHE_HOME=str(tmp_path))

    assert done.returncode == 1
    assert "no way to get this server worked (compose cache)" in done.stderr


def test_a_server_is_started_once_restarted_in_place_and_leaves_nothing(services):
    first = services("up", "weaviate", SERVICES_WAYS="path cache")
    if first.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Weaviate: run `make services`")
    address = (services.state / "env").read_text()
    assert "already running" in services("up", "weaviate").stderr

    pid = int((services.state / "weaviate.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    services("up", "weaviate", SERVICES_WAYS="path cache")
    assert (services.state / "env").read_text() == address
    assert services("status").stdout.startswith("weaviate http://127.0.0.1:")

    pid = int((services.state / "weaviate.pid").read_text())
    services("down")
    assert not services.state.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
