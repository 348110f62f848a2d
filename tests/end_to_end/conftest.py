"""A real cluster as `codelode up` starts it, and real git repositories to index."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from codelode.backends import registry
from codelode.backends.redis.connection import connect
from codelode.backends.redis.graph import RedisGraph
from codelode.backends.redis.ledger import RedisLedger
from codelode.client import Client
from codelode.cluster import token_file, token_of
from codelode.environment import MARKER
from codelode.model import DEFAULT_REF, RepositoryName, RunState
from codelode.settings import Settings, load
from tests.end_to_end.stored import Stored, read
from tests.grouping import uses_shared_cluster
from tests.guardian import GUARDIAN
from tests.waiting import wait_until

#: Short enough that a dead worker's files return within a test, long enough for a busy machine.
#: The periodic tasks of an idle cluster take 5 % of a processor at an interval of one second.
FAST_RECOVERY = {
    "CODELODE_HEARTBEAT_S": "0.5",
    "CODELODE_REAP_INTERVAL_S": "2",
    "CODELODE_REQUEUE_S": "3",
    "CODELODE_VISIBILITY_TIMEOUT_S": "5",
    "CODELODE_PARSE_TIMEOUT_S": "5",
    "CODELODE_MODEL_RETRY_S": "1",
    "CODELODE_LOG_FORMAT": "json",
}

#: Maximum start-up time of a cluster, seconds. A start takes 7 s of processor time.
READY_S = 150

#: The cluster that most tests of this process share, if it is started, and the name of its store.
SHARED_CLUSTER = pytest.StashKey[tuple[str, "Cluster"]]()

#: The folder of the installed packages.
INSTALLED = Path(sysconfig.get_path("purelib"))

#: Size that the files of the small library stay below, bytes.
SMALL_BYTES = 12_000

#: Numbers of indexes; never reset, because fixtures are created again for each store.
NUMBERS = count()


class Cluster:
    """A `codelode up` process; it can be killed and started again on the same data."""

    def __init__(self, data: Path, **settings: str) -> None:
        self.data = data
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, flower: bool = False) -> None:
        log = (self.data.parent / "up.log").open("ab")
        command = [sys.executable, "-m", "codelode", "up", "--data", str(self.data)]
        with log:
            self._process = GUARDIAN.popen(
                [*command, "--port", "0", *(["--http-port", "0"] if flower else ["--no-flower"])],
                env={
                    **os.environ,
                    "CODELODE_DATA": str(self.data.parent / "usual"),
                    **FAST_RECOVERY,
                    **self._variables(),
                },
                stdout=log,
                stderr=log,
            )
        wait_until(self._is_ready, "the cluster to be ready", seconds=READY_S, give_up=self._ended)

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(60)

    def kill(self) -> None:
        """Kill all processes, as a crash of the machine would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)
        wait_until(lambda: not self.pids(), "all processes to end with the first")

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def facts(self) -> dict[str, str]:
        return json.loads((self.data / "run" / "up.json").read_text())

    def settings(self) -> Settings:
        """Return the settings of the cluster."""
        return load(data=self.data, redis_url=self.facts["redis"], **self._settings)

    def _variables(self) -> dict[str, str]:
        return {f"CODELODE_{name.upper()}": value for name, value in self._settings.items()}

    def environment(self) -> dict[str, str]:
        """Return the environment for a command with the settings of the cluster."""
        own = {"CODELODE_TOKEN_FILE": str(token_file(self.data))}
        return {**os.environ, **self._variables(), **own}

    def client(self) -> Client:
        address = self.facts["grpc"]
        return Client(address, token=token_of(address, self.data))

    def redis(self) -> Redis:
        """Return a client of the cluster's Redis, which the caller must close.

        If a client is left to the garbage collector, its sockets may go first, and warn.
        """
        return connect(self.facts["redis"])

    def pids(self, name: str = "") -> list[int]:
        """Return the ids of the cluster's processes whose command line contains `name`."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and self._owns(entry) and name in _command(entry)
        ]

    def index_of(self, repository: str) -> tuple[frozenset[str], frozenset[object]]:
        """Return the stored chunk ids and edges of a repository."""
        settings = self.settings()
        name = RepositoryName(repository)
        store = registry.chunk_store(settings)
        ids = frozenset(store.ids(name, DEFAULT_REF))
        store.close()
        with self.redis() as redis:
            ledger = RedisLedger(redis)
            (status,) = ledger.refs(name)
            paths = [record.path for record in ledger.all(name, status.ref)]
            edges = RedisGraph(redis).outgoing(name, DEFAULT_REF, paths)
        return ids, frozenset(edge for found in edges.values() for edge in found)

    def _is_ready(self) -> bool:
        try:
            return self.facts["pid"] == self._process.pid
        except (FileNotFoundError, json.JSONDecodeError):
            return False

    def _ended(self) -> str:
        if self._process.poll() is None:
            return ""
        return (self.data.parent / "up.log").read_text(errors="replace")[-2000:]

    def _owns(self, entry: Path) -> bool:
        """Return whether it is a process of the cluster, or a program that one of these started."""
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            return False
        names = ("CODELODE_DATA", MARKER)
        return any(f"{name}={self.data}".encode() in variables for name in names)


def _command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Store:
    """`store()` returns the settings of a chunk store with a new index, for one more cluster."""

    def __init__(self, name: str, fixture: Callable[[str], Any]) -> None:
        self.name = name
        self._fixture = fixture

    def __call__(self) -> dict[str, str]:
        if self.name == "local":
            return {}
        address, alias = self._fixture("weaviate_address"), self._fixture("weaviate_alias")
        return {
            "store": "weaviate",
            "weaviate_url": address.url,
            "weaviate_grpc_port": str(address.grpc_port),
            "weaviate_api_key": address.api_key,
            "weaviate_collection": f"{alias}n{next(NUMBERS)}",
        }


@pytest.fixture(scope="session", params=["local", "weaviate"])
def store(request: pytest.FixtureRequest) -> Store:
    return Store(request.param, request.getfixturevalue)


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, store: Store, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """Start the cluster that most tests share; each test uses its own repository names."""
    made = Cluster(tmp_path_factory.mktemp("shared") / "data", **store())
    made.start()
    pytestconfig.stash[SHARED_CLUSTER] = store.name, made
    yield made
    del pytestconfig.stash[SHARED_CLUSTER]
    made.kill()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the shared cluster again if it was stopped and the test uses it."""
    store, made = item.config.stash.get(SHARED_CLUSTER, (None, None))
    if made and uses_shared_cluster(item) and f"{store}" in item.name and not made.is_running():
        made.start()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the shared cluster when other tests follow: idle, it takes 4 % of a processor."""
    _, made = item.config.stash.get(SHARED_CLUSTER, (None, None))
    if made and made.is_running() and nextitem and not uses_shared_cluster(nextitem):
        made.kill()


@pytest.fixture(scope="session")
def undisturbed(cluster: Cluster, library: Git) -> Stored:
    """Return all that is stored of the library after an undisturbed run."""
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library")
    assert run.state is RunState.COMPLETE
    return read(cluster, "library")


@pytest.fixture(scope="module")
def make_cluster(
    tmp_path_factory: pytest.TempPathFactory, store: Store
) -> Iterator[Callable[..., Cluster]]:
    """`make_cluster(**settings)` starts another cluster, which runs until the module ends."""
    made: list[Cluster] = []

    def make(**settings: str) -> Cluster:
        made.append(Cluster(tmp_path_factory.mktemp("cluster") / "data", **store(), **settings))
        made[-1].start()
        return made[-1]

    yield make
    for cluster in made:
        cluster.kill()


@pytest.fixture(scope="session")
def make_git(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Git]:
    return lambda: Git(tmp_path_factory.mktemp("git") / "repository")


@pytest.fixture
def own_cluster(tmp_path: Path, store: Store) -> Iterator[Cluster]:
    """Start a cluster for a single test, which may break it."""
    made = Cluster(tmp_path / "data", **store())
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="session")
def cluster_at() -> type[Cluster]:
    """`cluster_at(data, **settings)` makes a cluster that the test itself starts and ends."""
    return Cluster


class Git:
    """A repository on disk, changed by real git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.run("init", "--quiet", "--initial-branch=main")

    def run(self, *args: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
        done = subprocess.run(
            ["git", *identity, *args], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str | bytes | None], message: str = "change") -> str:
        """Write (or, for None, delete) files and commit; returns the commit id."""
        for path, content in files.items():
            target = self.folder / path
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.run("add", "--all")
        self.run("commit", "--quiet", "--message", message)
        return self.run("rev-parse", "HEAD")


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git(tmp_path / "repository")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Git:
    """Some 100 files of real code: two installed packages, committed."""
    made = Git(tmp_path_factory.mktemp("library") / "repository")
    for package in ("kombu", "click"):
        shutil.copytree(
            INSTALLED / package,
            made.folder / package,
            ignore=shutil.ignore_patterns("__pycache__", "*.so"),
        )
    made.commit({}, "as installed")
    return made


@pytest.fixture(scope="session")
def small_library(tmp_path_factory: pytest.TempPathFactory) -> Git:
    """Some 100 files of real code, so small that a run takes half as long as for the library."""
    made = Git(tmp_path_factory.mktemp("small") / "repository")
    packages = (INSTALLED / package for package in ("kombu", "uvicorn"))
    files = (file for package in packages for file in package.rglob("*.py"))
    small = (file for file in files if file.stat().st_size < SMALL_BYTES)
    made.commit({str(file.relative_to(INSTALLED)): file.read_bytes() for file in small})
    return made
