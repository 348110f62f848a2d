"""Fixtures for many tests: real Redis, Ollama, and Weaviate servers, and a faulty model server."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests import ollama_models
from tests.examples import examples
from tests.exported import exported
from tests.guardian import GUARDIAN
from tests.waiting import wait_until

pytest_plugins = ["tests.grouping", "tests.weaviate_nodes"]

# Without cached bytecode, each of the many processes of a test run compiles all sources again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from hypothesis import settings  # noqa: E402 - else its compiled modules are not cached

# How long an example takes depends on what else the machine does; time is measured in tests/bench.
settings.register_profile("untimed", deadline=None, max_examples=examples(100, short=10))
settings.load_profile("untimed")


def pytest_unconfigure():
    GUARDIAN.close()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep what is collected, half a million objects, out of the garbage collections of tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def wait_for():
    """`wait_for(condition, "what it is", seconds=60)` returns when the condition holds."""
    return wait_until


@pytest.fixture(scope="session")
def redis_server_urls(real_servers, tmp_path_factory):
    """Return the URLs of a Redis server that runs as long as this test process.

    The first is for clients with the rights of a cluster, the second for a user with all rights.
    """
    from codelode.cli import redis_server

    folder = tmp_path_factory.mktemp("redis")
    with redis_server.place_in(folder) as place, (folder / "log").open("wb") as log:
        command = redis_server.command(place, binary=redis_server.locate())
        url = redis_server.url(place)
        with GUARDIAN.popen([*command, *ADMIN], stdout=log) as server:
            try:
                redis_server.wait_ready(url, is_alive=lambda: server.poll() is None)
                yield url, url.replace("unix://", "unix://admin")
            finally:
                server.terminate()


#: Options of a Redis server that has a user with all rights beside the one of the cluster.
ADMIN = ("--user", "admin", "on", "nopass", "~*", "&*", "+@all")


@pytest.fixture(scope="session")
def redis_url(redis_server_urls):
    """Return the URL of the Redis server for clients with the rights of a cluster."""
    return redis_server_urls[0]


@pytest.fixture
def redis_admin(redis_server_urls):
    """Return a client with all rights, for what only an operator or an accident does."""
    from codelode.backends.redis.connection import connect

    with connect(redis_server_urls[1]) as client:
        yield client


@pytest.fixture
def redis(redis_admin, redis_url):
    """Return a client of an empty Redis. To open more clients, use `redis_url`."""
    from codelode.backends.redis.connection import connect

    redis_admin.flushall()
    with connect(redis_url) as client:
        yield client


@pytest.fixture(scope="session")
def program_of(real_servers, tmp_path_factory):
    """`program_of("ollama")` returns its path. Without it, tests are skipped; in CI they fail."""

    def find(server):
        state = str(tmp_path_factory.mktemp("state"))
        found = subprocess.run(
            [DEPLOY / "services.sh", "binary", server],
            env={**os.environ, "SERVICES_WAYS": "path cache", "SERVICES_STATE": state},
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            missing = f"no {server.title()}: run `make services`"
            (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
        return found.stdout.strip()

    return find


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# Models

DEPLOY = Path(__file__).parents[1] / "deploy"
TEST_MODELS = {"all-minilm:latest", "smollm2:latest"}


@pytest.fixture(scope="session")
def ollama_url(real_servers, request):
    """Return the URL of a real Ollama with the test models; without one, skip, or fail in CI."""
    url = os.environ.get("CODELODE_OLLAMA_URL")
    if not url:
        return request.getfixturevalue("ollama_server").url
    if not _models(url) >= TEST_MODELS:
        ollama_models.make(url)
    return url


def _models(url):
    listed = httpx.get(f"{url}/api/tags", trust_env=False).json()["models"]
    return {model["name"] for model in listed}


class OllamaServer:
    """A real Ollama for tests, which can be killed and started again at the same address.

    Its log has a line for each call that it answered.
    """

    def __init__(self, program, folder):
        self._folder = folder
        self.models = folder / "models"
        self.url = f"http://127.0.0.1:{_free_port()}"
        self._command = [program, "serve"]
        self._environment = {
            **os.environ,
            "HOME": str(folder / "home"),  # for the key that it writes
            "OLLAMA_HOST": self.url,
            "OLLAMA_MODELS": str(self.models),
            "OLLAMA_NOPRUNE": "1",
        }
        self._process = None

    def start(self):
        with (self._folder / "log").open("ab") as log:
            self._process = GUARDIAN.popen(
                self._command,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # with the processes that compute
            )
        wait_until(self._is_ready, f"Ollama ({self._folder}/log) to be ready")

    def pid(self):
        return self._process.pid

    def kill(self):
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def is_running(self):
        return self._process.poll() is None

    def copy(self, model, name):
        """Give the model another name; a model that has this name loses it."""
        names = {"source": model, "destination": name}
        httpx.post(f"{self.url}/api/copy", json=names, trust_env=False).raise_for_status()

    def answered(self):
        """Return how many embedding calls the server has answered."""
        return (self._folder / "log").read_text().count('"/api/embed"')

    def _is_ready(self):
        try:
            return httpx.get(f"{self.url}/api/version", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture(scope="session")
def bare_ollama(tmp_path_factory, program_of):
    """Start an Ollama for this test process. Without it, tests are skipped; in CI they fail."""
    folder = tmp_path_factory.mktemp("ollama")
    (folder / "home").mkdir()
    server = OllamaServer(program_of("ollama"), folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def ollama_server(bare_ollama):
    """Return the Ollama server with the test models installed."""
    ollama_models.provide(bare_ollama.url, bare_ollama.models)
    return bare_ollama


@pytest.fixture(scope="module")
def ollama(ollama_server):
    """Return the Ollama server, running, for tests that kill it and start it again."""
    if not ollama_server.is_running():
        ollama_server.start()
    return ollama_server


class ModelServer:
    """A server with the APIs of Ollama and OpenAI, which works until a test sets other answers.

    `answers` is a queue of functions from (path, body) to (status, headers, bytes), or to None to
    close the connection. If the queue is empty, `always` answers, or else `good`. `calls` records
    the requests.
    """

    DIM = 8

    def __init__(self):
        self.calls: list[tuple[str, dict]] = []
        self.answers: list[Callable] = []
        self.always: Callable | None = None
        self.models = {"embed:latest": "d1" * 32, "write:latest": "d2" * 32}
        self.released = threading.Event()  # ends every `stall`
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def asked(self, *ends: str) -> int:
        """Return how many calls went to a path with one of these endings."""
        return sum(path.endswith(ends) for path, _ in self.calls)

    @staticmethod
    def json(value, status=200, **headers):
        """Return an answer that always has this content."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return lambda path, asked: (status, named, body)

    def stall(self, path, asked):
        """Give no answer while the test runs."""
        self.released.wait(60)

    def vector(self, text):
        digest = hashlib.sha256(text.encode()).digest()[: self.DIM]
        return [byte / 255 + 0.01 for byte in digest]

    def good(self, path, asked):
        """Answer as a working server does."""
        if path == "/api/tags":
            listed = [{"model": name, "digest": digest} for name, digest in self.models.items()]
            return self.json({"models": listed})(path, asked)
        if path == "/api/pull":
            self.models[f"{asked['model']}:latest"] = "d3" * 32
            steps = [{"status": "pulling", "completed": n, "total": 10} for n in range(0, 11, 5)]
            lines = [*steps, {"status": "success"}]
            return self.json(b"\n".join(json.dumps(line).encode() for line in lines))(path, asked)
        if path.endswith(("/embed", "/embeddings")):
            rows = [self.vector(text) for text in asked["input"]]
            data = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
            body = {"embeddings": rows} if path.startswith("/api") else {"data": data[::-1]}
            return self.json(body)(path, asked)
        sentence = "Returns what was asked for."
        choices = [{"message": {"role": "assistant", "content": sentence}}]
        return self.json({"response": sentence, "choices": choices})(path, asked)

    def _answer(self, path, asked):
        with self._lock:
            self.calls.append((path, asked))
            is_listing = path == "/api/tags"
            queued = self.answers.pop(0) if self.answers and not is_listing else None
        return (queued or (self.always if not is_listing else None) or self.good)(path, asked)

    def _handler(outer):  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.do_POST()

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                answer = outer._answer(self.path, json.loads(raw or b"{}"))
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, text in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler


