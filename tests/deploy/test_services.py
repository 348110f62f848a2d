"""deploy/services.sh with real servers: its choice of a source, its errors, keys, and clean-up."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import httpx
import pytest

from tests.exported import exported

pytestmark = pytest.mark.server

SCRIPT = Path(__file__).parents[2] / "deploy/services.sh"


@pytest.fixture
def services(tmp_path):
    """`services(*command, **environment)` runs the script with a temporary state folder."""
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

    run.state = state  # type: ignore[attr-defined]
    yield run
    run("down")


@pytest.fixture
def bare(tmp_path):
    """A folder for PATH with only the tools that the script needs: no server and no Go."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "grep", "head", "mkdir", "nice", "sed", "tr"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


@pytest.fixture
def weaviate(services):
    """The variables that the script exports for a Weaviate server that it has started."""
    if services("up", "weaviate", SERVICES_WAYS="path cache").returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Weaviate: run `make services`")
    return exported(services.state / "env")


def test_configured_server_is_preferred(services, ready_server):
    done = services("up", "weaviate", CODELODE_WEAVIATE_URL=ready_server)

    assert f"weaviate: configured, {ready_server}" in done.stderr
    assert f"export CODELODE_WEAVIATE_URL={ready_server}" in (services.state / "env").read_text()


@pytest.mark.parametrize(
    ("command", "known"), [("up", "weaviate ollama"), ("binary", "weaviate ollama gitea")]
)
def test_error_for_an_unknown_server_lists_the_known_ones(services, command, known):
    found = services(command, "valkey")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.strip() == f"services: unknown server 'valkey': name one of {known}"


def test_error_lists_the_sources_that_were_tried(services, tmp_path):
    done = services("up", "weaviate", SERVICES_WAYS="compose cache", XDG_CACHE_HOME=str(tmp_path))

    assert done.returncode == 1
    assert "no source of this server worked (compose cache)" in done.stderr
    assert f"cache: no {tmp_path}/codelode/servers/weaviate-" in done.stderr


def test_missing_program_is_reported_in_one_line_with_the_remedy(services, bare, tmp_path):
    places = {"PATH": str(bare), "XDG_CACHE_HOME": str(tmp_path)}
    done = services("binary", "weaviate", SERVICES_WAYS="path cache", **places)

    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert "(path cache): path: no weaviate-server; cache: no " in line
    assert line.endswith("on PATH or install Go 1.26 and add that source to SERVICES_WAYS")


@pytest.mark.parametrize(
    ("go", "line_count", "reason"),
    [
        pytest.param("", 1, "go: no Go on PATH", id="none"),
        pytest.param("echo go1.25.3", 1, "go: too old", id="old"),
        pytest.param(
            '[ "$1" = env ] && echo go1.26.0',
            2,
            "go: the build fails or does not start",
            id="failing",
        ),
    ],
)
def test_reason_for_an_impossible_build_is_reported(
    services, bare, tmp_path, go, line_count, reason
):
    if go:
        (bare / "go").write_text(f"#!/usr/bin/env bash\n{go}\n")
        (bare / "go").chmod(0o755)
    places = {"PATH": str(bare), "XDG_CACHE_HOME": str(tmp_path)}
    done = services("binary", "weaviate", SERVICES_WAYS="configured go", **places)

    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (1, "", line_count)
    assert f"no source of this server worked (go): {reason}" in lines[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the sockets of a process from /proc")
def test_ports_beyond_loopback_require_the_key(services, weaviate):
    grpc_port = int(weaviate["CODELODE_WEAVIATE_GRPC_PORT"])
    key = weaviate["CODELODE_WEAVIATE_API_KEY"]
    pid = int((services.state / "weaviate.pid").read_text())

    (data_port,) = ports_beyond_loopback(pid) - {grpc_port}
    for method in ("Search", "BatchObjects", "BatchDelete", "TenantsGet", "Aggregate"):
        refusal = answer_of(grpc_port, f"/weaviate.v1.Weaviate/{method}")
        assert "unauthorized: invalid api key" in refusal
        assert "unauthorized" not in answer_of(grpc_port, f"/weaviate.v1.Weaviate/{method}", key)
    for method in ("ReplicationService/FetchObject", "FileReplicationService/GetChangeLog"):
        assert "missing or invalid auth header" in answer_of(data_port, f"/clusterapi.{method}")
    with httpx.Client(base_url=f"http://127.0.0.1:{data_port}", trust_env=False) as http:
        for path in ("/nodes/status", "/indices/Any/shards/any/objects", "/v1/cluster/any"):
            assert http.get(path).status_code == 401
        assert http.get("/nodes/status", auth=("codelode", key)).status_code == 200


def test_key_is_readable_only_by_the_user_and_new_for_each_server(services, weaviate):
    for name in ("env", "weaviate.key"):
        assert stat.S_IMODE((services.state / name).stat().st_mode) == 0o600
    url, key = weaviate["CODELODE_WEAVIATE_URL"], weaviate["CODELODE_WEAVIATE_API_KEY"]
    with httpx.Client(base_url=url, trust_env=False) as http:
        assert http.get("/v1/schema").status_code == 401
        allowed = http.get("/v1/schema", headers={"Authorization": f"Bearer {key}"})
        assert allowed.status_code == 200

    services("down")
    services("up", "weaviate", SERVICES_WAYS="path cache")
    assert exported(services.state / "env")["CODELODE_WEAVIATE_API_KEY"] != key


def test_key_of_a_started_server_is_not_exported_for_a_configured_one(
    services, weaviate, ready_server
):
    os.kill(int((services.state / "weaviate.pid").read_text()), signal.SIGKILL)
    services("up", "weaviate", SERVICES_WAYS="configured", CODELODE_WEAVIATE_URL=ready_server)

    assert exported(services.state / "env") == {"CODELODE_WEAVIATE_URL": ready_server}


@pytest.mark.usefixtures("weaviate")
def test_server_is_reused_restarted_at_its_address_and_removed_by_down(services):
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
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    assert listed.stdout[:1] in (b"", b"Z")  # ended, or a zombie that is not reaped yet


def ports_beyond_loopback(pid):
    """Return the TCP ports of a process that are not bound to loopback only."""
    links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
            host, port = local.split(":")
            is_loopback = host in ("0100007F", f"{0:024X}01000000")
            if state == "0A" and inode in sockets and not is_loopback:  # 0A: LISTEN
                ports.add(int(port, 16))
    return ports


def answer_of(port, method, key=""):
    """Return the error details that gRPC returns for an empty request, or `OK`."""
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(method)
        try:
            call(b"", metadata=metadata, timeout=10)
        except grpc.RpcError as exc:
            return exc.details()
    return "OK"
