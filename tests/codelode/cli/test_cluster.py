"""A real embedded cluster of `codelode up`, which is used, stopped, and killed."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

import httpx
import pytest
from celery import Celery
from flower.urls import handlers

from codelode import jobs
from codelode.cli import data_folder, redis_server
from codelode.client import Client
from codelode.cluster import running_cluster, token_of
from codelode.errors import Unauthenticated
from codelode.settings import load
from tests.authorities import Authority
from tests.guardian import GUARDIAN

START_S = 120.0
STOP_S = 20.0

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks at /proc"),
]


class Up:
    """A `codelode up` on free ports, its data folder, and its output."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.said = data.with_name(f"{data.name}.said")
        self.start(*options)

    def start(self, *options: str) -> None:
        command = (sys.executable, "-m", "codelode", "up", "--data", self.data, "--workers", "1")
        with self.said.open("ab") as output:
            self.process = GUARDIAN.popen(
                [*command, "--port", "0", "--http-port", "0", *options],
                stderr=output,
                env=self.environment,
            )
        try:
            wait_for(lambda: running_cluster(self.data) or self._ended(), START_S)
        except AssertionError as exc:
            raise AssertionError(self.said.read_text()) from exc
        self.cluster = running_cluster(self.data)
        assert self.cluster is not None, self.said.read_text()

    @property
    def environment(self) -> dict[str, str]:
        """Return an environment whose commands look for a cluster in another folder."""
        kept = {name: value for name, value in os.environ.items() if name != "CODELODE_SERVER"}
        return {**kept, "CODELODE_DATA": str(self.data.parent / "usual")}

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOP_S)

    def child(self, name: str) -> int:
        return int((self.data / "run" / f"{name}.pid").read_text().split()[0])

    def codelode(self, *args: str, server: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "codelode", *args, *(["--server", self.cluster.grpc] * server)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**self.environment, "CODELODE_DATA": str(self.data)},
        )


def wait_for(condition, timeout_s):
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    return value


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return committed(tmp_path_factory.mktemp("repositories") / "greeter")


def committed(path: Path) -> Path:
    """Create a repository with one file, unlike that of others, and one commit."""
    path.mkdir()
    text = f"def greet_everybody(names):\n    return list(names)  # {path.name}\n"
    (path / "greet.py").write_text(text)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", path, *command], check=True)
    return path


@pytest.fixture(scope="module")
def up(tmp_path_factory, repository):
    """A cluster that has indexed the repository; the last test ends it."""
    running = Up(tmp_path_factory.mktemp("cluster") / "data")
    try:
        answer = running.codelode("index", str(repository), "--wait")
        assert answer.returncode == 0, answer.stderr
        yield running
    finally:
        if running.process.poll() is None:
            assert running.stop(signal.SIGTERM) == 0


def finds(running: Up) -> bool:
    token = token_of(running.cluster.grpc, running.data)
    with Client(running.cluster.grpc, token=token) as client:
        return "greet.py" in {hit.path for hit in client.search("greet_everybody")}