class Relay(ModelServer):
    """Forwards calls to a real Ollama; closes connections while that does not run."""

    def __init__(self, server):
        super().__init__()
        self.server = server

    def good(self, path, asked):
        given = {"json": asked} if asked else {}
        try:
            answer = httpx.request(
                "POST" if asked else "GET",
                self.server.url + path,
                **given,
                timeout=60,
                trust_env=False,
            )
        except httpx.TransportError:
            return None
        return answer.status_code, {"Content-Type": "application/json"}, answer.content


@pytest.fixture
def relay(ollama):
    """A relay in front of the real Ollama, which can damage its answers."""
    server = Relay(ollama)
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared_relay(ollama):
    """A relay for all tests of a module."""
    server = Relay(ollama)
    yield server
    server.close()


@pytest.fixture
def model_server():
    """A model server for one test."""
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared_model_server():
    """A model server for all tests of a module."""
    server = ModelServer()
    yield server
    server.close()


# Weaviate


class WeaviateServer:
    """A real server for tests, which can be killed and started again at the same address."""

    def __init__(self, state, **settings):
        self._state = state
        self._environment = {
            **os.environ,
            **settings,
            "SERVICES_STATE": str(state),
            "SERVICES_WAYS": "path cache",
        }

    def start(self):
        """Start the server in about 3 seconds, and return whether it runs."""
        GUARDIAN.services(self._state)
        self._run("up", "weaviate")
        return bool(exported(self._state / "env"))

    def address(self, api_key=None):
        """Return the address, with the server's own key unless another one is given."""
        from codelode.backends.weaviate import Address

        found = exported(self._state / "env")
        port = int(found["CODELODE_WEAVIATE_GRPC_PORT"])
        key = found["CODELODE_WEAVIATE_API_KEY"] if api_key is None else api_key
        return Address(found["CODELODE_WEAVIATE_URL"], port, key)

    def pid(self):
        return int((self._state / "weaviate.pid").read_text())

    def signal(self, number):
        os.kill(self.pid(), number)

    def end(self):
        """Kill the server, and remove its data. An orderly stop can take 20 s."""
        with suppress(FileNotFoundError, ProcessLookupError):
            self.signal(signal.SIGKILL)
        self._run("down")

    def _run(self, *command):
        subprocess.run(
            [DEPLOY / "services.sh", *command],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


@pytest.fixture(scope="session")
def weaviate_address(real_servers, tmp_path_factory):
    """The address of a real Weaviate. Without one, tests are skipped; in CI they fail."""
    from codelode.backends.weaviate import Address

    if url := os.environ.get("CODELODE_WEAVIATE_URL"):
        port = int(os.environ.get("CODELODE_WEAVIATE_GRPC_PORT", "50051"))
        yield Address(url, port, os.environ.get("CODELODE_WEAVIATE_API_KEY", ""))
        return
    with _own_weaviate(tmp_path_factory.mktemp("weaviate")) as server:
        yield server.address()


@pytest.fixture(scope="session")
def weaviate_alias(weaviate_address):
    """The name of an index for this process; indexes with this prefix are removed at the end."""
    from codelode.backends.weaviate.connection import connect

    alias = f"Test{uuid4().hex[:8]}"
    yield alias
    with connect(weaviate_address) as client:
        for name in client.collections.list_all(simple=True):
            if name.startswith(alias):
                client.collections.delete(name)
        for name in client.alias.list_all():
            if name.startswith(alias):
                client.alias.delete(alias_name=name)


@pytest.fixture
def weaviate_place(weaviate_alias):
    """A separate tenant of that index for each test."""
    from codelode.backends.weaviate import TenantIndex

    return TenantIndex(alias=weaviate_alias, tenant=uuid4().hex)


@pytest.fixture(scope="module")
def make_weaviate(real_servers, tmp_path_factory):
    """`make_weaviate(**environment)` returns a server for this module, which tests may damage."""
    with ExitStack() as servers:

        def make(**environment):
            folder = tmp_path_factory.mktemp("weaviate")
            return servers.enter_context(_own_weaviate(folder, **environment))

        yield make


@pytest.fixture
def weaviate_at(real_servers):
    """`with weaviate_at(folder, **environment)`: a server that stores its data in the folder."""
    return _own_weaviate


@contextmanager
def _own_weaviate(state, **settings):
    server = WeaviateServer(state, **settings)
    try:
        if not server.start():
            missing = "no Weaviate: run `make services`, or set CODELODE_WEAVIATE_URL"
            (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
        yield server
    finally:
        server.end()


@pytest.fixture(scope="module")
def issuer_server():
    from tests.issuers import Issuer

    made = Issuer()
    yield made
    made.stop()


@pytest.fixture
def issuer(issuer_server):
    """An OpenID Connect issuer in its initial state."""
    issuer_server.reset()
    return issuer_server
