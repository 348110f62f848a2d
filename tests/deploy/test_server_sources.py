"""deploy/services.sh tries the sources of a server in order and leaves nothing broken behind.

`Machine` is everything that a run of the script can reach. Its programs are stubs that imitate the
real ones and record their arguments, so the tests need no network and no container engine.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.exported import exported

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy/services.sh"
CONTAINERS = yaml.safe_load((ROOT / "deploy/services.compose.yml").read_text())["services"]
VERSIONS = {
    name: service["image"].rpartition(":")[2]
    for name, service in yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
        "services"
    ].items()
    if name in CONTAINERS
}
PROGRAMS = {"weaviate": "weaviate-server", "ollama": "ollama"}
MODULES = {
    "weaviate": "github.com/weaviate/weaviate/cmd/weaviate-server",
    "ollama": "github.com/ollama/ollama",
}
SOURCES = ("configured", "compose", "path", "cache", "release", "go")
TOOLS = (
    *(
        "bash",
        "cat",
        "chmod",
        "cksum",
        "dirname",
        "find",
        "grep",
        "gzip",
        "head",
        "mkdir",
        "mktemp",
        "mv",
    ),
    *("nice", "nohup", "ps", "rm", "sed", "setsid", "sleep", "tar", "touch", "tr"),
    "unzip",
)
GRPC_PORT = 41234

#: Stands in for either server: it is ready at once, and ends after a minute without requests.
SERVER = f"""#!{sys.executable} -SE
import os, socket, sys
if "--port" in sys.argv:
    port, path = sys.argv[sys.argv.index("--port") + 1], b"/v1/.well-known/ready"
else:
    port, path = os.environ["OLLAMA_HOST"].rpartition(":")[2], b"/api/version"
with socket.create_server(("127.0.0.1", int(port))) as server:
    server.settimeout(60)
    while True:
        with server.accept()[0] as client:
            asked = client.recv(4096)
            status = b"200 OK" if asked.startswith(b"GET " + path + b" ") else b"404 Not Found"
            client.sendall(b"HTTP/1.0 " + status + b"\\r\\n\\r\\n")
