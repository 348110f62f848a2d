"""Where the script gets a server from: the ways in their order, and what each of them promises.

`Machine` is all that a run of the script can reach. Its programs are small ones that do what the
real ones would and write down what they were asked: no network, no engine, no real server.
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
WAYS = ("configured", "compose", "path", "cache", "release", "go")
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

#: Is ready at once, for either server, and gone after a minute even where nothing stops it.
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

#: Asks this machine alone; of the world it knows the one file that is `released`. Ends as the real
#: one does: 22 for a page that is not there, 18 for a connection that broke.
CURL = f"""
case ${{*: -1}} in http://127.0.0.1:*) exec {shutil.which("curl")} "$@" ;; esac
echo "${{*: -1}}" >>"$MACHINE/asked/curl"
while [ "$1" != --output ]; do shift; done
[ -e "$MACHINE/released" ] || exit 22
[ ! -e "$MACHINE/breaks" ] || {{ head -c 100 "$MACHINE/released" >"$2"; exit 18; }}
cat "$MACHINE/released" >"$2"
"""

UNAME = 'case $1 in -s) echo "${PLATFORM% *}" ;; -m) echo "${PLATFORM#* }" ;; esac'

#: Writes as it goes, so that a build that fails has written half.
GO = """
echo "$*" >>"$MACHINE/asked/go"
[ "$1" = env ] && echo "$GO_IS" && exit
export -p >"$MACHINE/asked/go.environment"
name=${2%@*}; name=$GOBIN/${name##*/}
head -c 100 "$MACHINE/server" >"$name"; chmod +x "$name"
[ ! -e "$MACHINE/breaks" ] && cat "$MACHINE/server" >"$name"
"""

#: An engine is a folder; in it a container and its volume are files. Whoever wants to know what
#: Compose does to the file must give its variables.
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

#: As between two file systems where the second has no room: half of the file is copied.
MV = f"""
[[ $3 = $XDG_CACHE_HOME/* && $2 != $XDG_CACHE_HOME/* ]] || exec {shutil.which("mv")} "$@"
head -c 100 "$2" >"$3"; chmod +x "$3"; exit 1
"""

#: Becomes the parent of orphans and never asks after them, as the first process of many containers.
FIRST_PROCESS = """
import ctypes, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
for command in sys.argv[2:]:
    subprocess.run([sys.argv[1], *command.split()], check=True)
"""


class Machine:
    """One that has the tools of every machine, and the ways that a test offers."""

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
        # Without one it would be about the servers of the developer.
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

    def offer(self, way, url, server="weaviate"):
        """From now on `way` works; `url` answers where a server is configured or published."""
        match way:
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
        """There is an engine, which publishes at `url` what the Compose file says."""
        self.engine.mkdir()
        self.stub("docker", DOCKER)
        for name, service in CONTAINERS.items():
            for published in service["ports"]:
                target = published.rpartition(":")[2]
                port = GRPC_PORT if target == "50051" else url.rpartition(":")[2]
                self.write(self.folder / "published" / name / target, f"127.0.0.1:{port}\n")

    def release(self, files, form="tar"):
        """What is fetched from anywhere is an archive of these files."""
        with (self.folder / "released").open("wb") as out:
            (zipped if form == "zip" else tarred)(files, out)

    def mark(self):
        """As the script marks the folder that it writes to."""
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
        """What a program was asked, a line each time."""
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


def way_taken(done):
    """The word of WAYS for what was said of the server that is up."""
    said = done.stderr.replace("configured,", "(configured),").replace(
        "Docker Compose,", "(compose),"
    )
    ways = [way for way in WAYS if f"({way}), http://127.0.0.1:" in said]
    assert done.returncode == 0, done.stderr
    assert len(ways) == 1, done.stderr
    return ways[0]


# The order


@pytest.mark.parametrize("server", PROGRAMS)
@pytest.mark.parametrize("first", WAYS)
def test_the_first_way_that_works_is_taken_and_no_later_one_is_tried(
    machine, ready_server, first, server
):
    offered = WAYS[WAYS.index(first) :]
    for way in offered:
        machine.offer(way, ready_server, server)

    assert way_taken(machine.run("up", server)) == first
    tried = {"compose": "docker", "release": "curl", "go": "go"}
    assert not any(machine.asked(tried[way]) for way in offered[1:] if way in tried)


def test_the_ways_named_are_tried_in_their_order_and_no_others(machine, ready_server):
    for way in WAYS:
        machine.offer(way, ready_server)

    done = machine.run("up", "weaviate", SERVICES_WAYS="go cache")

    assert way_taken(done) == "go"
    assert not machine.asked("docker")
    assert not machine.asked("curl")


@pytest.mark.parametrize("way", ["path", "cache"])
def test_a_program_that_does_not_start_is_passed_over(machine, ready_server, way):
    machine.offer("go", ready_server)
    machine.offer(way, ready_server)
    for place in (machine.cached(), machine.folder / "bin/weaviate-server"):
        if place.exists():
            machine.write(place, "#!/bin/sh\nexit 1\n")

    done = machine.run("up", "weaviate")

    assert way_taken(done) == "go"
    assert "weaviate-server did not start, see " in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to Linux's first process")
def test_a_server_that_ended_is_not_waited_for_where_nobody_asks_after_it(machine, ready_server):
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
    assert way_taken(both) == "cache"
    assert both.stderr.endswith("weaviate: stopped\n")


def test_a_configured_server_that_does_not_answer_is_passed_over(machine, ready_server):
    machine.offer("configured", "http://127.0.0.1:1")
    machine.offer("cache", ready_server)

    assert way_taken(machine.run("up", "weaviate")) == "cache"


# Docker Compose


@pytest.mark.parametrize("trouble", ["lacks compose", "lacks the image", "finds it unhealthy"])
def test_an_engine_that_does_not_start_the_server_is_passed_over(machine, ready_server, trouble):
    machine.offer("compose", ready_server)
    machine.offer("cache", ready_server)
    (machine.engine / trouble).touch()

    assert way_taken(machine.run("up", "weaviate")) == "cache"


def test_a_docker_without_an_engine_is_passed_over(machine, ready_server):
    machine.stub("docker", DOCKER)
    machine.offer("cache", ready_server)

    assert way_taken(machine.run("up", "weaviate")) == "cache"
    assert machine.asked("docker") == ["info"]


@pytest.mark.parametrize("port", ["127.0.0.1:1\n", ""], ids=["elsewhere", "untold"])
def test_a_container_that_cannot_be_reached_from_here_is_passed_over(machine, ready_server, port):
    machine.offer("compose", ready_server)
    machine.offer("cache", ready_server)
    machine.write(machine.folder / "published/weaviate/8080", port)

    assert way_taken(machine.run("up", "weaviate")) == "cache"


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


def test_what_compose_is_given_is_this_repositorys(machine, ready_server):
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


def test_each_state_folder_has_a_project_of_its_own(machine, ready_server, tmp_path):
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
def test_what_was_started_before_projects_had_names_of_their_own_keeps_its_name(
    machine, ready_server, command
):
    machine.offer("compose", ready_server)
    machine.mark()
    machine.write(machine.state / "composed", "")

    machine.run(command, "ollama")
    calls = [call for call in machine.asked("docker") if "--file" in call]
    assert calls
    assert all("--project-name codelode-services " in call for call in calls)


def test_down_finds_the_project_however_its_state_folder_is_written(machine, ready_server):
    machine.offer("compose", ready_server)
    machine.run("up")

    machine.run("down", SERVICES_STATE=f"{machine.state}/")
    assert list(machine.engine.iterdir()) == []


def test_down_takes_down_what_compose_started_with_its_volumes(machine, ready_server):
    machine.offer("compose", ready_server)
    machine.run("up")
    assert len(list(machine.engine.iterdir())) == 4

    assert machine.run("down").returncode == 0
    assert list(machine.engine.iterdir()) == []
    assert not machine.state.exists()


def test_down_takes_down_what_compose_began_and_gave_up(machine, ready_server):
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
def test_what_compose_does_not_take_down_is_told_and_the_next_down_takes_it(
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


def test_where_docker_is_gone_for_good_down_does_the_rest_as_it_says(machine, ready_server):
    machine.offer("compose", ready_server)
    machine.run("up")
    with removed(machine):
        (said,) = machine.run("down").stderr.splitlines()
        assert said.endswith(f"if it is gone for good, remove {machine.state}/composed first")
        (machine.state / "composed").unlink()

        assert machine.run("down").returncode == 0
        assert not machine.state.exists()


def test_a_program_is_stopped_even_where_compose_takes_nothing_down(machine, ready_server):
    machine.offer("path", ready_server)
    machine.run("up", "weaviate", SERVICES_WAYS="path")
    machine.offer("compose", ready_server)
    machine.run("up", "ollama")
    with stopped(machine):
        done = machine.run("down")

        assert done.returncode == 1
        assert done.stderr.endswith("weaviate: stopped\n")
        assert not (machine.state / "weaviate.pid").exists()


def test_down_leaves_compose_alone_where_it_started_nothing(machine, ready_server):
    machine.offer("path", ready_server)
    machine.run("up", "weaviate")
    machine.offer("compose", ready_server)
    (machine.engine / "weaviate.container").touch()

    machine.run("down")
    assert machine.asked("docker") == []


def test_what_compose_publishes_is_for_this_machine_alone():
    published = [port for service in CONTAINERS.values() for port in service["ports"]]

    assert sorted(published) == ["127.0.0.1::11434", "127.0.0.1::50051", "127.0.0.1::8080"]
    assert not any("network_mode" in service for service in CONTAINERS.values())


# The state folder


@pytest.mark.parametrize("command", ["up weaviate", "binary weaviate", "down"])
@pytest.mark.parametrize("holds", ["notes", ".hidden", "weaviate/schema.db", "weaviate.pid"])
def test_a_folder_with_the_files_of_others_is_left_as_it_is(machine, ready_server, command, holds):
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
def test_what_is_no_folder_is_left_as_it_is(machine, ready_server, command):
    machine.offer("path", ready_server)
    file = machine.write(machine.folder / "notes", "of others")

    assert machine.run(*command.split(), SERVICES_STATE=str(file)).returncode == 1
    assert file.read_text() == "of others"


def test_an_empty_folder_is_used_and_removed(machine, ready_server):
    machine.state.mkdir()
    machine.offer("path", ready_server)

    assert way_taken(machine.run("up", "weaviate")) == "path"
    assert machine.run("down").returncode == 0
    assert not machine.state.exists()


def test_down_where_nothing_was_ever_up_does_nothing(machine):
    done = machine.run("down")

    assert (done.returncode, done.stderr) == (0, "")
    assert not machine.state.exists()


def test_what_a_failed_up_left_is_removed(machine):
    assert machine.run("up", "weaviate").returncode == 1
    assert machine.state.exists()

    assert machine.run("down").returncode == 0
    assert not machine.state.exists()


def test_the_folder_of_the_checkout_is_its_own_without_a_mark(machine, ready_server):
    """It was there before marks were."""
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


# The project's release


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
def test_the_release_of_the_pinned_version_for_this_platform_is_asked_for(
    machine, server, platform, file
):
    machine.run("binary", server, SERVICES_WAYS="release", PLATFORM=platform)

    version = VERSIONS[server]
    releases = f"https://github.com/{server}/{server}/releases/download/v{version}"
    assert machine.asked("curl") == [f"{releases}/{file.format(version)}"]


@pytest.mark.parametrize("platform", ["Linux riscv64", "FreeBSD amd64"])
@pytest.mark.parametrize("server", PROGRAMS)
def test_for_a_platform_without_a_release_none_is_asked_for(machine, server, platform):
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
def test_a_release_is_unpacked_and_fetched_once(machine, server, platform, form, member):
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
def test_a_download_that_breaks_is_no_program_and_is_fetched_again(
    machine, server, platform, form, member
):
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
def test_an_archive_that_is_damaged_yields_no_program(machine, server, platform, form, member):
    padding = "".join(chr(33 + at * at % 89) for at in range(200_000))
    machine.release({member: SERVER + padding}, form)
    released = machine.folder / "released"
    released.write_bytes(released.read_bytes()[:-600])

    done = machine.run("binary", server, PLATFORM=platform, SERVICES_WAYS="release")

    assert (done.returncode, done.stdout) == (1, "")
    assert not machine.cached(server).exists()


@pytest.mark.parametrize(("server", "platform", "form", "member"), ARCHIVES)
def test_what_an_unpacking_that_was_cut_off_left_is_not_taken(
    machine, server, platform, form, member
):
    machine.mark()
    machine.write(machine.state / f"{server}-release" / member, "half")
    machine.release({member: SERVER}, form)

    done = machine.run("binary", server, PLATFORM=platform, SERVICES_WAYS="release")

    assert done.returncode == 0
    assert machine.cached(server).read_text() == SERVER


@pytest.mark.parametrize("way", ["release", "go"])
def test_a_cache_that_runs_full_holds_no_half_program(machine, ready_server, way):
    machine.offer(way, ready_server)
    machine.stub("mv", MV)
    done = machine.run("binary", "weaviate", SERVICES_WAYS=f"cache {way}")
    assert (done.returncode, done.stdout) == (1, "")

    assert [path for path in (machine.folder / "cache").rglob("*") if path.is_file()] == []


# Go


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ("1.25", False),
        ("1.25.9", False),
        ("1.9", False),
        ("1.26rc1", True),  # it builds modules that ask for 1.26
        ("1.26", True),
        ("1.26.1", True),
        ("1.26.1-X:nodwarf5", True),
        ("1.100", True),
        ("2.0", True),
    ],
)
def test_weaviate_is_built_by_go_from_version_1_26_on(machine, version, is_enough):
    machine.stub("go", GO)

    done = machine.run("binary", "weaviate", SERVICES_WAYS="go", GO_IS=f"go{version}")

    assert (done.returncode == 0) is is_enough
    assert len(machine.asked("go")[1:]) == 1
    assert ("go: too old" in done.stderr) is not is_enough


@pytest.mark.parametrize("server", PROGRAMS)
def test_the_pinned_version_is_built_and_built_once(machine, server):
    machine.stub("go", GO)

    first, second = (machine.run("binary", server, SERVICES_WAYS="cache go") for _ in range(2))

    path = machine.cached(server)
    assert first.stdout == second.stdout == f"{path}\n"
    assert path.read_text() == SERVER
    installs = [call for call in machine.asked("go") if not call.startswith("env")]
    assert installs == [f"install {MODULES[server]}@v{VERSIONS[server]}"]


def test_ollama_is_compiled_for_this_processor_by_any_go(machine):
    machine.stub("go", GO)
    machine.run("binary", "ollama", SERVICES_WAYS="go", GO_IS="go1.24.0")

    given = machine.go_environment()
    assert given["CGO_ENABLED"] == "1"
    flags = "-O3 -march=native -U__AMX_INT8__ -D_GNU_SOURCE"
    assert (given["CGO_CFLAGS"], given["CGO_CXXFLAGS"]) == (flags, flags)


@pytest.mark.parametrize("server", PROGRAMS)
def test_a_build_that_fails_leaves_nothing_in_the_cache_and_is_done_again(machine, server):
    machine.stub("go", GO)
    (machine.folder / "breaks").touch()
    done = machine.run("binary", server, SERVICES_WAYS="cache go")
    assert (done.returncode, done.stdout) == (1, "")
    assert "go: the build fails or does not start" in done.stderr
    assert not (machine.folder / "cache").exists()

    (machine.folder / "breaks").unlink()
    assert machine.run("binary", server, SERVICES_WAYS="cache go").returncode == 0
    assert machine.cached(server).read_text() == SERVER


def test_the_release_of_gitea_is_the_program_itself(machine):
    (version,) = re.findall(r"^gitea_version=(\S+)", SCRIPT.read_text(), re.MULTILINE)
    (machine.folder / "released").write_text(SERVER)
    where = {"PLATFORM": "Linux x86_64", "SERVICES_WAYS": "cache release"}

    first, second = (machine.run("binary", "gitea", **where) for _ in range(2))

    path = machine.folder / f"cache/codelode/servers/gitea-{version}/gitea"
    assert first.stdout == second.stdout == f"{path}\n"
    assert path.read_text() == SERVER
    releases = f"https://github.com/go-gitea/gitea/releases/download/v{version}"
    assert machine.asked("curl") == [f"{releases}/gitea-{version}-linux-amd64"]