@pytest.mark.parametrize("setting", ["CODELODE_SCOPES", "CODELODE_ACCESS_FILE"])
def test_a_file_of_operators_that_cannot_be_used_ends_the_start_with_its_line(tmp_path, setting):
    file = tmp_path / "file.yaml"
    file.write_text("neither: scopes nor groups\n")
    command = [sys.executable, "-m", "codelode", "up", "--data", tmp_path / "data", "--no-flower"]
    ended = subprocess.run(
        [*command, "--port", "0"],
        env={**os.environ, setting: str(file)},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith(f"codelode: gateway: {file}:1: ")
    assert "starts again" not in ended.stderr
    assert data_folder.members(tmp_path / "data") == frozenset()


def test_indexed_code_is_found(up):
    answer = up.codelode("search", "greet_everybody", "--json")

    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["hits"][0]["path"] == "greet.py"


def test_up_prints_one_line_with_the_addresses_when_it_is_ready(up):
    (line,) = [line for line in up.said.read_text().splitlines() if "is ready" in line]

    cluster = up.cluster
    assert line == (
        f"codelode is ready: gRPC {cluster.grpc}, REST {cluster.http}/api/docs, "
        f"Flower {cluster.flower} (login in {up.data}/run/flower.conf), data {up.data}"
    )


def test_up_prints_the_web_address_and_a_command_signs_a_browser_in(up):
    assert f"the web page is {up.cluster.http}; `codelode web`" in up.said.read_text()

    answer = up.codelode("web", "--no-open", server=False)
    assert answer.returncode == 0, answer.stderr
    link = answer.stdout.strip()
    assert link.startswith(f"{up.cluster.http}/sign-in/link?code=")
    with httpx.Client(follow_redirects=True, timeout=120) as browser:
        page = browser.get(link)
        assert (page.status_code, page.url.path) == (200, "/")
        assert "greet.py" in browser.get(f"{up.cluster.http}/search?q=greet_everybody").text
        assert browser.get(link).status_code == 401  # it was used


def test_the_rest_api_answers_with_the_token_of_the_cluster(up):
    token = token_of(up.cluster.grpc, up.data)
    with httpx.Client(base_url=f"{up.cluster.http}/api/v1", timeout=120) as client:
        assert client.get("/health").json() == {"status": "serving"}
        assert client.get("/status").status_code == 401
        client.headers["authorization"] = f"Bearer {token}"
        found = client.post("/search", json={"query": "greet_everybody"}).json()

    assert found["hits"][0]["path"] == "greet.py"


def test_commands_find_a_cluster_with_another_data_folder(up):
    status = subprocess.run(
        [sys.executable, "-m", "codelode", "repos"],
        env=up.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert status.returncode == 0, status.stderr
    assert "greeter" in status.stdout
    assert f"export CODELODE_DATA={up.data}" in up.said.read_text()


def flower_login(running: Up) -> str:
    (login,) = re.findall(r"'(codelode:.+)'", (running.data / "run/flower.conf").read_text())
    return login


def asked(running: Up, path: str, *, login: str = "", method: str = "GET") -> tuple[int, bytes]:
    """Return the status and the body of Flower's answer."""
    headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
    body = b"" if method == "POST" else None
    request = urllib.request.Request(
        running.cluster.flower + path, data=body, headers=headers, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def test_flower_shows_the_workers_and_allows_no_changes(up):
    status, page = asked(up, "/", login=flower_login(up))
    assert (status, b"Flower" in page) == (200, True)

    order = "/api/worker/shutdown/parse@x"
    status, _ = asked(up, order, login=flower_login(up), method="POST")
    assert status == 403


def jobs_in_flower(running: Up, stage: str) -> dict[str, tuple[str, str]]:
    """Return the state and the reason of the jobs of a stage, by the text that Flower shows."""
    status, body = asked(
        running, f"/api/tasks?taskname=workers.{stage}", login=flower_login(running)
    )
    assert status == 200
    jobs = json.loads(body).values()
    return {job["kwargs"]: (job["state"], job["exception"] or "") for job in jobs}


def test_flower_shows_the_jobs_of_a_stage_and_failures_as_failures(up, tmp_path):
    """Jobs are shown by repository, path, and run, and a failed clone is shown as a failure."""
    missing = tmp_path / "missing"  # it has no commit
    subprocess.run(["git", "init", "--quiet", "--bare", str(missing)], check=True)

    def shown(stage: str, start: str, state: str) -> list[str]:
        jobs = jobs_in_flower(up, stage).items()
        return [reason for text, (of, reason) in jobs if text.startswith(start) and of == state]

    def failures() -> list[str]:
        """Fail again until Flower shows it: Flower misses the jobs before it receives events."""
        failed = up.codelode("index", str(missing), "--ref", "no-such-branch", "--wait")
        assert failed.returncode != 0
        return shown("pull", "missing@no-such-branch (run ", "FAILURE")

    assert all("no commits yet" in reason for reason in wait_for(failures, START_S))
    answer = up.codelode("index", str(committed(tmp_path / "shown")), "--wait")
    assert answer.returncode == 0, answer.stderr
    for stage in ("parse", "embed", "store"):
        wait_for(lambda stage=stage: shown(stage, "shown greet.py (run ", "SUCCESS"), START_S)


def flower_paths():
    """A path for each route of Flower, those that it serves without a login among them."""
    patterns = [getattr(one, "regex", None) or re.compile(one[0]) for one in handlers]
    found = [re.sub(r"\(.*?\)", "x", one.pattern).rstrip("$?") for one in patterns]
    assert {"/", "/metrics", "/healthcheck", "/static/x"} <= set(found)
    return [path.replace(".*", "/no/such/page") for path in found]


def test_flower_asks_for_the_login_on_every_route(up):
    for path in flower_paths():
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            assert asked(up, path, method=method)[0] == 401, path
        assert asked(up, path, login="codelode:wrong")[0] == 401, path

    for path in ("/metrics", "/healthcheck"):
        assert asked(up, path, login=flower_login(up))[0] == 200


def test_a_client_finds_the_token_of_the_local_cluster(up, monkeypatch):
    """The token is sent under each name of this machine, but never to another server."""
    monkeypatch.setenv("CODELODE_DATA", str(up.data))
    _, _, port = up.cluster.grpc.rpartition(":")

    for address in (up.cluster.grpc, f"localhost:{port}"):
        with Client(address) as client:
            assert "greeter" in {one.repository.name for one in client.repositories()}
    with Client(up.cluster.grpc, token="") as client, pytest.raises(Unauthenticated):
        client.repositories()
    for other in (f"127.0.0.1:{int(port) - 1}", f"gateway.example.org:{port}"):
        assert token_of(other, up.data) == ""


def test_commands_of_the_same_user_find_a_cluster_with_tls(tmp_path, monkeypatch):
    """Its certificate names neither loopback nor an authority that this machine trusts."""
    issued = Authority(tmp_path / "tls").issue("*.search.example")
    given = {**issued.settings, "listen": "0.0.0.0:0", "token": "sesame-of-this-test"}
    for name, value in given.items():
        monkeypatch.setenv(f"CODELODE_{name.upper()}", value)
    running = Up(tmp_path / "data", "--no-flower")
    try:
        for name in given:
            monkeypatch.delenv(f"CODELODE_{name.upper()}")
        assert running.cluster.grpc.startswith("grpcs://127.0.0.1:")
        plain = f"localhost:{port_of(running)}"
        answer = running.codelode("repos", server=False)
        assert answer.returncode in (0, 1), answer.stderr
        assert running.codelode("repos", "--server", plain, server=False).returncode == 2
        link = running.codelode("web", "--no-open", server=False)
        assert link.stdout.startswith(f"{running.cluster.http}/sign-in/link?code="), link.stderr
        with httpx.Client(verify=False, timeout=120) as browser:
            cookie = browser.get(link.stdout.strip()).headers["set-cookie"]
        assert cookie.startswith("__Host-codelode-session=")
    finally:
        assert running.stop(signal.SIGTERM) == 0


def port_of(running: Up) -> str:
    return running.cluster.grpc.rpartition(":")[2]


FORGED: list[tuple[str, str, dict[str, object]]] = [
    ("workers.parse", "parse", {"path": "../../etc/passwd", "blob": "--batch"}),
    ("workers.parse", "parse", {"repository": "../other"}),
    ("workers.parse", "parse", {"run": {"a": []}}),
    ("workers.store", "store", {"blob": "HEAD"}),
    ("workers.pull", "pull", {"run": "--all"}),
    ("workers.drop_mirror", "pull", {"repository": "../../index"}),
    ("workers.no_such_task", "parse", {}),
]


class Harmful:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


#: Queues that get a pickled message.
PICKLED = ("parse", "pull", "store")


def test_forged_messages_are_dropped_with_a_reason_and_stop_nothing(up, repository, tmp_path):
    """Send messages as somebody could who reaches the broker."""
    made = tmp_path / "made"
    with Celery("forger", set_as_current=False) as forger:
        forger.conf.update(jobs.broker_settings(load(redis_url=up.cluster.redis)))
        job = {"run": "a" * 16, "repository": "greeter", "path": "greet.py", "blob": "b" * 40}
        for task, queue, changes in FORGED:
            given = {**job, "size": 1, **changes} if queue != "pull" else changes
            forger.send_task(task, kwargs=given, queue=queue)
        for queue in PICKLED:
            pickled = {"run": Harmful(made)}
            forger.send_task(f"workers.{queue}", kwargs=pickled, queue=queue, serializer="pickle")

    def count(text):
        logs = [(up.data / f"logs/{name}.log").read_text() for name in ("parse", "pull", "store")]
        return sum(log.count(text) for log in logs)

    dropped = len(FORGED) - 1 + len(PICKLED)
    wait_for(lambda: count("message_dropped") == dropped, START_S)
    assert not made.exists()
    assert up.codelode("index", str(repository), "--wait").returncode == 0


def test_neither_token_nor_login_is_on_a_command_line_or_in_an_environment(up):
    """The password of Redis is in environments, which only the same user can read."""
    password = flower_login(up).partition(":")[2]
    secrets = [(up.data / "run/token").read_bytes(), password.encode()]
    for pid in data_folder.members(up.data):
        for kind in ("cmdline", "environ"):
            text = Path(f"/proc/{pid}/{kind}").read_bytes()
            assert not [secret for secret in secrets if secret in text], text


def test_the_password_of_redis_is_on_no_command_line_and_in_no_log(up):
    password = (up.data / redis_server.FOLDER / redis_server.PASSWORD).read_bytes()
    assert password.decode() in up.cluster.redis
    for held in (up.data / "run/up.json", Path(f"/proc/{up.child('pull')}/environ")):
        assert password in held.read_bytes()
        assert stat.S_IMODE(held.stat().st_mode) & 0o077 == 0
    shown = [Path(f"/proc/{pid}/cmdline") for pid in data_folder.members(up.data)]
    for file in (*shown, *(up.data / "logs").iterdir(), up.said):
        assert password not in file.read_bytes(), file


def test_a_killed_worker_is_restarted(up):
    before = up.child("pull")

    os.kill(before, signal.SIGKILL)

    wait_for(lambda: up.child("pull") != before, START_S)
    assert "pull was ended by SIGKILL; it starts again" in up.said.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a system that spreads connections")
def test_several_gateways_share_the_ports_and_one_may_die(tmp_path, repository):
    running = Up(tmp_path / "data", "--no-flower", "--gateways", "2")
    try:
        assert_no_flower(running)
        assert running.codelode("index", str(repository), "--wait").returncode == 0
        logs = [running.data / "logs" / f"{name}.log" for name in ("gateway", "gateway-2")]
        token = token_of(running.cluster.grpc, running.data)

        def asked_both(ask, said):
            return ask() and all(said in log.read_text() for log in logs)

        def lists():
            headers = {"Authorization": f"Bearer {token}"}
            listed = httpx.get(f"{running.cluster.http}/api/v1/repositories", headers=headers)
            return listed.status_code == 200

        wait_for(lambda: asked_both(lambda: finds(running), "SearchService/Search"), START_S)
        wait_for(lambda: asked_both(lists, "/api/v1/repositories"), START_S)

        before = running.child("gateway-2")
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{before}").exists(), START_S)
        assert finds(running)
        wait_for(lambda: running.child("gateway-2") != before, START_S)
    finally:
        assert running.stop(signal.SIGTERM) == 0


def test_a_second_cluster_on_the_same_data_folder_is_refused(up):
    second = subprocess.run(
        [sys.executable, "-m", "codelode", "up", "--data", up.data],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode == 2
    assert f"(process {up.process.pid})" in second.stderr
    assert second.stderr.count("\n") == 1


def test_the_next_up_continues_where_the_last_one_ended(up, repository, tmp_path):
    """Ended by Ctrl-C, then killed, then ended by SIGTERM and restored at once from a backup."""
    token = (up.data / "run/token").read_text()

    assert up.stop(signal.SIGINT) == 0
    assert data_folder.members(up.data) == frozenset()
    up.start("--no-flower")
    assert finds(up)

    assert up.stop(signal.SIGKILL) == -signal.SIGKILL
    up.start("--no-flower")
    assert finds(up)
    assert (up.data / "run/token").read_text() == token
    assert "  complete  0 files" in up.codelode("index", str(repository), "--wait").stdout
    backed_up = offline(up, "backup", tmp_path / "saved")
    assert backed_up.returncode == 0, backed_up.stderr

    assert up.stop(signal.SIGTERM) == 0
    assert data_folder.members(up.data) == frozenset()
    restored = offline(up, "restore", "--force", tmp_path / "saved")
    assert restored.returncode == 0, restored.stderr
    assert not (up.data.parent / "usual" / "run" / "other.json").exists()


def offline(running: Up, *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that gets the data folder but not the address of the cluster."""
    command = [sys.executable, "-m", "codelode", *args, "--data", running.data]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def assert_no_flower(running: Up) -> None:
    assert running.cluster.flower == ""
    assert "Flower" not in running.said.read_text()
    assert not (running.data / "run" / "flower.pid").exists()