"""

#: Sends only requests to loopback; answers all others with the file `released`. Exit statuses are
#: those of curl: 22 for a page that does not exist, 18 for an interrupted download.
CURL = f"""
case ${{*: -1}} in http://127.0.0.1:*) exec {shutil.which("curl")} "$@" ;; esac
echo "${{*: -1}}" >>"$MACHINE/asked/curl"
while [ "$1" != --output ]; do shift; done
[ -e "$MACHINE/released" ] || exit 22
[ ! -e "$MACHINE/breaks" ] || {{ head -c 100 "$MACHINE/released" >"$2"; exit 18; }}
cat "$MACHINE/released" >"$2"
"""

UNAME = 'case $1 in -s) echo "${PLATFORM% *}" ;; -m) echo "${PLATFORM#* }" ;; esac'

#: Writes the program in two steps, so that a failing build leaves a part of it.
GO = """
echo "$*" >>"$MACHINE/asked/go"
[ "$1" = env ] && echo "$GO_IS" && exit
export -p >"$MACHINE/asked/go.environment"
name=${2%@*}; name=$GOBIN/${name##*/}
head -c 100 "$MACHINE/server" >"$name"; chmod +x "$name"
[ ! -e "$MACHINE/breaks" ] && cat "$MACHINE/server" >"$name"
"""

#: The engine is a folder in which each container and each volume is a file. Like Compose, it
#: requires the variables of the Compose file for every command.
DOCKER = """
engine=$MACHINE/engine
echo "$*" >>"$MACHINE/asked/docker"
[ -d "$engine" ] || { echo "no daemon runs" >&2; exit 1; }
[ ! -e "$engine/denies" ] || { echo "permission denied" >&2; exit 1; }
[ "$1" = info ] && exit
[ ! -e "$engine/lacks compose" ] || exit 1
[ "$*" = "compose version" ] && exit
shift; while [[ $1 = --* ]]; do shift 2; done
: "${WEAVIATE_VERSION:?}" "${OLLAMA_VERSION:?}"
case $1 in
  up) [ ! -e "$engine/lacks the image" ] || exit 1
    echo "$WEAVIATE_VERSION $OLLAMA_VERSION" >"$engine/${*: -1}.container"
    touch "$engine/${*: -1}.volume"
    [ ! -e "$engine/finds it unhealthy" ] ;;
  port) cat "$engine/$2.container" >&2 && cat "$MACHINE/published/$2/$3" ;;
  down) rm -f "$engine"/*.container; [[ "$*" != *--volumes* ]] || rm -f "$engine"/*.volume ;;
esac
"""

#: Fails as if the file system of the cache were full, after copying a part of the file.
MV = f"""
[[ $3 = $XDG_CACHE_HOME/* && $2 != $XDG_CACHE_HOME/* ]] || exec {shutil.which("mv")} "$@"
head -c 100 "$2" >"$3"; chmod +x "$3"; exit 1
"""

#: Adopts orphans but never reaps them, like the first process of many containers.
FIRST_PROCESS = """
import ctypes, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
for command in sys.argv[2:]:
    subprocess.run([sys.argv[1], *command.split()], check=True)
"""


class Machine:
    """A machine with common tools and with the sources that a test offers."""

    def __init__(self, folder):
        self.folder, self.state, self.engine = folder, folder / "state", folder / "engine"
        self._programs = folder / "bin"
        for made in (self._programs, folder / "asked"):
            made.mkdir()
        for name in TOOLS:
            if found := shutil.which(name):
                (self._programs / name).symlink_to(found)
        (self._programs / "python3").symlink_to(sys.executable)
        self.write(folder / "server", SERVER)
        self.stub("curl", CURL)
        self.stub("uname", UNAME)
        self.environment = {
            "PATH": str(self._programs),
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "SERVICES_STATE": str(self.state),
            "MACHINE": str(folder),
            "PLATFORM": "Linux x86_64",
            "GO_IS": "go1.26.0",
        }

    def run(self, *command, script=SCRIPT, **environment):
        given = {**self.environment, **environment}
        # Otherwise the script would use the developer's servers.
        assert given["SERVICES_STATE"] or script != SCRIPT
        return subprocess.run(
            [script, *command],
            env=given,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def offer(self, source, url, server="weaviate"):
        """Make a source work; `url` is the address of a configured or published server."""
        match source:
            case "configured":
                self.environment[f"CODELODE_{server.upper()}_URL"] = url
            case "compose":
                self.publish(url)
            case "path":
                self.write(self._programs / PROGRAMS[server], SERVER)
            case "cache":
                self.write(self.cached(server), SERVER)
            case "release":
                self.release({"LICENSE": "", PROGRAMS[server]: SERVER})
            case "go":
                self.stub("go", GO)

    def publish(self, url):
        """Install an engine that publishes the ports of the Compose file at `url`."""
        self.engine.mkdir()
        self.stub("docker", DOCKER)
        for name, service in CONTAINERS.items():
            for published in service["ports"]:
                target = published.rpartition(":")[2]
                port = GRPC_PORT if target == "50051" else url.rpartition(":")[2]
                self.write(self.folder / "published" / name / target, f"127.0.0.1:{port}\n")

    def release(self, files, form="tar"):
        """Make every download return an archive of these files."""
        with (self.folder / "released").open("wb") as out:
            (zipped if form == "zip" else tarred)(files, out)

    def mark(self):
        """Mark the state folder as the script does."""
        self.write(self.state / ".codelode-services", "")

    def stub(self, name, script):
        (self._programs / name).unlink(missing_ok=True)
        self.write(self._programs / name, f"#!{shutil.which('bash')}\n{script.strip()}\n")

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def cached(self, server="weaviate"):
        folder = f"{server}-{VERSIONS[server]}"
        return self.folder / "cache/codelode/servers" / folder / PROGRAMS[server]

    def asked(self, program):
        """Return the arguments of each call of a program."""
        file = self.folder / "asked" / program
        return file.read_text().splitlines() if file.exists() else []

    def go_environment(self):
        lines = (self.folder / "asked/go.environment").read_text().splitlines()
        words = [shlex.split(line)[-1] for line in lines if "=" in line]
        return dict(word.split("=", 1) for word in words)

    def exports(self):
        return exported(self.state / "env")


def tarred(files, out):
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))


def zipped(files, out):
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.fixture
def machine(tmp_path):
    one = Machine(tmp_path)
    yield one
    one.run("down")


def source_used(done):
    """Return the source that the script reports for the server that it started."""
    said = done.stderr.replace("configured,", "(configured),").replace(
        "Docker Compose,", "(compose),"
    )
    sources = [source for source in SOURCES if f"({source}), http://127.0.0.1:" in said]
    assert done.returncode == 0, done.stderr
    assert len(sources) == 1, done.stderr
    return sources[0]


# Order of the sources


@pytest.mark.parametrize("server", PROGRAMS)
@pytest.mark.parametrize("first", SOURCES)
def test_first_working_source_is_used_and_no_later_one_is_tried(
    machine, ready_server, first, server
):
    offered = SOURCES[SOURCES.index(first) :]
    for source in offered:
        machine.offer(source, ready_server, server)

    assert source_used(machine.run("up", server)) == first
    tried = {"compose": "docker", "release": "curl", "go": "go"}
    assert not any(machine.asked(tried[source]) for source in offered[1:] if source in tried)


def test_only_the_named_sources_are_tried_in_the_given_order(machine, ready_server):
    for source in SOURCES:
        machine.offer(source, ready_server)

    done = machine.run("up", "weaviate", SERVICES_WAYS="go cache")

    assert source_used(done) == "go"
    assert not machine.asked("docker")
    assert not machine.asked("curl")


@pytest.mark.parametrize("source", ["path", "cache"])
def test_program_that_does_not_start_is_skipped(machine, ready_server, source):
    machine.offer("go", ready_server)
    machine.offer(source, ready_server)
    for place in (machine.cached(), machine.folder / "bin/weaviate-server"):
        if place.exists():
            machine.write(place, "#!/bin/sh\nexit 1\n")

    done = machine.run("up", "weaviate")

    assert source_used(done) == "go"
    assert "weaviate-server did not start, see " in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")
def test_script_does_not_wait_for_a_server_that_is_a_zombie(machine, ready_server):
    machine.write(machine.folder / "bin/weaviate-server", "#!/bin/sh\nexit 1\n")
    machine.offer("cache", ready_server)

    both = subprocess.run(
        [sys.executable, "-c", FIRST_PROCESS, SCRIPT, "up weaviate", "down"],
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=45,  # less than it would wait
        check=False,
    )
    assert source_used(both) == "cache"
    assert both.stderr.endswith("weaviate: stopped\n")


def test_configured_server_that_does_not_answer_is_skipped(machine, ready_server):
    machine.offer("configured", "http://127.0.0.1:1")
    machine.offer("cache", ready_server)

    assert source_used(machine.run("up", "weaviate")) == "cache"


# Docker Compose


@pytest.mark.parametrize("trouble", ["lacks compose", "lacks the image", "finds it unhealthy"])
def test_compose_is_skipped_if_it_does_not_start_the_server(machine, ready_server, trouble):
    machine.offer("compose", ready_server)
    machine.offer("cache", ready_server)
    (machine.engine / trouble).touch()

    assert source_used(machine.run("up", "weaviate")) == "cache"


def test_compose_is_skipped_if_no_engine_runs(machine, ready_server):
    machine.stub("docker", DOCKER)
    machine.offer("cache", ready_server)

    assert source_used(machine.run("up", "weaviate")) == "cache"
    assert machine.asked("docker") == ["info"]


@pytest.mark.parametrize("port", ["127.0.0.1:1\n", ""], ids=["closed port", "no port"])
def test_compose_is_skipped_if_its_container_cannot_be_reached(machine, ready_server, port):
    machine.offer("compose", ready_server)
    machine.offer("cache", ready_server)
    machine.write(machine.folder / "published/weaviate/8080", port)

    assert source_used(machine.run("up", "weaviate")) == "cache"


def test_compose_runs_the_pinned_versions_and_its_ports_are_recorded(machine, ready_server):
    machine.offer("compose", ready_server)

    done = machine.run("up")

    assert done.returncode == 0
    assert machine.exports() == {
        "CODELODE_WEAVIATE_URL": ready_server,
        "CODELODE_WEAVIATE_GRPC_PORT": str(GRPC_PORT),
        "CODELODE_OLLAMA_URL": ready_server,
    }
    versions = "{weaviate} {ollama}\n".format(**VERSIONS)
    for server in PROGRAMS:
        assert (machine.engine / f"{server}.container").read_text() == versions
        assert any(
            call.endswith(f" up --detach --wait {server}") for call in machine.asked("docker")
        )


def test_compose_uses_the_files_of_this_repository(machine, ready_server):
    machine.offer("compose", ready_server)
    machine.run("up", "ollama")

    calls = [call for call in machine.asked("docker") if "--file" in call]
    assert calls
    for call in calls:
        words = call.split()
        given = {word: words[at + 1] for at, word in enumerate(words) if word.startswith("--")}
        assert Path(given["--file"]) == ROOT / "deploy/services.compose.yml"
        for service in CONTAINERS.values():
            for file in service.get("env_file", ()):
                assert (Path(given["--project-directory"]) / file).is_file()


def test_each_state_folder_has_its_own_compose_project(machine, ready_server, tmp_path):
    machine.offer("compose", ready_server)

    def projects(**environment):
        for call in ("up", "down"):
            machine.run(call, "ollama", **environment)
        calls = machine.asked("docker")
        return {
            words[words.index("--project-name") + 1]
            for words in map(str.split, calls)
            if "--project-name" in words
        }

    (own,) = projects()
    others = projects(SERVICES_STATE=str(tmp_path / "another")) - {own}

    assert len(others) == 1
    assert all(name.startswith("codelode-services-") for name in (own, *others))


@pytest.mark.parametrize("command", ["up", "down"])
def test_empty_project_file_of_an_older_version_means_the_old_project_name(
    machine, ready_server, command
):
    machine.offer("compose", ready_server)
    machine.mark()
    machine.write(machine.state / "composed", "")

    machine.run(command, "ollama")
    calls = [call for call in machine.asked("docker") if "--file" in call]
    assert calls
    assert all("--project-name codelode-services " in call for call in calls)


def test_down_finds_the_project_if_the_state_folder_ends_with_a_slash(machine, ready_server):
    machine.offer("compose", ready_server)
    machine.run("up")

    machine.run("down", SERVICES_STATE=f"{machine.state}/")
    assert list(machine.engine.iterdir()) == []


def test_down_removes_the_containers_and_volumes_of_compose(machine, ready_server):
    machine.offer("compose", ready_server)
    machine.run("up")
    assert len(list(machine.engine.iterdir())) == 4

    assert machine.run("down").returncode == 0
    assert list(machine.engine.iterdir()) == []
    assert not machine.state.exists()


def test_down_removes_a_container_that_did_not_become_ready(machine, ready_server):
    machine.offer("compose", ready_server)
    (machine.engine / "finds it unhealthy").touch()
    machine.run("up", "weaviate", SERVICES_WAYS="compose")
    assert (machine.engine / "weaviate.container").exists()

    machine.run("down")
    assert [file.name for file in machine.engine.iterdir()] == ["finds it unhealthy"]


@contextmanager
def stopped(machine):
    away = machine.engine.rename(machine.folder / "away")
    yield "no daemon runs"
    away.rename(machine.engine)


@contextmanager
def denied(machine):
    (machine.engine / "denies").touch()
    yield "permission denied"
    (machine.engine / "denies").unlink()


@contextmanager
def removed(machine):
    (machine.folder / "bin/docker").unlink()
    yield "docker: command not found"
    machine.stub("docker", DOCKER)


@pytest.mark.parametrize("trouble", [stopped, denied, removed])
def test_failure_of_compose_is_reported_and_the_next_down_removes_the_containers(
    machine, ready_server, trouble
):
    machine.offer("compose", ready_server)
    machine.run("up")
    with trouble(machine) as reason:
        done = machine.run("down")

        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "Docker Compose did not take down what it started" in line
        assert "start Docker, or get the right to use it, and run this again" in line
        assert reason in (machine.state / "log").read_text()
    assert len(list(machine.engine.iterdir())) == 4

    done = machine.run("down")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(machine.engine.iterdir()) == []
    assert not machine.state.exists()


def test_down_without_docker_succeeds_after_the_remedy_in_its_message(machine, ready_server):
    machine.offer("compose", ready_server)
    machine.run("up")
    with removed(machine):
        (said,) = machine.run("down").stderr.splitlines()
        assert said.endswith(f"if it is gone for good, remove {machine.state}/composed first")
        (machine.state / "composed").unlink()

        assert machine.run("down").returncode == 0
        assert not machine.state.exists()


def test_down_stops_a_program_even_if_compose_fails(machine, ready_server):
    machine.offer("path", ready_server)
    machine.run("up", "weaviate", SERVICES_WAYS="path")
    machine.offer("compose", ready_server)
    machine.run("up", "ollama")
    with stopped(machine):
        done = machine.run("down")

        assert done.returncode == 1
        assert done.stderr.endswith("weaviate: stopped\n")
        assert not (machine.state / "weaviate.pid").exists()


def test_down_does_not_call_docker_if_compose_started_nothing(machine, ready_server):
    machine.offer("path", ready_server)
    machine.run("up", "weaviate")
    machine.offer("compose", ready_server)
    (machine.engine / "weaviate.container").touch()

    machine.run("down")
    assert machine.asked("docker") == []


def test_compose_publishes_its_ports_on_loopback_only():
    published = [port for service in CONTAINERS.values() for port in service["ports"]]

    assert sorted(published) == ["127.0.0.1::11434", "127.0.0.1::50051", "127.0.0.1::8080"]
    assert not any("network_mode" in service for service in CONTAINERS.values())


# The state folder


@pytest.mark.parametrize("command", ["up weaviate", "binary weaviate", "down"])
@pytest.mark.parametrize("holds", ["notes", ".hidden", "weaviate/schema.db", "weaviate.pid"])
def test_folder_with_other_files_is_refused_and_unchanged(machine, ready_server, command, holds):
    machine.offer("path", ready_server)
    home = machine.folder / "home"
    mine = machine.write(home / holds, str(os.getpid()))

    done = machine.run(*command.split(), SERVICES_STATE=str(home))

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"{home} was not created by this script" in line
    assert line.endswith("set SERVICES_STATE to a new or an empty folder")
    assert [path for path in home.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == str(os.getpid())


@pytest.mark.parametrize("command", ["up weaviate", "binary weaviate", "down"])
def test_state_path_that_is_a_file_is_refused_and_unchanged(machine, ready_server, command):
    machine.offer("path", ready_server)
    file = machine.write(machine.folder / "notes", "of others")

    assert machine.run(*command.split(), SERVICES_STATE=str(file)).returncode == 1
    assert file.read_text() == "of others"


def test_empty_state_folder_is_used_and_removed_by_down(machine, ready_server):
    machine.state.mkdir()
    machine.offer("path", ready_server)

    assert source_used(machine.run("up", "weaviate")) == "path"
    assert machine.run("down").returncode == 0
    assert not machine.state.exists()


def test_down_does_nothing_if_nothing_was_started(machine):
    done = machine.run("down")

    assert (done.returncode, done.stderr) == (0, "")
    assert not machine.state.exists()


def test_down_removes_what_a_failed_up_left(machine):
    assert machine.run("up", "weaviate").returncode == 1
    assert machine.state.exists()

    assert machine.run("down").returncode == 0
    assert not machine.state.exists()


def test_state_folder_of_the_checkout_needs_no_mark(machine, ready_server):
    """Older versions did not mark it."""
    checkout = machine.folder / "checkout"
    for name in ("deploy/services.sh", "docker-compose.yml"):
        machine.write(checkout / name, (ROOT / name).read_text())
    machine.offer("path", ready_server)
    own = {"script": checkout / "deploy/services.sh", "SERVICES_STATE": ""}
    machine.run("up", "weaviate", **own)
    (checkout / ".services/.codelode-services").unlink()

    done = machine.run("down", **own)
    assert (done.returncode, done.stderr) == (0, "services: weaviate: stopped\n")
    assert not (checkout / ".services").exists()


# Releases


@pytest.mark.parametrize(
    ("server", "platform", "file"),
    [
        ("weaviate", "Linux x86_64", "weaviate-v{}-linux-amd64.tar.gz"),
        ("weaviate", "Linux aarch64", "weaviate-v{}-linux-arm64.tar.gz"),
        ("weaviate", "Darwin x86_64", "weaviate-v{}-darwin-all.zip"),
        ("weaviate", "Darwin arm64", "weaviate-v{}-darwin-all.zip"),
        ("ollama", "Linux amd64", "ollama-linux-amd64.tgz"),
        ("ollama", "Linux arm64", "ollama-linux-arm64.tgz"),
        ("ollama", "Darwin arm64", "ollama-darwin.tgz"),
    ],
)
def test_release_of_the_pinned_version_for_the_platform_is_requested(
    machine, server, platform, file
):
    machine.run("binary", server, SERVICES_WAYS="release", PLATFORM=platform)

    version = VERSIONS[server]
    releases = f"https://github.com/{server}/{server}/releases/download/v{version}"
    assert machine.asked("curl") == [f"{releases}/{file.format(version)}"]


@pytest.mark.parametrize("platform", ["Linux riscv64", "FreeBSD amd64"])
@pytest.mark.parametrize("server", PROGRAMS)
def test_nothing_is_requested_for_a_platform_without_a_release(machine, server, platform):
    done = machine.run("binary", server, SERVICES_WAYS="release", PLATFORM=platform)

    assert done.returncode == 1
    assert machine.asked("curl") == []


ARCHIVES = [
    pytest.param("weaviate", "Linux x86_64", "tar", "weaviate", id="weaviate-linux"),
    pytest.param("weaviate", "Darwin arm64", "zip", "weaviate", id="weaviate-darwin"),
    pytest.param("ollama", "Linux x86_64", "tar", "bin/ollama", id="ollama-linux"),
    pytest.param("ollama", "Darwin arm64", "tar", "ollama", id="ollama-darwin"),
]


@pytest.mark.parametrize(("server", "platform", "form", "member"), ARCHIVES)
def test_release_is_unpacked_and_downloaded_once(machine, server, platform, form, member):
    others = {"LICENSE": "", "README.md": f"about {server}", "lib/ollama/libggml-base.so": ""}
    machine.release({**others, member: SERVER}, form)
    where = {"PLATFORM": platform, "SERVICES_WAYS": "cache release"}

    first, second = (machine.run("binary", server, **where) for _ in range(2))

    path = machine.cached(server)
    assert first.stdout == second.stdout == f"{path}\n"
    assert path.read_text() == SERVER
    assert path.stat().st_mode & stat.S_IXUSR
    assert len(machine.asked("curl")) == 1


@pytest.mark.parametrize(("server", "platform", "form", "member"), ARCHIVES)
def test_interrupted_download_is_discarded_and_repeated(machine, server, platform, form, member):
    where = {"PLATFORM": platform, "SERVICES_WAYS": "cache release"}
    machine.release({member: SERVER}, form)
    (machine.folder / "breaks").touch()
    done = machine.run("binary", server, **where)
    assert (done.returncode, done.stdout) == (1, "")
    assert not machine.cached(server).exists()

    (machine.folder / "breaks").unlink()
    assert machine.run("binary", server, **where).returncode == 0
    assert machine.cached(server).read_text() == SERVER


@pytest.mark.parametrize(("server", "platform", "form", "member"), ARCHIVES)
def test_damaged_archive_is_not_installed(machine, server, platform, form, member):
    padding = "".join(chr(33 + at * at % 89) for at in range(200_000))
    machine.release({member: SERVER + padding}, form)
    released = machine.folder / "released"
    released.write_bytes(released.read_bytes()[:-600])

    done = machine.run("binary", server, PLATFORM=platform, SERVICES_WAYS="release")

    assert (done.returncode, done.stdout) == (1, "")
    assert not machine.cached(server).exists()


@pytest.mark.parametrize(("server", "platform", "form", "member"), ARCHIVES)
def test_files_of_an_interrupted_unpacking_are_not_installed(
    machine, server, platform, form, member
):
    machine.mark()
    machine.write(machine.state / f"{server}-release" / member, "half")
    machine.release({member: SERVER}, form)

    done = machine.run("binary", server, PLATFORM=platform, SERVICES_WAYS="release")

    assert done.returncode == 0
    assert machine.cached(server).read_text() == SERVER


@pytest.mark.parametrize("source", ["release", "go"])
def test_cache_contains_no_partial_program_if_the_file_system_is_full(
    machine, ready_server, source
):
    machine.offer(source, ready_server)
    machine.stub("mv", MV)
    done = machine.run("binary", "weaviate", SERVICES_WAYS=f"cache {source}")
    assert (done.returncode, done.stdout) == (1, "")

    assert [path for path in (machine.folder / "cache").rglob("*") if path.is_file()] == []


# Go


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ("1.25", False),
        ("1.25.9", False),
        ("1.9", False),
        ("1.26rc1", True),  # builds modules that require 1.26
        ("1.26", True),
        ("1.26.1", True),
        ("1.26.1-X:nodwarf5", True),
        ("1.100", True),
        ("2.0", True),
    ],
)
def test_weaviate_build_requires_go_1_26(machine, version, is_enough):
    machine.stub("go", GO)

    done = machine.run("binary", "weaviate", SERVICES_WAYS="go", GO_IS=f"go{version}")

    assert (done.returncode == 0) is is_enough
    assert len(machine.asked("go")[1:]) == 1
    assert ("go: too old" in done.stderr) is not is_enough


@pytest.mark.parametrize("server", PROGRAMS)
def test_pinned_version_is_built_once(machine, server):
    machine.stub("go", GO)

    first, second = (machine.run("binary", server, SERVICES_WAYS="cache go") for _ in range(2))

    path = machine.cached(server)
    assert first.stdout == second.stdout == f"{path}\n"
    assert path.read_text() == SERVER
    installs = [call for call in machine.asked("go") if not call.startswith("env")]
    assert installs == [f"install {MODULES[server]}@v{VERSIONS[server]}"]


def test_ollama_is_compiled_for_this_processor_by_any_version_of_go(machine):
    machine.stub("go", GO)
    machine.run("binary", "ollama", SERVICES_WAYS="go", GO_IS="go1.24.0")

    given = machine.go_environment()
    assert given["CGO_ENABLED"] == "1"
    flags = "-O3 -march=native -U__AMX_INT8__ -D_GNU_SOURCE"
    assert (given["CGO_CFLAGS"], given["CGO_CXXFLAGS"]) == (flags, flags)


@pytest.mark.parametrize("server", PROGRAMS)
def test_failed_build_leaves_nothing_in_the_cache_and_is_repeated(machine, server):
    machine.stub("go", GO)
    (machine.folder / "breaks").touch()
    done = machine.run("binary", server, SERVICES_WAYS="cache go")
    assert (done.returncode, done.stdout) == (1, "")
    assert "go: the build fails or does not start" in done.stderr
    assert not (machine.folder / "cache").exists()

    (machine.folder / "breaks").unlink()
    assert machine.run("binary", server, SERVICES_WAYS="cache go").returncode == 0
    assert machine.cached(server).read_text() == SERVER


def test_release_of_gitea_is_installed_without_unpacking(machine):
    (version,) = re.findall(r"^gitea_version=(\S+)", SCRIPT.read_text(), re.MULTILINE)
    (machine.folder / "released").write_text(SERVER)
    where = {"PLATFORM": "Linux x86_64", "SERVICES_WAYS": "cache release"}

    first, second = (machine.run("binary", "gitea", **where) for _ in range(2))

    path = machine.folder / f"cache/codelode/servers/gitea-{version}/gitea"
    assert first.stdout == second.stdout == f"{path}\n"
    assert path.read_text() == SERVER
    releases = f"https://github.com/go-gitea/gitea/releases/download/v{version}"
    assert machine.asked("curl") == [f"{releases}/gitea-{version}-linux-amd64"]
